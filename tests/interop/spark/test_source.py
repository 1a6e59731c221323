"""The Python data source and Spark's own Kafka connector read the same topics, and give the same rows.

The topics hold what logs can hold: every codec, headers, nulls, transactions that were committed and aborted. Without the
connector the rows are compared with what was produced alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.interop.spark.conftest import USERS
from tests.interop.spark.feed import feed
from tests.interop.spark.sources import (
    CODECS,
    HAS_CONNECTOR,
    PARTITIONS,
    WAIT_S,
    Produced,
    Row,
    create,
    given,
    load,
    rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

NANOSECONDS = 1_700_000_000_123_456_789
TIMES_MS = (
    1_699_163_999_999, 1_699_164_000_000,  # 1:59 in New York in the night when clocks go back, the first time, and 1:00
    1_699_165_800_000, 1_699_167_600_000,  # 1:30, the first and the second time
    1_710_053_999_999, 1_710_054_000_000,  # around the hour that is left out when clocks go forward
    0, 253_402_300_800_000,  # the year 10000, which Python's dates do not reach
)  # fmt: skip


def both(spark: SparkSession, servers: str, **options: object) -> list[Row]:
    """The rows that both sources read."""
    ours = load(spark, "barnabas", servers, **options)
    found = rows(ours)
    if HAS_CONNECTOR:
        theirs = load(spark, "kafka", servers, **options)
        assert [(each.name, each.dataType) for each in ours.schema] == [
            (each.name, each.dataType) for each in theirs.schema
        ]
        expected = rows(theirs)
        assert len(found) == len(expected)
        assert found == expected
    return found


def both_fail(spark: SparkSession, servers: str, ours: str, theirs: str, **options: object) -> None:
    """Both sources refuse to read, with these words."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped, unused-ignore]
    from pyspark.errors import PySparkException

    for form, words in (("barnabas", ours), ("kafka", theirs))[: 1 + HAS_CONNECTOR]:
        with pytest.raises((PySparkException, Py4JJavaError), match=words):
            rows(load(spark, form, servers, **options))


def of_files(spark: SparkSession, data: Path, **options: object) -> list[Row]:
    return rows(load(spark, "barnabas", "unused:1", path=data, **options))


def test_users_modules_stay_theirs_in_executors(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, ...]:
        import importlib

        private = importlib.import_module("barnabas.spark.source").RangeReader.__module__
        error = importlib.import_module("barnabas.spark.client.groups").KafkaError.__module__
        return private, error, *(importlib.import_module(name).WHOSE for name in USERS)

    (found,) = spark.sparkContext.parallelize([0], 1).map(look).collect()
    theirs = ("the user's",) * len(USERS)
    assert found == ("barnabas.spark.reading.fetching", "barnabas._private.protocol.errors", *theirs)


def test_all_codecs_shapes_and_committed_transactions(spark: SparkSession, servers: str, mixed: Produced) -> None:
    assert len(mixed.rows) == len(CODECS) * (400 + 2 * 60)
    assert both(spark, servers, subscribe="mixed") == mixed.rows


def test_all_records_when_uncommitted_ones_are_wanted(spark: SparkSession, servers: str, mixed: Produced) -> None:
    options = {"subscribe": "mixed", "kafka.isolation.level": "read_uncommitted", "minPartitions": 7}
    assert both(spark, servers, **options) == mixed.all_rows


def first_at(found: list[Row], partition: int, ms: int) -> int:
    """The offset where a read from this time begins."""
    return min(row[2] for row in found if row[1] == partition and row[5].timestamp() * 1000 >= ms)


def test_parts_of_topics(spark: SparkSession, servers: str, mixed: Produced) -> None:
    starts = {"0": 37, "1": 500, "2": -2}
    assert both(spark, servers, subscribe="mixed", startingOffsets={"mixed": starts}) == [
        row for row in mixed.rows if row[2] >= starts[str(row[1])]
    ]
    assert both(spark, servers, assign={"mixed": [2]}, endingOffsets={"mixed": {"2": 333}}) == [
        row for row in mixed.rows if row[1] == 2 and row[2] < 333
    ]
    start_ms, end_ms = 1_700_000_000_200, 1_700_000_000_390
    bounds = [[first_at(mixed.all_rows, p, ms) for ms in (start_ms, end_ms)] for p in range(PARTITIONS)]
    options = {"subscribePattern": " mix.d ", "startingTimestamp": start_ms, "endingTimestamp": end_ms}
    assert both(spark, servers, **options) == [
        row for row in mixed.rows if bounds[row[1]][0] <= row[2] < bounds[row[1]][1]
    ]


def test_log_files_say_what_the_broker_says(spark: SparkSession, mixed: Produced, data: Path) -> None:
    assert of_files(spark, data, subscribe="mixed") == mixed.rows
    uncommitted = {"kafka.isolation.level": "read_uncommitted", "minPartitions": 5}
    assert of_files(spark, data, subscribe="mixed", **uncommitted) == mixed.all_rows


@pytest.mark.usefixtures("mixed")
def test_where_nothing_is_to_be_read_there_are_no_rows(
    spark: SparkSession, servers: str, topic: str, data: Path
) -> None:
    create(servers, topic)
    at = {"mixed": dict.fromkeys("012", 5)}
    nothing: list[dict[str, object]] = [
        {"subscribe": topic},
        {"subscribePattern": "nothing-.*"},
        {"assign": {}},
        {"subscribe": "mixed", "startingOffsets": at, "endingOffsets": at},
    ]
    for options in nothing:
        assert both(spark, servers, **options) == []
        assert of_files(spark, data, **options) == []


@pytest.mark.usefixtures("mixed")
def test_a_read_that_begins_behind_its_end_is_an_error(spark: SparkSession, servers: str) -> None:
    behind = {
        "startingOffsets": {"mixed": {"0": 6, "1": 5, "2": 5}},
        "endingOffsets": {"mixed": dict.fromkeys("012", 5)},
    }
    ours = "mixed-0: startingOffsets is offset 6, behind endingOffsets, which is offset 5"
    both_fail(spark, servers, ours, "Beginning offset 6 is after the ending offset 5", subscribe="mixed", **behind)


def test_a_time_beyond_those_of_spark_is_an_error_or_null(
    spark: SparkSession, servers: str, topic: str, data: Path
) -> None:
    from confluent_kafka import Producer

    create(servers, topic, 1)
    producer = Producer({"bootstrap.servers": servers})
    for time in (1_700_000_000_000, NANOSECONDS):
        producer.produce(topic, b"v", timestamp=time)
    assert producer.flush(60) == 0
    ours = f"{topic}-0: the record at offset 1 has the timestamp {NANOSECONDS} ms, which is beyond the times that Spark can"
    both_fail(spark, servers, ours, "long overflow", subscribe=topic)
    options = {"subscribe": topic, "failOnDataLoss": "false"}
    for frame in (
        load(spark, "barnabas", servers, **options),
        load(spark, "barnabas", "unused:1", path=data, **options),
    ):
        assert [row[0] for row in frame.selectExpr("unix_millis(timestamp)").collect()] == [1_700_000_000_000, None]


# Writes


def write(frame: DataFrame, servers: str, **options: object) -> None:
    texts = {"kafka.bootstrap.servers": servers} | {name: str(each) for name, each in options.items()}
    frame.write.format("barnabas").options(**texts).mode("append").save()


@pytest.mark.skipif(not HAS_CONNECTOR, reason="without Spark's connector")
@pytest.mark.usefixtures("mixed")
def test_a_batch_write_is_what_the_connector_writes(spark: SparkSession, servers: str, topic: str) -> None:
    create(servers, f"{topic}-ours")
    create(servers, f"{topic}-theirs")
    frame = load(spark, "kafka", servers, subscribe="mixed").select("key", "value", "headers", "timestamp")
    frame = frame.where("key is not null")
    options = {"kafka.compression.type": "zstd", "kafka.batch.size": 20_000}
    write(frame, servers, topic=f"{topic}-ours", **options)
    connector = frame.drop("timestamp").write.format("kafka").option("kafka.bootstrap.servers", servers)
    connector.option("topic", f"{topic}-theirs").save()

    def content(name: str) -> list[tuple[Any, ...]]:
        found = rows(load(spark, "kafka", servers, subscribe=name))
        return sorted(((row[1], bytes(row[3]), row[4] and bytes(row[4]), str(row[7])) for row in found), key=str)

    assert len(content(f"{topic}-ours")) == 1600
    assert content(f"{topic}-ours") == content(f"{topic}-theirs"), "the same partitions, too"
    copied = {row[5] for row in rows(load(spark, "barnabas", servers, subscribe=f"{topic}-ours"))}
    assert copied == {row["timestamp"] for row in frame.collect()}


def test_a_write_that_is_wrong_says_what_is_right(spark: SparkSession, servers: str, topic: str) -> None:
    from pyspark.errors import PySparkException

    frame = spark.sql("select 'a' as key, 'b' as value, 3 as price")
    with pytest.raises(PySparkException, match=r"Column 'price' is not written. Valid are: key, value"):
        write(frame, servers, topic=topic)
    with pytest.raises(PySparkException, match=f"Topic {topic} does not exist"):
        write(frame.drop("price"), servers, topic=topic)
    with pytest.raises(PySparkException, match="Either the option 'topic' or a column 'topic' is needed"):
        write(frame.drop("price"), servers)


def copy(spark: SparkSession, servers: str, checkpoint: Path, source: str, target: str, **options: object) -> None:
    """Copy what is in a topic to another one, as a stream. Before PySpark 4.2 that is one batch."""
    options = {"subscribe": source, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format("barnabas").options(**given(servers, options)).load()
    sink = frame.select("key", "value", "headers", "timestamp").writeStream.format("barnabas")
    sink = sink.option("kafka.bootstrap.servers", servers).option("topic", target)
    query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(int(WAIT_S))
    assert query.exception() is None


def test_times_that_are_written_are_the_same_in_every_zone(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path
) -> None:
    """The machine is in New York; a time without a zone is in UTC."""
    create(servers, topic)
    create(servers, f"{topic}-copied")

    def times(name: str) -> list[tuple[int, int]]:
        found = load(spark, "barnabas", servers, subscribe=name).selectExpr(
            "cast(value as string)", "unix_millis(timestamp)"
        )
        return sorted((int(row[0]), row[1]) for row in found.collect())

    frame = spark.createDataFrame([(ms,) for ms in TIMES_MS], "ms bigint").coalesce(1)
    write(frame.selectExpr("cast(ms as string) value", "timestamp_millis(ms) timestamp"), servers, topic=f" {topic} ")
    assert times(topic) == sorted((ms, ms) for ms in TIMES_MS)
    copy(spark, servers, tmp_path, topic, f"{topic}-copied")
    assert times(f"{topic}-copied") == times(topic)
    ntz = spark.sql("select '1699147800123' as value, timestamp_ntz'2023-11-05 01:30:00.123456' as timestamp")
    write(ntz, servers, topic=topic)
    assert (1_699_147_800_123, 1_699_147_800_123) in times(topic)


@pytest.mark.parametrize("again", [pytest.param(1, marks=pytest.mark.long), 7])
def test_a_streaming_write_that_is_repeated_is_not_written_twice(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, again: int
) -> None:
    """The checkpoint forgets that its last batch was committed, as after a crash, and divides that batch differently."""
    create(servers, f"{topic}-copied")
    feed(servers, topic, PARTITIONS, 0, 600)

    def copied(tasks: int) -> list[int]:
        copy(spark, servers, tmp_path, topic, f"{topic}-copied", minPartitions=tasks)
        frame = load(spark, "barnabas", servers, subscribe=f"{topic}-copied")
        return sorted(json.loads(row[4])["n"] for row in rows(frame))

    assert copied(3) == list(range(600))
    (tmp_path / "commits" / "0").unlink()
    (tmp_path / "commits" / ".0.crc").unlink(missing_ok=True)
    feed(servers, topic, PARTITIONS, 600, 300)
    copied(again)
    assert copied(again) == list(range(900))  # the batch that was repeated may have been one of its own
