"""What the tests of the jobs share: a broker, one Spark session, records with chosen content, and jobs run to their end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from barnabas.pipeline import session
from barnabas.pipeline.frame import Job, Run, run_to_end
from tests.oracle import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB_TIMEOUT_S = 480.0


class Given(NamedTuple):
    """A record to produce."""

    value: object = b""
    key: str | None = None
    headers: Mapping[str, object] = {}
    timestamp_ms: int = 1_769_853_600_000
    partition: int = 0


class Found(NamedTuple):
    """A record that was read back."""

    partition: int
    offset: int
    key: str | None
    value: Any
    headers: dict[str, str]
    timestamp_ms: int


def need_spark() -> None:
    """Skip without Spark and Java; on a build server let what follows fail."""
    try:
        session.require_spark()
    except session.Unavailable as missing:
        if java.required():
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def produce(servers: str, topic: str, records: Iterable[Given]) -> None:
    """Return when all are acknowledged."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    failures: list[str] = []
    for each in records:
        producer.produce(
            topic,
            value=each.value if isinstance(each.value, bytes | None) else _text(each.value),
            key=each.key,
            partition=each.partition,
            timestamp=each.timestamp_ms,
            headers=[(name, _text(value)) for name, value in each.headers.items()],
            on_delivery=lambda error, _message: failures.append(str(error)) if error else None,
        )
    assert producer.flush(60) == 0 and not failures, failures


def _text(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def consume(servers: str, topic: str) -> list[Found]:
    """Return all records of a topic, by partition and offset; values that are JSON are parsed."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False,
                         "enable.partition.eof": True, "isolation.level": "read_committed"})  # fmt: skip
    try:
        metadata = consumer.list_topics(topic, timeout=30).topics[topic]
        open_partitions = set(metadata.partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in open_partitions])
        found = []
        while open_partitions:
            message = consumer.poll(30)
            assert message is not None, f"no records of {topic} within 30 s"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                open_partitions.discard(message.partition())
                continue
            found.append(_found(message))
        return sorted(found, key=lambda each: (each.partition, each.offset))
    finally:
        consumer.close()


def _found(message: Any) -> Found:
    value, key = message.value(), message.key()
    with contextlib.suppress(ValueError):
        value = json.loads(value) if value is not None else None
    headers = {name: content.decode() for name, content in message.headers() or []}
    return Found(
        message.partition(),
        message.offset(),
        None if key is None else key.decode(),
        value,
        headers,
        message.timestamp()[1],
    )


def run_job(job: Job, spark: SparkSession, **settings: object) -> Run:
    """Run a job to its end in this process, as its own process does it. Returns its counts."""
    if job.is_stream:
        settings = {"trigger": "available-now", **settings}
    options = job.options(**settings)
    run = Run(job.name, is_bounded=True, is_quiet=True)
    run_to_end(job, options, run, spark)
    return run
