"""A client that consumes, processes and produces: its offsets are committed with what it produced, or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

DEADLINE_S = 60


@contextmanager
def topics(bootstrap: str, *names: str) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result(DEADLINE_S)
    yield
    for future in admin.delete_topics(list(names)).values():
        future.result(DEADLINE_S)


@contextmanager
def consuming(bootstrap: str, topic: str, group_id: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(messages) < count and time.monotonic() < deadline:
        messages += [message for message in consumer.consume(count - len(messages), 0.2) if message.error() is None]
    assert len(messages) == count
    return messages


def committed(consumer: Consumer, topic: str) -> int:
    [found] = consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)
    return int(found.offset)


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(DEADLINE_S)
    return producer


def copy(producer: Producer, consumer: Consumer, messages: list[Message], target: str) -> None:
    """Open a transaction with what was read, and the position behind it."""
    producer.begin_transaction()
    for message in messages:
        producer.produce(target, message.value())
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), DEADLINE_S)


def copy_and_commit(producer: Producer, consumer: Consumer, messages: list[Message], target: str) -> None:
    copy(producer, consumer, messages, target)
    producer.commit_transaction(DEADLINE_S)


def test_offsets_are_committed_with_the_records_or_not_at_all(bootstrap: str) -> None:
    with topics(bootstrap, "txn-in", "txn-out"):
        source = Producer({"bootstrap.servers": bootstrap})
        for index in range(10):
            source.produce("txn-in", b"%d" % index)
        assert source.flush(DEADLINE_S) == 0
        producer = transactional(bootstrap, "txn-copy")
        with consuming(bootstrap, "txn-in", "txn-copy") as consumer:
            copy_and_commit(producer, consumer, read(consumer, 4), "txn-out")
            assert committed(consumer, "txn-in") == 4
            copy(producer, consumer, read(consumer, 3), "txn-out")
            producer.abort_transaction(DEADLINE_S)
            assert committed(consumer, "txn-in") == 4
        with consuming(bootstrap, "txn-in", "txn-copy") as consumer:
            messages = read(consumer, 6)
            assert [message.value() for message in messages] == [b"%d" % index for index in range(4, 10)]
            copy_and_commit(producer, consumer, messages, "txn-out")
            assert committed(consumer, "txn-in") == 10
        with consuming(bootstrap, "txn-out", "txn-check") as consumer:
            assert [message.value() for message in read(consumer, 10)] == [b"%d" % index for index in range(10)]


def test_a_producer_that_was_replaced_commits_no_offsets(bootstrap: str) -> None:
    with topics(bootstrap, "zombie-in", "zombie-out"):
        source = Producer({"bootstrap.servers": bootstrap})
        source.produce("zombie-in", b"a")
        assert source.flush(DEADLINE_S) == 0
        zombie = transactional(bootstrap, "zombie")
        with consuming(bootstrap, "zombie-in", "zombie") as consumer:
            messages = read(consumer, 1)
            successor = transactional(bootstrap, "zombie")
            with pytest.raises(KafkaException) as fenced:
                copy_and_commit(zombie, consumer, messages, "zombie-out")
            assert fenced.value.args[0].fatal()
            assert committed(consumer, "zombie-in") < 0
            copy_and_commit(successor, consumer, messages, "zombie-out")
            assert committed(consumer, "zombie-in") == 1
