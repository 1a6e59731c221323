"""Records that leave from the page cache, read with checksums while their segments are deleted and compacted."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from hashlib import sha256

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle.barnabas import Barnabas

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

TIMEOUT_S = 120.0
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.cleaner.backoff.ms": "100",
}
LIMITS = {"segment.bytes": str(2 << 20), "file.delete.delay.ms": "0"}
TOPICS = {
    "short": {**LIMITS, "retention.bytes": str(6 << 20)},
    "compacted": {**LIMITS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "whole": LIMITS,
}
KEYS = 500
RECORDS = 24_000  # of a kilobyte each, in each topic
_PADDING = random.Random(1).randbytes(4_000)


def value_of(number: int) -> bytes:
    """A kilobyte that says which record it is, and whether it is whole."""
    at = number % 3_000
    content = b"%010d" % number + _PADDING[at : at + 950]
    return sha256(content).digest() + content


def number_of(value: bytes) -> int:
    assert sha256(value[32:]).digest() == value[:32], "a record was changed on its way"
    return int(value[32:42])


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Barnabas(SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        made = admin.create_topics([NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()])
        for each in made.values():
            each.result(TIMEOUT_S)
        yield broker.bootstrap_servers


def write(bootstrap: str, failures: list[KafkaError]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 300_000})

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    for number in range(RECORDS):
        while len(producer) > 20_000:
            producer.poll(0.01)
        for topic in TOPICS:
            key = b"%d" % (number % KEYS) if topic == "compacted" else None
            producer.produce(topic, value_of(number), key, on_delivery=on_delivery)
        producer.poll(0)
    producer.flush(TIMEOUT_S)


def read(bootstrap: str, topic: str, *, pause_s: float) -> list[tuple[int, int]]:
    """The offset and number of all records from the beginning to the last one; `pause_s` after each thousand."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-{pause_s}",
            "check.crcs": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 2_048,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not found or found[-1][1] < RECORDS - 1:
        assert time.monotonic() < deadline, f"{topic}: {len(found)} records came"
        for message in consumer.consume(1_000, 1.0):
            assert message.error() is None, message.error()
            found.append((message.offset(), number_of(message.value())))
        time.sleep(pause_s)
    consumer.close()
    return found


def test_consumers_get_whole_records_while_segments_are_deleted_and_compacted(bootstrap: str) -> None:
    failures: list[KafkaError] = []
    results: dict[tuple[str, float], list[tuple[int, int]]] = {}

    def read_into(topic: str, pause_s: float) -> None:
        results[topic, pause_s] = read(bootstrap, topic, pause_s=pause_s)

    writer = threading.Thread(target=write, args=(bootstrap, failures))
    readers = [threading.Thread(target=read_into, args=(topic, pause_s)) for topic in TOPICS for pause_s in (0.0, 0.05)]
    for thread in (writer, *readers):
        thread.start()
    for thread in (writer, *readers):
        thread.join(2 * TIMEOUT_S)
    assert not failures
    assert len(results) == len(readers), "a reader failed"
    for (topic, _), found in results.items():
        numbers = [number for _, number in found]
        assert numbers == sorted(set(numbers)), f"{topic} is out of order"
        assert [offset for offset, _ in found] == numbers
        if topic == "whole":
            assert len(numbers) == RECORDS
    later = read(bootstrap, "compacted", pause_s=0.01)
    assert {number % KEYS for _, number in later} == set(range(KEYS))
    assert max(number for _, number in later) == RECORDS - 1
