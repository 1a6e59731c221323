"""Each mainstream client makes one round trip, through a group, in every `make test`; the whole tour is `tests/interop`."""

from __future__ import annotations

import asyncio
import time
import warnings
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.kafka_python_members import member_of

PATIENCE_S = 60
VALUES = {b"value %d" % index for index in range(200)}


def test_confluent_kafka(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("confluent", 2, 1)])["confluent"].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    for index, value in enumerate(sorted(VALUES)):
        producer.produce("confluent", value, partition=index % 2)
    assert producer.flush(PATIENCE_S) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": "confluent", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe(["confluent"])
    seen: set[bytes | None] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(seen) < len(VALUES) and time.monotonic() < deadline:
        seen |= {message.value() for message in consumer.consume(200, 0.2) if message.error() is None}
    consumer.commit(asynchronous=False)
    committed = consumer.committed(consumer.assignment(), PATIENCE_S)
    consumer.close()
    assert seen == VALUES
    assert [partition.offset for partition in committed] == [100, 100]
    admin.delete_consumer_groups(["confluent"])["confluent"].result(PATIENCE_S)
    admin.delete_topics(["confluent"])["confluent"].result(PATIENCE_S)


def test_aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def round_trip() -> set[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="zstd") as producer:
            await asyncio.gather(*[await producer.send("orders", value) for value in VALUES])
        consumer: Any = AIOKafkaConsumer(
            "orders", bootstrap_servers=bootstrap, group_id="aiokafka", auto_offset_reset="earliest"
        )
        seen: set[bytes] = set()
        async with consumer:
            while not seen >= VALUES:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    seen |= {record.value for record in records}
        return seen

    assert asyncio.run(asyncio.wait_for(round_trip(), PATIENCE_S)) >= VALUES


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_kafka_python(bootstrap: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its way of reading its own schemas
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip")
        for value in VALUES:
            producer.send("made-by-kafka-python", value)
        producer.flush(PATIENCE_S)
        producer.close()
        consumer = member_of(
            "kafka-python", "made-by-kafka-python", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
        seen: set[bytes] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(seen) < len(VALUES) and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200).values():
                seen |= {record.value for record in records}
        consumer.close()
    assert seen == VALUES
