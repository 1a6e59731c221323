"""Clients that are not ours use a relay over a broker of ours, Apache Kafka 3.9.1 and 4.3.0: each record comes once, in time.

Two relay processes share the work; one is killed while records wait and are delivered.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from protocol.key_hashes import by_murmur2
from tests.interop.conftest import need_java
from tests.oracle import tools
from tests.oracle.barnabas import REPOSITORY, Barnabas
from tests.oracle.kafka import ApacheKafka
from tests.oracle.kraft import KraftKafka
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(240)]

PATIENCE_S = 90.0
COUNT = 120
PARTITIONS = 3
DELAYS_MS = (300, 1_500, 3_000, 5_000)
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
RELAY = {
    "barnabas.relay.session.timeout.ms": "6000",
    "barnabas.relay.transaction.timeout.ms": "4000",
    "barnabas.relay.partitions": "2",
    "barnabas.relay.near.ms": "1000",
}
"""What is due in more than a second waits in a bucket."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that is to be delivered at `due_ms` or, with a delay after its own timestamp, a moment later."""

    key: str
    value: str
    headers: dict[str, str]
    due_ms: int


@dataclass(frozen=True, slots=True)
class Came:
    partition: int
    timestamp_ms: int
    key: str
    value: str


class Confluent:
    """librdkafka."""

    def send(self, servers: str, topic: str, records: list[Sent]) -> None:
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        for each in records:
            producer.produce(topic, each.value, each.key, headers=dict(each.headers))
        assert producer.flush(PATIENCE_S) == 0

    def read(self, servers: str, topic: str, count: int) -> list[Came]:
        consumer = Consumer({
            "bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        })  # fmt: skip
        consumer.subscribe([topic])
        found: list[Came] = []
        deadline = time.monotonic() + PATIENCE_S
        # A moment longer than needed: what comes twice comes behind the rest.
        while time.monotonic() < deadline:
            messages = [each for each in consumer.consume(100, 2.0) if each.error() is None]
            found += [
                Came(each.partition(), each.timestamp()[1], each.key().decode(), each.value().decode())
                for each in messages
            ]
            if len(found) >= count and not messages:
                break
        consumer.close()
        return found


class KafkaPython:
    def send(self, servers: str, topic: str, records: list[Sent]) -> None:
        producer = KafkaProducer(bootstrap_servers=servers)
        for each in records:
            headers = [(name, text.encode()) for name, text in each.headers.items()]
            producer.send(topic, each.value.encode(), each.key.encode(), headers=headers)
        producer.flush(PATIENCE_S)
        producer.close()

    def read(self, servers: str, topic: str, count: int) -> list[Came]:
        consumer = KafkaConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed",
            consumer_timeout_ms=3_000, group_id=None,
        )  # fmt: skip
        found: list[Came] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            found += [Came(each.partition, each.timestamp, each.key.decode(), each.value.decode()) for each in consumer]
        consumer.close()
        return found


class Console:
    """Apache Kafka's console producer and consumer."""

    def send(self, servers: str, topic: str, records: list[Sent]) -> None:
        lines = [
            f"{','.join(f'{name}:{text}' for name, text in each.headers.items())}\t{each.key}\t{each.value}"
            for each in records
        ]
        arguments = ["--bootstrap-server", servers, "--topic", topic]
        for given in ("parse.headers=true", "parse.key=true"):
            arguments += ["--property", given]
        tools.run("console-producer", arguments, standard_input="".join(f"{line}\n" for line in lines))

    def read(self, servers: str, topic: str, count: int) -> list[Came]:
        arguments = ["--bootstrap-server", servers, "--topic", topic, "--from-beginning", "--isolation-level"]
        arguments += ["read_committed", "--timeout-ms", "15000"]
        for given in ("print.key=true", "print.timestamp=true", "print.partition=true"):
            arguments += ["--property", given]
        output = tools.run("console-consumer", arguments, timeout_s=PATIENCE_S, check=False)
        found = []
        for line in output.splitlines():
            fields = line.split("\t")
            if len(fields) == 4:
                stamp, partition, key, value = fields
                found.append(Came(int(partition.split(":")[1]), int(stamp.split(":")[1]), key, value))
        return found


CLIENTS = {"confluent": Confluent, "kafka-python": KafkaPython, "console": Console}


@contextmanager
def broker(name: str) -> Iterator[str]:
    if name == "barnabas":
        with Barnabas(SETTINGS) as ours:
            yield ours.bootstrap_servers
        return
    need_java()
    with ApacheKafka(SETTINGS) if name == "kafka" else KraftKafka(SETTINGS) as reference:
        yield reference.bootstrap_servers


class Relay:
    """A relay process."""

    def __init__(self, servers: str, folder: Path, name: str) -> None:
        settings = {"bootstrap.servers": servers, "barnabas.relay.name": name, **RELAY}
        path = folder / f"{uuid.uuid4().hex}.properties"
        path.write_text("".join(f"{each}={text}\n" for each, text in settings.items()), encoding="utf-8")
        command = [sys.executable, "-m", "barnabas.cli", "relay", str(path)]
        self.process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "it says that it has begun"

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def workload() -> list[Sent]:
    """Records with delays of their own, or the time when they are due, half of them of each kind."""
    records = []
    now_ms = wall_ms()
    for number in range(COUNT):
        delay_ms = DELAYS_MS[number % len(DELAYS_MS)]
        headers = {"barnabas-id": f"id-{number}"}
        if number % 2:
            headers["barnabas-delay-ms"] = str(delay_ms)
        else:
            headers["barnabas-deliver-at"] = str(now_ms + delay_ms)
        records.append(Sent(f"key-{number}", f"value-{number}", headers, now_ms + delay_ms))
    return records


@pytest.mark.parametrize(
    ("server", "client"),
    [(server, client) for server in ("barnabas", "kafka", "kafka-kraft") for client in CLIENTS],
)
def test_each_record_comes_once_and_in_time_though_a_relay_is_killed(server: str, client: str, tmp_path: Path) -> None:
    if client == "console":
        need_java()
    used, name = CLIENTS[client](), "interop-relay"
    with broker(server) as servers, ExitStack() as relays:
        admin = AdminClient({"bootstrap.servers": servers})
        topics = [NewTopic(each, PARTITIONS, 1) for each in ("later", "now", "results", "put-aside")]
        for made in admin.create_topics(topics).values():
            made.result(PATIENCE_S)
        first = Relay(servers, tmp_path, name)
        relays.callback(first.end)
        rule = {"source": "later", "kind": "delay", "target": "now", "dead_letters": "put-aside", "results": "results"}
        Confluent().send(servers, f"{name}-rules", [Sent("later", json.dumps(rule), {}, 0)])
        second = Relay(servers, tmp_path, name)
        relays.callback(second.end)
        records = workload()
        used.send(servers, "later", records)
        rubbish = Sent("key-r", "rubbish", {"barnabas-deliver-at": "tomorrow"}, 0)
        cancelled = Sent("key-c", "cancelled", {"barnabas-id": "gone", "barnabas-delay-ms": "60000"}, 0)
        cancellation = Sent("key-c", "", {"barnabas-id": "gone", "barnabas-cancel": "1"}, 0)
        used.send(servers, "later", [rubbish, cancelled, cancellation])
        assert wait_until(lambda: end_of(servers, "now") > COUNT // 4, timeout_s=PATIENCE_S)
        first.kill()
        found = used.read(servers, "now", COUNT)
        aside, results = used.read(servers, "put-aside", 1), used.read(servers, "results", 1)
    assert sorted(each.value for each in found) == sorted(each.value for each in records), "each comes once"
    due = {each.value: each.due_ms for each in records}
    assert [each for each in found if each.timestamp_ms < due[each.value]] == [], "none comes early"
    keys = {each.value: each.key for each in records}
    for each in found:
        assert (each.key, each.partition) == (keys[each.value], by_murmur2(each.key.encode(), PARTITIONS))
    assert [each.value for each in aside] == ["rubbish"]
    assert [(each.key, each.value) for each in results] == [("key-c", "cancelled")]


def end_of(servers: str, topic: str) -> int:
    """Return how many offsets of a topic are used."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "ends"})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, each))[1] for each in range(PARTITIONS))
    finally:
        consumer.close()
