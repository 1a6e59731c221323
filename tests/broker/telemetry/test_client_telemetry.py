"""Requests about client metrics: what is pushed is on the page, and what is made to hurt is refused, or left out."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from broker.network.request_context import RequestContext
from broker.telemetry import client_telemetry
from broker.telemetry.client_telemetry import ClientTelemetry
from broker.telemetry.subscriptions import subscription
from broker.telemetry.unfolding import Left
from config.broker import BrokerSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.primitives import ZERO_UUID
from protocol.records.compression import Compression, compress
from runtime.slices import SerialQueue
from tests.broker.contexts import context_of
from tests.doubles.clock import ManualClock
from tests.doubles.otlp import gauge, pushed

INTERVAL_MS = 1_000
MiB = 1024 * 1024


async def at_once(job: Callable[[], object]) -> object:
    return job()


class World:
    """A broker whose only subscription asks for everything, once a second; each client has its own connection."""

    def __init__(self, **settings: str) -> None:
        self.clock = ManualClock(1_000_000)
        given = {f"barnabas.client.metrics.{name.replace('_', '.')}": value for name, value in settings.items()}
        broker = BrokerSettings(given)
        queue = SerialQueue(self.clock, asyncio.get_running_loop().call_soon)
        self.telemetry = ClientTelemetry(lambda: broker, self.clock, Random(1), queue, at_once)
        row = {"metrics": "*", "interval.ms": str(INTERVAL_MS)}
        self.telemetry.subscriptions.replace({"all": subscription("all", row)})
        self.context = self.connect("app")

    def connect(self, client_id: str) -> RequestContext:
        made = context_of(client_id=client_id, software=("java", "4.3.0"))
        made.connection.connection_id = client_id
        return made

    def ask(
        self, context: RequestContext | None = None, instance_id: bytes = ZERO_UUID
    ) -> GetTelemetrySubscriptionsResponse:
        return self.telemetry.ask(
            GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), context or self.context
        )

    async def push(
        self,
        metrics: bytes,
        codec: int = Compression.NONE,
        *,
        to: GetTelemetrySubscriptionsResponse | None = None,
        context: RequestContext | None = None,
        **fields: Any,
    ) -> str:
        """Push in the next interval, and return the error's name."""
        self.clock.now_ms += INTERVAL_MS
        to = to or self.ask(context)
        request = PushTelemetryRequest(
            client_instance_id=to.client_instance_id,
            subscription_id=to.subscription_id,
            terminating=False,
            compression_type=codec,
            metrics=metrics,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return ErrorCode(await self.telemetry.push(request, context or self.context)).name

    def page(self) -> str:
        return "".join(self.telemetry.series.page())


async def test_what_is_pushed_is_on_the_page() -> None:
    world = World()
    for codec in Compression:
        assert await world.push(compress(codec, pushed(gauge(f"org.{codec.name}", codec))), codec) == "NONE"
    page = world.page()
    for codec in Compression:
        assert f"org_{codec.name}{{" in page
    assert 'client_software_name="java",client_software_version="4.3.0",client_source_address="127.0.0.1"' in page
    assert world.telemetry.pushes_count == len(Compression)


async def test_requests_that_are_refused() -> None:
    world = World()
    told = world.ask()
    with pytest.raises(KafkaError) as early:
        world.ask(instance_id=told.client_instance_id)
    assert early.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    some = pushed(gauge("g", 1))
    assert await world.push(some, client_instance_id=ZERO_UUID) == "INVALID_REQUEST"
    assert await world.push(some, subscription_id=7) == "UNKNOWN_SUBSCRIPTION_ID"
    assert await world.push(b"no protobuf") == "INVALID_RECORD"
    assert await world.push(b"no zstd", Compression.ZSTD) == "INVALID_RECORD"
    assert await world.push(bytes(MiB + 1)) == "TELEMETRY_TOO_LARGE"
    telemetry = world.telemetry
    assert (telemetry.throttled_count, telemetry.unknown_subscriptions_count, telemetry.refused_count) == (1, 1, 2)
    assert world.page() == ""


async def test_a_client_that_has_gone_is_forgotten_and_its_series_are_not() -> None:
    world = World()
    assert await world.push(pushed(gauge("g", 1))) == "NONE"
    assert len(world.telemetry.instances) == 1
    (callback,) = world.context.connection.closed_callbacks
    callback()
    assert (len(world.telemetry.instances), len(world.telemetry.series)) == (0, 1)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
async def test_a_bomb_takes_no_more_memory_than_it_may(codec: Compression) -> None:
    world = World()
    bomb = compress(codec, bytes(60 * MiB if codec is not Compression.SNAPPY else 15 * MiB))
    assert len(bomb) < MiB
    tracemalloc.start()
    try:
        assert await world.push(bomb, codec) == "TELEMETRY_TOO_LARGE"
        assert tracemalloc.get_traced_memory()[1] < 24 * MiB
    finally:
        tracemalloc.stop()


def nested(*parts: tuple[int, bytes]) -> bytes:
    """Fields with a length, whose content has up to 2^28 bytes."""
    data = b""
    for number, content in parts:
        size = len(content)
        groups = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80, size >> 21])
        data += bytes([number << 3 | 2]) + groups + content
    return data


EMPTY_METRICS = nested((1, nested((2, b"\x12\x00" * 300_000))))
EMPTY_POINTS = nested((1, nested((2, nested(*[(2, b"\x0a\x01g" + nested((5, b"\x0a\x00" * 50_000)))] * 8)))))


@pytest.mark.parametrize("bomb", [b"\x0a\x00" * 400_000, EMPTY_METRICS, EMPTY_POINTS])
async def test_ever_more_empty_parts_are_not_all_looked_at(bomb: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_telemetry, "ITEMS_MAX", 1_000)
    world = World()
    assert await world.push(bomb) == "NONE"
    assert world.telemetry.series.left[Left.SIZE] == 1
    assert len(world.telemetry.series) <= 1


async def test_ever_new_clients_are_left_out_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    world = World(clients_max="2")
    caplog.set_level(logging.WARNING)
    for number in range(10):
        assert await world.push(pushed(gauge("g", 1)), context=world.connect(f"app{number}")) == "NONE"
    assert world.telemetry.series.clients_count == 2
    assert [record.getMessage() for record in caplog.records] == ["client metrics left out: points=1 reasons=clients:1"]
    world.clock.now_ms += client_telemetry.LOG_INTERVAL_MS
    await world.push(pushed(gauge("g", 1)), context=world.connect("late"))
    assert caplog.records[-1].getMessage() == "client metrics left out: points=7 reasons=clients:8"


async def test_who_was_asked_for_nothing_takes_no_place() -> None:
    world = World(clients_max="1")
    row = {"metrics": "org.", "match": "client_id=asked"}
    world.telemetry.subscriptions.replace({"some": subscription("some", row)})
    for number in range(3):
        await world.push(pushed(gauge("org.a", 1)), context=world.connect(f"app{number}"))
    await world.push(pushed(gauge("com.a", 1)), context=world.connect("asked"))
    assert world.telemetry.series.left == {Left.NOT_ASKED: 4}
    assert world.telemetry.series.clients_count == 0
    await world.push(pushed(gauge("org.a", 1)), context=world.connect("asked"))
    assert world.telemetry.series.clients_count == 1


async def test_names_of_clients_are_cut_and_readable() -> None:
    world = World()
    await world.push(pushed(gauge("g", 1)), context=world.connect("\udcff" + "x" * 1_000))
    world.page().encode()
    assert len(world.page()) < 2_000
