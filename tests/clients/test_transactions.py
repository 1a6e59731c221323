"""Transactions of mainstream clients on one broker: commit, abort, fencing, timeout, consume-process-produce."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.embedded import EmbeddedBroker

PATIENCE_S = 60


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with EmbeddedBroker(settings=settings) as broker:
        yield broker.bootstrap_servers


def create(bootstrap: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, 2, 1) for topic in topics]).values():
        created.result(PATIENCE_S)


def transactional(bootstrap: str, name: str, **settings: Any) -> Producer:
    more = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0, **more})
    producer.init_transactions(PATIENCE_S)
    return producer


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes | None]:
    """The values in both partitions up to the end that this isolation sees, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader of {topic}",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    values: list[bytes | None] = []
    ended = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ended) < 2 and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error() is not None:
            ended.add(message.partition())
        else:
            values.append(message.value())
    consumer.close()
    assert len(ended) == 2
    return sorted(values, key=lambda value: value or b"")


def test_commits_are_whole_and_aborts_are_nothing(bootstrap: str) -> None:
    create(bootstrap, "commits")
    producer = transactional(bootstrap, "commits")
    expected = []
    for number in range(10):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("commits", b"%d" % number, partition=partition)
        producer.flush(PATIENCE_S)
        if number % 3 == 1:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
            expected += [b"%d" % number] * 2
    assert read(bootstrap, "commits") == expected
    assert len(read(bootstrap, "commits", "read_uncommitted")) == 20


def test_an_open_transaction_is_not_seen_and_a_second_producer_ends_it(bootstrap: str) -> None:
    create(bootstrap, "fenced")
    zombie = transactional(bootstrap, "fenced")
    zombie.begin_transaction()
    zombie.produce("fenced", b"zombie", partition=0)
    assert zombie.flush(PATIENCE_S) == 0
    assert read(bootstrap, "fenced") == []
    successor = transactional(bootstrap, "fenced")
    with pytest.raises(KafkaException) as raised:
        zombie.commit_transaction(PATIENCE_S)
    assert raised.value.args[0].fatal() or raised.value.args[0].txn_requires_abort()
    successor.begin_transaction()
    successor.produce("fenced", b"successor", partition=0)
    successor.commit_transaction(PATIENCE_S)
    assert read(bootstrap, "fenced") == [b"successor"]


def test_a_producer_that_stays_silent_is_fenced_and_its_transaction_aborted(bootstrap: str) -> None:
    create(bootstrap, "silent")
    silent = transactional(bootstrap, "silent", transaction_timeout_ms=1_000, message_timeout_ms=1_000)
    silent.begin_transaction()
    silent.produce("silent", b"silent", partition=0)
    assert silent.flush(PATIENCE_S) == 0
    plain = Producer({"bootstrap.servers": bootstrap})
    plain.produce("silent", b"behind it", partition=0)
    assert plain.flush(PATIENCE_S) == 0
    deadline = time.monotonic() + PATIENCE_S
    while read(bootstrap, "silent") != [b"behind it"]:
        assert time.monotonic() < deadline
    with pytest.raises(KafkaException):
        silent.commit_transaction(PATIENCE_S)


def test_what_is_consumed_and_what_is_produced_are_committed_together(bootstrap: str) -> None:
    create(bootstrap, "in", "out")
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        plain.produce("in", b"%02d" % number, partition=number % 2)
    assert plain.flush(PATIENCE_S) == 0
    group = {"bootstrap.servers": bootstrap, "group.id": "copies", "auto.offset.reset": "earliest"}
    for fate in ("abort", "commit"):
        consumer = Consumer({**group, "enable.auto.commit": False, "isolation.level": "read_committed"})
        consumer.subscribe(["in"])
        producer = transactional(bootstrap, "copies")
        copied = 0
        deadline = time.monotonic() + PATIENCE_S
        while copied < 20 and time.monotonic() < deadline:
            messages = [each for each in consumer.consume(20, 0.5) if each.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                producer.produce("out", message.value(), partition=message.partition())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
            getattr(producer, f"{fate}_transaction")(PATIENCE_S)
            copied += len(messages)
        assert copied == 20
        committed = consumer.committed(consumer.assignment(), PATIENCE_S)
        offsets = [each.offset for each in committed]
        assert offsets == ([10, 10] if fate == "commit" else [-1001, -1001])
        consumer.close()
    assert read(bootstrap, "out") == [b"%02d" % number for number in range(20)]


def test_aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaProducer

    create(bootstrap, "aiokafka-transactions")

    async def transactions() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aiokafka") as producer:
            async with producer.transaction():
                await producer.send_and_wait("aiokafka-transactions", b"committed", partition=0)
            await producer.begin_transaction()
            await producer.send_and_wait("aiokafka-transactions", b"aborted", partition=1)
            await producer.abort_transaction()

    asyncio.run(asyncio.wait_for(transactions(), PATIENCE_S))
    assert read(bootstrap, "aiokafka-transactions") == [b"committed"]
