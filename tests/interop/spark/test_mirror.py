"""The job mirror, between two brokers, without a jar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import EmbeddedBroker
from barnabas.pipeline import mirror
from barnabas.pipeline.frame import JobFailed
from tests.interop.spark.job_cases import Given, consume, need_spark, produce, run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    need_spark()
    settings = {"log.retention.ms": -1}
    with (
        EmbeddedBroker({"orders": 2, "wide": 3}, settings) as source,
        EmbeddedBroker({"west.orders": 2, "west.wide": 1}, settings) as target,
    ):
        yield source.bootstrap_servers, target.bootstrap_servers


def committed(servers: str, group: str, topic: str, offsets: list[int] | None = None) -> list[int]:
    """Commit offsets for a group if some are given, and return those that it has."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        if offsets is not None:
            places = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
            consumer.commit(offsets=places, asynchronous=False)
        found = consumer.committed([TopicPartition(topic, partition) for partition in range(2)], timeout=30)
        return [each.offset for each in found]
    finally:
        consumer.close()


def test_records_are_copied_as_they_are_and_offsets_of_groups_are_translated(
    spark: SparkSession, clusters: tuple[str, str], tmp_path: Path
) -> None:
    source, target = clusters
    settings: dict[str, Any] = {
        "bootstrap_servers": source, "target_servers": target, "topics": "orders", "prefix": "west.", "groups": "billing",
        "checkpoint": tmp_path / "checkpoint",
    }  # fmt: skip
    produce(target, "west.orders", [Given("before", partition=1)])
    records = [Given({"n": n}, f"k{n}", {"h": str(n)}, 1_769_853_600_000 + n, n % 2) for n in range(20)]
    produce(source, "orders", records)
    assert committed(source, "billing", "orders", [4, 10]) == [4, 10]
    run = run_job(mirror.job, spark, **settings)
    assert run.totals.summary() == "read 20, dropped 0, wrote 20"
    copies = consume(target, "west.orders")
    assert [each._replace(offset=0) for each in copies if each.value != "before" and each.key] == [
        each._replace(offset=0) for each in consume(source, "orders")
    ]
    assert committed(target, "billing", "west.orders") == [4, 11], "one record was there before"
    produce(source, "orders", records[:4])
    committed(source, "billing", "orders", [11, 3])
    run = run_job(mirror.job, spark, **settings)
    assert run.totals.written == 4
    assert committed(target, "billing", "west.orders") == [11, 11], "offsets do not go back"
    pairs = [each.value for each in consume(target, "barnabas-offset-syncs")]
    assert {(each["partition"], each["sourceOffset"], each["targetOffset"], each["records"]) for each in pairs} == {
        (0, 0, 0, 10), (0, 10, 10, 0), (1, 0, 1, 10), (1, 10, 11, 0),
        (0, 10, 10, 2), (0, 12, 12, 0), (1, 10, 11, 2), (1, 12, 13, 0),
    }  # fmt: skip


def test_a_target_with_too_few_partitions_is_refused_before_spark_starts(
    clusters: tuple[str, str], tmp_path: Path
) -> None:
    source, target = clusters
    options = mirror.job.options(
        bootstrap_servers=source,
        target_servers=target,
        topics="wide",
        prefix="west.",
        checkpoint=tmp_path / "checkpoint",
    )
    with pytest.raises(JobFailed, match=r"topic west\.wide has 1 partitions in the target, and 3 are needed"):
        mirror.check_target(options)
