"""Spark Structured Streaming, on its own Kafka connector, against a broker process that another process feeds.

A read, a stream and what it writes run in the gate; all else with `-m long`.

Killed means SIGKILL of Python and the JVM together, in the middle of a batch that the checkpoint has begun and not committed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.pipeline import aggregate, archive
from protocol.records.batch import iter_headers
from tests.interop.spark import feed as spark_feed
from tests.interop.spark.feed import REPOSITORY, feed, timestamp_ms, value
from tests.interop.spark.sources import HAS_CONNECTOR
from tests.oracle import java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 3
RECORDS = 3_000  # of the topic that the reading tests share: 1000 in each partition, in batches of up to 500
JOB_TIMEOUT_S = 240.0


@pytest.fixture(scope="module")
def servers(servers: str) -> str:
    """The room's broker, with the topic that the reading tests share."""
    feed(servers, "read", PARTITIONS, 0, RECORDS)
    return servers


@pytest.fixture(scope="module", autouse=True)
def connector() -> None:
    if not HAS_CONNECTOR:
        pytest.skip("without Spark's connector")


def reader(spark: SparkSession, servers: str, topic: str, **options: object) -> DataFrameReader:
    given = {name: json.dumps(option) if isinstance(option, dict) else str(option) for name, option in options.items()}
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    return source.option("subscribe", topic).option("includeHeaders", "true").options(**given)


def numbers(rows: DataFrame) -> list[int]:
    """Which records are there, by their values, sorted; what is there twice is listed twice."""
    return sorted(json.loads(bytes(row["value"]))["n"] for row in rows.select("value").collect())


def numbers_of(partition: int, first_offset: int, end_offset: int) -> list[int]:
    return [offset * PARTITIONS + partition for offset in range(first_offset, end_offset)]


# Batch reads


def test_a_batch_read_has_every_record_whole(spark: SparkSession, servers: str) -> None:
    rows = reader(spark, servers, "read").load().orderBy("partition", "offset").collect()
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (p, o) for p in range(3) for o in range(RECORDS // 3)
    ]
    for row in rows:
        n = row["offset"] * PARTITIONS + row["partition"]
        assert row["topic"] == "read"
        assert bytes(row["key"]).decode() == spark_feed.key(n)
        assert bytes(row["value"]).decode() == value(n)
        assert row["timestampType"] == 0
        assert row["timestamp"].astimezone(UTC) == datetime.fromtimestamp(timestamp_ms(n) / 1000, UTC)
        assert [(header["key"], bytes(header["value"])) for header in row["headers"]] == [
            ("n", str(n).encode()),
            ("empty", b""),
        ]


@pytest.mark.long
def test_reads_begin_and_end_inside_batches(spark: SparkSession, servers: str, data: Path) -> None:
    starts, ends = {"0": 137, "1": 499, "2": 998}, {"0": 731, "1": 501, "2": 999}
    batches = [
        header for file in sorted((data / "read-0").glob("*.log")) for _, header in iter_headers(file.read_bytes())
    ]
    assert any(header.base_offset < starts["0"] < header.last_offset for header in batches), "137 is inside a batch"
    rows = reader(spark, servers, "read", startingOffsets={"read": starts}, endingOffsets={"read": ends}).load()
    expected = [n for p in range(3) for n in numbers_of(p, starts[str(p)], ends[str(p)])]
    assert numbers(rows) == sorted(expected)


@pytest.mark.long
@pytest.mark.parametrize("parts", [7, 50])
def test_a_read_in_more_tasks_than_partitions_has_every_record_once(
    spark: SparkSession, servers: str, parts: int
) -> None:
    rows = reader(spark, servers, "read", minPartitions=parts).load()
    assert rows.rdd.getNumPartitions() > PARTITIONS  # Spark rounds for each partition
    assert numbers(rows) == list(range(RECORDS))


@pytest.mark.long
@pytest.mark.parametrize("n", [0, 1, 1500, 1501, 2998, 2999])
def test_a_read_from_a_time_begins_with_the_first_record_of_that_time(
    spark: SparkSession, servers: str, n: int
) -> None:
    by_timestamp = {"read": {str(partition): timestamp_ms(n) for partition in range(PARTITIONS)}}
    rows = reader(
        spark, servers, "read", startingOffsetsByTimestamp=by_timestamp, startingOffsetsByTimestampStrategy="latest"
    ).load()
    # Partition p's first record with a timestamp of n or later is record m >= n with m % 3 == p.
    assert numbers(rows) == list(range(n, RECORDS))


def test_a_read_between_two_times(spark: SparkSession, servers: str) -> None:
    rows = reader(
        spark, servers, "read", startingTimestamp=timestamp_ms(700) - 1, endingTimestamp=timestamp_ms(1700)
    ).load()
    assert numbers(rows) == list(range(700, 1700))


@pytest.mark.long
def test_a_time_after_the_last_record_is_an_error_that_says_so(spark: SparkSession, servers: str) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped, unused-ignore]
    from pyspark.errors import PySparkException

    rows = reader(spark, servers, "read", startingTimestamp=timestamp_ms(RECORDS)).load()
    with pytest.raises((PySparkException, Py4JJavaError), match="No offset matched from request"):
        rows.count()


@pytest.mark.long
def test_topics_by_pattern_and_offsets_of_an_empty_topic(spark: SparkSession, servers: str, topic: str) -> None:
    feed(servers, f"{topic}-a", PARTITIONS, 0, 30)
    feed(servers, f"{topic}-b", PARTITIONS, 30, 30)
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = source.option("subscribePattern", f"{topic}-[abc]").load()
    assert numbers(rows) == list(range(60))
    assert (
        reader(spark, servers, f"{topic}-a", startingOffsets={f"{topic}-a": {str(p): 10 for p in range(3)}})
        .load()
        .count()
        == 0
    )


# Streams in this process


def stream(spark: SparkSession, servers: str, topic: str, per_batch: int = 1_000_000) -> DataFrame:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    return source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", per_batch).load()


def to_topic(rows: DataFrame, servers: str, topic: str, checkpoint: Path, *, once: bool) -> StreamingQuery:
    sink = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic)
    sink = sink.option("checkpointLocation", str(checkpoint))
    return (sink.trigger(availableNow=True) if once else sink.trigger(processingTime="0 seconds")).start()


def test_a_stream_back_to_a_topic_goes_on_where_it_was_stopped(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    feed(servers, topic, PARTITIONS, 0, 900)
    copied = f"{topic}-copied"
    first = to_topic(stream(spark, servers, topic, 100), servers, copied, tmp_path / "checkpoint", once=False)
    until(lambda: len(first.recentProgress) >= 3, "three batches", first)
    first.stop()
    feed(servers, topic, PARTITIONS, 900, 300)
    second = to_topic(stream(spark, servers, topic), servers, copied, tmp_path / "checkpoint", once=True)
    assert second.awaitTermination(JOB_TIMEOUT_S)
    there = numbers(reader(spark, servers, copied).load())
    assert sorted(set(there)) == list(range(1200)), "nothing is lost"
    repeated = [n for n, times in Counter(there).items() if times > 1]
    assert len(repeated) <= 100, "at most the batch that was stopped comes again: Spark's sink delivers at least once"
    keys = {bytes(row["key"]).decode() for row in reader(spark, servers, copied).load().select("key").collect()}
    assert keys == set(spark_feed.SHOPS)


@pytest.mark.long
def test_a_stream_sees_what_comes_while_it_runs_and_new_partitions(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined, unused-ignore]

    feed(servers, topic, PARTITIONS, 0, 300)
    seen: list[int] = []
    query = (
        stream(spark, servers, topic)
        .writeStream.foreachBatch(lambda rows, _: seen.extend(numbers(rows)))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        until(lambda: len(seen) >= 300, "the first records", query)
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)]).values():
            future.result(60)
        for first in range(300, 600, 100):
            feed(servers, topic, PARTITIONS + 2, first, 100)
        until(lambda: len(seen) >= 600, "the others", query)
    finally:
        query.stop()
    assert sorted(seen) == list(range(600))


# The jobs as people start them


class Job:
    """A job's command line as a process group of its own."""

    def __init__(self, name: str, log: Path, arguments: Sequence[str]) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "pipeline", name, "--connector", *arguments],
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**java.spark_environment(), "SPARK_SHUFFLE_PARTITIONS": "1"},
                cwd=REPOSITORY,
            )

    def __str__(self) -> str:
        return self.log.read_text()

    @property
    def isActive(self) -> bool:  # noqa: N802, RUF100  as Spark's queries say it
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL to Python and its JVM at one instant."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Wait for it to end by itself."""
        return self.process.wait(JOB_TIMEOUT_S)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Start a job; what still runs at the end of the test is killed."""
    jobs: list[Job] = []

    def start(name: str, *arguments: object) -> Job:
        jobs.append(Job(name, tmp_path / "job.log", [str(argument) for argument in arguments]))
        return jobs[-1]

    yield start
    for one in jobs:
        if one.isActive:
            one.kill()


def until(reached: Callable[[], Any], what: str, worker: Job | StreamingQuery) -> None:
    """Look every few milliseconds, as there is nothing to wait on in another process's files."""
    deadline = time.monotonic() + JOB_TIMEOUT_S
    while not reached():
        assert time.monotonic() < deadline, f"{what}: not within {JOB_TIMEOUT_S} s"
        assert worker.isActive, f"{what}: ended before; {worker}"
        time.sleep(0.002)


def kill_in_batch(job: Job, checkpoint: Path, first: int, reached: Callable[[int], Any]) -> int:
    """Kill the job when `reached(batch)`, in the first batch from `first` on that is then not committed yet: which one.

    The job is frozen to look: a batch may be over before this process sees that it began.
    """
    for batch in range(first, first + 5):
        until(lambda: reached(batch), f"batch {batch}", job)  # noqa: B023  called at once
        os.killpg(job.process.pid, signal.SIGSTOP)
        if not (checkpoint / "commits" / str(batch)).exists():
            job.kill()
            return batch
        os.killpg(job.process.pid, signal.SIGCONT)
    pytest.fail("every look came too late")


@pytest.mark.long
def test_the_archive_has_every_record_once_though_it_was_killed_twice(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, job: Callable[..., Job]
) -> None:
    output, checkpoint = tmp_path / "archive", tmp_path / "checkpoint"
    arguments = ["--bootstrap-servers", servers, "--topics", topic, "--output", output, "--checkpoint", checkpoint]
    bounded = [*arguments, "--max-offsets-per-trigger", "300", "--trigger", "1 second"]
    feed(servers, topic, PARTITIONS, 0, RECORDS)

    kill_in_batch(job("archive", *bounded), checkpoint, 2, lambda batch: (checkpoint / "offsets" / str(batch)).exists())

    # Written, but not committed: the batch comes again, and must replace what is there.
    written = lambda batch: list(output.glob(f"topic=*/date=*/batch={batch:010d}-*/*.parquet"))
    kill_in_batch(job("archive", *bounded), checkpoint, 4, written)

    feed(servers, topic, PARTITIONS, RECORDS, 200)
    last = job("archive", *arguments, "--trigger", "available-now")
    assert last.end() == 0, last.log.read_text()

    rows = spark.read.parquet(str(output))
    assert not (output / "_spark_metadata").exists(), "every reader of Parquet sees what Spark sees"
    assert rows.columns == ["partition", "offset", "timestamp", "key", "value", "headers", "topic", "date", "batch"]
    assert numbers(rows) == list(range(RECORDS + 200))
    for row in rows.where("offset % 100 = 0").collect():
        n = row["offset"] * PARTITIONS + row["partition"]
        assert json.loads(bytes(row["value"]))["n"] == n
        assert row["topic"] == topic
        assert str(row["date"]) == "2026-01-31"
        assert bytes(row["headers"][0]["value"]) == str(n).encode()


@pytest.mark.long
def test_the_aggregate_counts_every_record_once_though_it_was_killed_and_stopped(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, job: Callable[..., Job]
) -> None:
    target, checkpoint = f"{topic}-target", tmp_path / "checkpoint"
    arguments = ["--bootstrap-servers", servers, "--source", topic, "--target", target, "--checkpoint", checkpoint]
    bounded = [*arguments, "--max-offsets-per-trigger", "300", "--trigger", "1 second"]
    feed(servers, topic, PARTITIONS, 0, 1800)

    killed = kill_in_batch(
        job("aggregate", *bounded), checkpoint, 1, lambda batch: (checkpoint / "offsets" / str(batch)).exists()
    )

    stopped = job("aggregate", *bounded)
    reached = max(killed, 3)  # a batch of this job's own: before that it may not listen to signals yet
    until((checkpoint / "commits" / str(reached)).exists, f"batch {reached}", stopped)
    stopped.process.send_signal(signal.SIGTERM)
    assert stopped.end() == 0, stopped.log.read_text()

    feed(servers, topic, PARTITIONS, 1800, 600)
    feed(servers, topic, PARTITIONS, 3600, 3)  # 20 minutes later: closes the windows of all before
    last = job("aggregate", *arguments, "--trigger", "available-now")
    assert last.end() == 0, last.log.read_text()

    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in reader(spark, servers, target).load().collect():
        window = json.loads(bytes(row["value"]))
        assert bytes(row["key"]).decode() == window["key"]
        again = found.setdefault((window["key"], window["start"]), window)
        assert again == window, "a window that comes again has the same content"
    assert found == windows_of(range(2400))


def windows_of(records: range) -> dict[tuple[str, str], dict[str, Any]]:
    """What the aggregate must say about these records, in windows of a minute."""
    amounts: dict[tuple[str, int], list[float]] = {}
    for n in records:
        amounts.setdefault((spark_feed.key(n), timestamp_ms(n) // 60_000), []).append(spark_feed.amount(n))
    return {
        (key, clock(minute)): {
            "key": key,
            "start": clock(minute),
            "end": clock(minute + 1),
            "count": len(those),
            "sum": sum(those),
            "min": min(those),
            "max": max(those),
        }
        for (key, minute), those in amounts.items()
    }


def clock(minute: int) -> str:
    return datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@pytest.mark.long
def test_the_aggregate_leaves_out_what_it_cannot_count_and_what_is_far_ahead(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    stamp = datetime.fromtimestamp(timestamp_ms(0) / 1000, UTC)

    def event(**fields: object) -> str:
        return json.dumps({"shop": "a", "price": 1, "at": stamp.isoformat()} | fields)

    values = [
        event(),
        event(price=None),
        event(price="2"),
        event(price="NaN"),
        event(price={"of": 2}),
        event(shop=None),
        event(at=None),
        event(at="not a time"),
        event(at="2199-01-01T00:00:00Z"),  # a clock that is wrong: must not close the windows
        "no JSON",
        "[1]",
        event(at="10:00:00"),
        event(at=True),
        event(at=stamp.timestamp() + 1),
        event(at=timestamp_ms(0) + 1500),
        event(at=str(timestamp_ms(0) // 1000)),
        event(at="2026-01-31T10:00:59.9"),
    ]
    produce(servers, topic, values, timestamp_ms(0))
    settings = {
        "bootstrap_servers": servers, "source": topic, "target": f"{topic}-target", "checkpoint": tmp_path / "checkpoint",
        "trigger": "available-now", "connector": True, "key_field": "shop", "amount_field": "price", "time_field": "at",
    }  # fmt: skip
    query = aggregate.job(spark, **settings)
    assert query is not None and query.awaitTermination(JOB_TIMEOUT_S)
    produce(servers, topic, [event(price=0.5), event(at="2026-01-31T10:30:00Z")], timestamp_ms(0))
    query = aggregate.job(spark, **settings)
    assert query is not None and query.awaitTermination(JOB_TIMEOUT_S)
    (row,) = reader(spark, servers, f"{topic}-target").load().collect()
    window = json.loads(bytes(row["value"]))
    assert {name: window[name] for name in ("key", "start", "count", "sum", "min")} == {
        "key": "a",
        "start": "2026-01-31T10:00:00.000Z",
        "count": 10,  # five ways to tell an amount or none, four to tell a time, and one of the second run
        "sum": 1 + 2 + 4 * 1 + 0.5,
        "min": 0.5,
    }


def produce(servers: str, topic: str, values: list[str], timestamp: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for one in values:
        producer.produce(topic, value=one, partition=0, timestamp=timestamp)
    assert producer.flush(60) == 0


@pytest.mark.long
def test_a_job_that_fails_says_why_and_ends_with_status_1(
    servers: str, topic: str, tmp_path: Path, job: Callable[..., Job], spark: SparkSession
) -> None:
    """Records deleted before they were read are an error, unless the user tolerates it."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    output = tmp_path / "archive"
    settings = {
        "bootstrap_servers": servers, "topics": topic, "output": output, "checkpoint": tmp_path / "checkpoint",
        "trigger": "available-now",
    }  # fmt: skip
    feed(servers, topic, PARTITIONS, 0, 30)
    query = archive.job(spark, connector=True, **settings)
    assert query is not None and query.awaitTermination(JOB_TIMEOUT_S)
    feed(servers, topic, PARTITIONS, 30, 30)
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_records([TopicPartition(topic, 0, 15)]).values():
        assert future.result(60).low_watermark == 15
    failed = job("archive", *(f"--{name.replace('_', '-')}={value}" for name, value in settings.items()))
    assert failed.end() == 1
    last_line = failed.log.read_text().splitlines()[-1]
    assert last_line.startswith("archive: ")
    assert "failOnDataLoss" in failed.log.read_text()
    query = archive.job(spark, connector=True, tolerate_loss=True, **settings)
    assert query is not None and query.awaitTermination(JOB_TIMEOUT_S)
    lost = set(numbers_of(0, 10, 15))
    assert numbers(spark.read.parquet(str(output))) == [n for n in range(60) if n not in lost]
