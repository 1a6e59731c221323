"""Clients that push what no client would: others are served, and the memory of the broker stays bounded."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial

import pytest

from protocol.errors import ErrorCode
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.primitives import ZERO_UUID
from protocol.records.compression import Compression, compress
from tests.differential.newer.client_metrics import altering
from tests.doubles.otlp import gauge, pushed
from tests.oracle.ports import lasting_port
from tests.robustness.bounds import bounded
from tests.robustness.process import BrokerProcess, MiB
from tests.robustness.wire import Wire, carries_within_ms, create_topic

CLIENTS_MAX = 50
MEMORY_BYTES = 8 * MiB
LONG = "v" * 200


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings: dict[str, object] = {
        "barnabas.http.port": lasting_port(),
        "barnabas.client.metrics.clients.max": CLIENTS_MAX,
        "barnabas.client.metrics.memory.bytes": MEMORY_BYTES,
    }
    with BrokerProcess(tmp_path_factory.mktemp("hostile-telemetry"), settings) as running:
        create_topic(running, "good")
        with Wire(running) as wire:
            subscribed = wire.ask(altering("all", {"metrics": "*", "interval.ms": "100"}), 1)
        assert subscribed.responses[0].error_code == 0
        yield running
    assert "Traceback" not in running.log
    assert "level=error" not in running.log


def good_clients(broker: BrokerProcess) -> AbstractContextManager[None]:
    return bounded(broker, partial(carries_within_ms, topic="good"))


def page(broker: BrokerProcess) -> str:
    with urllib.request.urlopen(
        f"http://127.0.0.1:{broker.settings['barnabas.http.port']}/metrics/clients", timeout=60
    ) as answer:
        content: str = answer.read().decode()
        return content


class Client:
    """A client that has asked what to push; it may push once at once."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        told = wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
        self.instance_id, self.subscription_id = told.client_instance_id, told.subscription_id

    def push(self, metrics: bytes, codec: int = Compression.NONE) -> str:
        request = PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=self.subscription_id,
            terminating=False,
            compression_type=codec,
            metrics=metrics,
        )
        return ErrorCode(self.wire.ask(request, 0).error_code).name


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_bombs(broker: BrokerProcess, codec: Compression) -> None:
    bomb = compress(codec, bytes(60 * MiB))
    with good_clients(broker), Wire(broker) as wire:
        for _ in range(3):
            assert Client(wire).push(bomb, codec) == "TELEMETRY_TOO_LARGE"


@pytest.mark.parametrize(
    "part", [b"\x0a\x00", b"\x0a\x02\x12\x00", b"\x0a\x04\x12\x02\x12\x00", b"\x0a\x06\x12\x04\x12\x02\x2a\x00"]
)
def test_megabytes_of_empty_parts(broker: BrokerProcess, part: bytes) -> None:
    many = compress(Compression.ZSTD, part * (4 * MiB // len(part)))
    with good_clients(broker), Wire(broker) as wire:
        for _ in range(2):
            assert Client(wire).push(many, Compression.ZSTD) == "NONE"


def test_ever_new_values_of_labels_and_ever_new_clients(broker: BrokerProcess) -> None:
    with good_clients(broker), Wire(broker) as wire:
        for number in range(10):
            rows = [gauge(f"m{row % 10}", 1, user=f"{number}-{row}-{LONG}") for row in range(2_000)]
            assert Client(wire).push(compress(Compression.ZSTD, pushed(*rows)), Compression.ZSTD) == "NONE"
        for _ in range(2 * CLIENTS_MAX):
            assert Client(wire).push(pushed(gauge("m", 1))) == "NONE"
        content = page(broker)
    assert content.count("barnabas_client_info{") <= CLIENTS_MAX
    assert MiB < len(content) < MEMORY_BYTES
    assert broker.log.count("client metrics left out") <= 2


def test_pushes_of_others_and_too_many(broker: BrokerProcess) -> None:
    with good_clients(broker), Wire(broker) as wire:
        client = Client(wire)
        some = pushed(gauge("g", 1))
        outcomes = {client.push(some) for _ in range(300)}
        client.subscription_id += 1
        outcomes |= {client.push(some) for _ in range(300)}
        client.instance_id = ZERO_UUID
        outcomes.add(client.push(some))
        assert outcomes <= {"NONE", "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_SUBSCRIPTION_ID", "INVALID_REQUEST"}
        assert {"NONE", "THROTTLING_QUOTA_EXCEEDED", "INVALID_REQUEST"} <= outcomes
        for _ in range(1_000):
            Client(wire)
