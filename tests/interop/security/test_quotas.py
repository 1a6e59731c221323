"""Quotas that Apache Kafka's tool and any client set are the same, and hold: what a client may have is what it gets."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tests.differential.cases.client_quotas import ANY, CLIENT, CONNECTIONS, IP, USER, Entity, Values, altering
from tests.differential.wire import Wire
from tests.interop.conftest import need_java
from tests.oracle import tools
from tests.oracle.machine import Limits
from tests.oracle.versions import newest_version

pytestmark = [pytest.mark.interop, pytest.mark.oracle, pytest.mark.timeout(300)]

Fresh = Callable[[str], str]
QUOTA_BYTES_PER_SECOND = 200_000
# A client may begin with what ten windows allow at once.
WARM_UP_S = 13


def configs(bootstrap: str, *arguments: str) -> str:
    return tools.run("configs", ["--bootstrap-server", bootstrap, *arguments])


def asked(bootstrap: str, request: Any) -> Any:
    host, _, port = bootstrap.partition(":")
    wire = Wire(host, int(port))
    try:
        return wire.ask(request, newest_version(request))
    finally:
        wire.close()


def described(bootstrap: str, kind: str) -> dict[str, dict[str, float]]:
    """The quotas of the entities with a name of this type."""
    component = ComponentData(entity_type=kind, match_type=ANY, match=None)
    response: DescribeClientQuotasResponse = asked(
        bootstrap, DescribeClientQuotasRequest(components=[component], strict=False)
    )
    return {
        ",".join(sorted(f"{part.entity_type}={part.entity_name}" for part in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries or []
    }


def test_what_the_tool_sets_is_there(bootstrap: str, fresh: Fresh) -> None:
    need_java()
    user, client = fresh("us er/1"), fresh("app*1")
    rates = "producer_byte_rate=1000000,consumer_byte_rate=2000000,request_percentage=200,controller_mutation_rate=10"
    configs(bootstrap, "--alter", "--add-config", rates, "--entity-type", "users", "--entity-name", user)
    configs(
        bootstrap, "--alter", "--add-config", "producer_byte_rate=3000000", "--entity-type", "users", "--entity-name",
        user, "--entity-type", "clients", "--entity-name", client,
    )  # fmt: skip
    configs(
        bootstrap, "--alter", "--add-config", "producer_byte_rate=4000000", "--entity-type", "users", "--entity-name",
        user, "--entity-type", "clients", "--entity-default",
    )  # fmt: skip
    configs(
        bootstrap, "--alter", "--add-config", f"{CONNECTIONS}=100", "--entity-type", "ips", "--entity-name", "10.7.7.7"
    )
    found = described(bootstrap, USER)
    assert found[f"user={user}"] == {
        "producer_byte_rate": 1e6, "consumer_byte_rate": 2e6, "request_percentage": 200, "controller_mutation_rate": 10
    }  # fmt: skip
    assert found[f"client-id={client},user={user}"] == {"producer_byte_rate": 3e6}
    assert found[f"client-id=None,user={user}"] == {"producer_byte_rate": 4e6}
    assert described(bootstrap, IP)["ip=10.7.7.7"] == {CONNECTIONS: 100}
    keys = "producer_byte_rate,consumer_byte_rate,request_percentage,controller_mutation_rate"
    configs(bootstrap, "--alter", "--delete-config", keys, "--entity-type", "users", "--entity-name", user)
    configs(bootstrap, "--alter", "--delete-config", CONNECTIONS, "--entity-type", "ips", "--entity-name", "10.7.7.7")
    assert f"user={user}" not in described(bootstrap, USER)
    assert "ip=10.7.7.7" not in described(bootstrap, IP)


def test_what_is_set_the_tool_shows(bootstrap: str, fresh: Fresh) -> None:
    need_java()
    user, client = fresh("alice"), fresh("app")
    changes: list[tuple[Entity, Values]] = [
        ({USER: user}, {"producer_byte_rate": 1e6}),
        ({CLIENT: client}, {"request_percentage": 150.5}),
        ({USER: user, CLIENT: client}, {"consumer_byte_rate": 2e6}),
        ({IP: "10.7.7.8"}, {CONNECTIONS: 5}),
    ]
    response = asked(bootstrap, altering(*changes))
    assert [entry.error_code for entry in response.entries] == [0] * 4
    shown = configs(bootstrap, "--describe", "--entity-type", "users", "--entity-name", user)
    assert f"user-principal '{user}' are producer_byte_rate=1000000.0" in shown
    shown = configs(bootstrap, "--describe", "--entity-type", "clients", "--entity-name", client)
    assert f"client-id '{client}' are request_percentage=150.5" in shown
    both = ["--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-name", client]
    shown = configs(bootstrap, "--describe", *both)
    assert re.search(r"are consumer_byte_rate=2000000\.0", shown), shown
    shown = configs(bootstrap, "--describe", "--entity-type", "ips", "--entity-name", "10.7.7.8")
    assert f"ip '10.7.7.8' are {CONNECTIONS}=5.0" in shown


# --- rates ---


@dataclass
class Measured:
    """What a client got, after its warm-up."""

    size_bytes: int = 0
    began_s: float = 0.0

    def add(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes


def limit(bootstrap: str, client: str, key: str) -> None:
    response = asked(bootstrap, altering(({CLIENT: client}, {key: float(QUOTA_BYTES_PER_SECOND)})))
    assert [entry.error_code for entry in response.entries] == [0]


def produce_for(bootstrap: str, client: str, topic: str, warm_up_s: float, duration_s: float) -> float:
    """Bytes a second of a producer that sends all it may."""
    payload, got = bytes(5_000), Measured()
    begin_s = time.monotonic() + warm_up_s
    producer = Producer({
        "bootstrap.servers": bootstrap, "client.id": client, "linger.ms": 5, "queue.buffering.max.kbytes": 256,
        "batch.size": 20_000, "message.timeout.ms": 60_000,
    })  # fmt: skip

    refused: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            refused.append(error)
        elif time.monotonic() >= begin_s:
            got.add(len(payload))

    while time.monotonic() < begin_s + duration_s:
        try:
            producer.produce(topic, payload, on_delivery=delivered)
        except BufferError:
            producer.poll(0.1)
        producer.poll(0)
    rate = got.size_bytes / duration_s
    assert not refused, refused[:3]
    producer.purge()  # what is left is refused now
    producer.poll(0)
    return rate


def consume_for(bootstrap: str, client: str, topic: str, warm_up_s: float, duration_s: float) -> float:
    """Bytes a second of a consumer that reads all it may. A fetch is two of the batches of `fill`: a part of a third would
    count for the quota, and be read again."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "client.id": client, "group.id": client, "fetch.queue.backoff.ms": 10,
        "fetch.message.max.bytes": 30_500, "enable.auto.commit": False,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    begin_s, got = time.monotonic() + warm_up_s, Measured()
    while (now_s := time.monotonic()) < begin_s + duration_s:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None and now_s >= begin_s:
            got.add(len(message.value()))
    consumer.close()
    return got.size_bytes / duration_s


def make_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (made,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    made.result(30)


def fill(bootstrap: str, topic: str, size_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "filler", "batch.size": 20_000})
    for _ in range(size_bytes // 5_000):
        producer.produce(topic, bytes(5_000))
        producer.poll(0)
    assert producer.flush(60) == 0


def assert_is_quota(measure: Callable[[], float]) -> None:
    """More is never given; less, by a machine that has no time for the client."""
    limits = Limits()
    rate = measure()
    assert rate < QUOTA_BYTES_PER_SECOND * 1.15
    limits.check(kept=rate > QUOTA_BYTES_PER_SECOND * 0.85, told=f"{rate:.0f} bytes a second")


def test_a_producer_above_its_quota_is_slowed_down(bootstrap: str, fresh: Fresh) -> None:
    """The short form: it gets what ten windows allow at once, and then little more."""
    topic, client = fresh("topic"), fresh("fast")
    make_topic(bootstrap, topic)
    limit(bootstrap, client, "producer_byte_rate")
    rate = produce_for(bootstrap, client, topic, 0, 8)
    assert 10 * QUOTA_BYTES_PER_SECOND * 0.8 < rate * 8 < 20 * QUOTA_BYTES_PER_SECOND


@pytest.mark.long
def test_the_mean_rate_of_a_producer_is_its_quota(bootstrap: str, fresh: Fresh) -> None:
    topic, client = fresh("topic"), fresh("fast")
    make_topic(bootstrap, topic)
    limit(bootstrap, client, "producer_byte_rate")
    assert_is_quota(lambda: produce_for(bootstrap, client, topic, WARM_UP_S, 60))


@pytest.mark.long
def test_the_mean_rate_of_a_consumer_is_its_quota(bootstrap: str, fresh: Fresh) -> None:
    topic, client = fresh("topic"), fresh("fast")
    make_topic(bootstrap, topic)
    fill(bootstrap, topic, (WARM_UP_S + 60 + 15) * QUOTA_BYTES_PER_SECOND)
    limit(bootstrap, client, "consumer_byte_rate")
    assert_is_quota(lambda: consume_for(bootstrap, client, topic, WARM_UP_S, 60))
