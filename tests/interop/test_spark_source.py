"""The Python data source and Spark's own Kafka connector read the same topics, and give the same rows.

The topics hold what logs can hold: every codec, headers, nulls, transactions that were committed and aborted, gaps that
compaction left, records that were deleted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import EmbeddedBroker
from tests.interop.spark_feed import REPOSITORY, feed
from tests.interop.spark_sources import (
    CODECS,
    PARTITIONS,
    WAIT_S,
    Produced,
    create,
    fill_mixed,
    given,
    load,
    rows,
    source_session,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker") / "data"


@pytest.fixture(scope="module")
def broker(data: Path) -> Iterator[tuple[str, Produced]]:
    for module in ("pyspark", "pyarrow", "numpy"):
        pytest.importorskip(module, reason="the extra spark is not installed")
    settings = {
        "log.dirs": data,
        "num.partitions": PARTITIONS,
        "log.retention.ms": -1,
        "log.cleaner.backoff.ms": 100,
        "log.initial.task.delay.ms": 0,
        "log.segment.bytes": 64 * 1024,
    }
    with EmbeddedBroker({"mixed": PARTITIONS}, settings, log_level="INFO") as broker:
        yield broker.bootstrap_servers, fill_mixed(broker.bootstrap_servers)
        assert " ERROR " not in broker.log, broker.log


@pytest.fixture(scope="module")
def servers(broker: tuple[str, Produced]) -> str:
    return broker[0]


@pytest.fixture(scope="module")
def mixed(broker: tuple[str, Produced]) -> Produced:
    return broker[1]


USERS = ("protocol", "config", "storage", "runtime", "security")


@pytest.fixture(scope="module")
def users_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Modules of the names of server packages, which every executor of these tests finds first."""
    folder = tmp_path_factory.mktemp("users")
    for name in USERS:
        (folder / f"{name}.py").write_text('WHOSE = "the user\'s"\n')
    return folder


@pytest.fixture(scope="module")
def spark(servers: str, users_modules: Path) -> Iterator[SparkSession]:
    with source_session(os.pathsep.join((str(users_modules), str(REPOSITORY)))) as spark:
        yield spark


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("[", "-").replace("]", "").replace("test_", "")[:80]


def both(spark: SparkSession, servers: str, **options: object) -> list[tuple[Any, ...]]:
    """The rows that both sources read."""
    ours = load(spark, "barnabas", servers, **options)
    theirs = load(spark, "kafka", servers, **options)
    assert [(each.name, each.dataType) for each in ours.schema] == [
        (each.name, each.dataType) for each in theirs.schema
    ]
    found, expected = rows(ours), rows(theirs)
    assert len(found) == len(expected)
    assert found == expected
    return found


def test_users_modules_stay_theirs_in_executors(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, ...]:
        import importlib

        private = importlib.import_module("barnabas.spark.source").RangeReader.__module__
        error = importlib.import_module("barnabas.spark.client.cluster_client").KafkaError.__module__
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


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "mixed", "startingOffsets": {"mixed": {"0": 37, "1": 500, "2": -2}}},
        {"assign": {"mixed": [2]}, "endingOffsets": {"mixed": {"2": 333}}},
        {"subscribePattern": "mix.d", "startingTimestamp": 1_700_000_000_200, "endingTimestamp": 1_700_000_000_390},
    ],
)
def test_parts_of_topics(spark: SparkSession, servers: str, options: dict[str, object]) -> None:
    assert both(spark, servers, **options)


def test_log_files_say_what_the_broker_says(spark: SparkSession, servers: str, data: Path) -> None:
    found = spark.read.format("barnabas").option("path", str(data)).option("subscribe", "mixed")
    found = found.option("includeHeaders", "true")
    assert rows(found.load()) == rows(load(spark, "kafka", servers, subscribe="mixed"))
    uncommitted = {"kafka.isolation.level": "read_uncommitted", "minPartitions": 5}
    expected = rows(load(spark, "kafka", servers, subscribe="mixed", **uncommitted))
    assert rows(found.options(**uncommitted).load()) == expected


# Writes


def write(frame: DataFrame, servers: str, **options: object) -> None:
    texts = {"kafka.bootstrap.servers": servers} | {name: str(each) for name, each in options.items()}
    frame.write.format("barnabas").options(**texts).mode("append").save()


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


@pytest.mark.long
@pytest.mark.parametrize("again", [1, 7])
def test_a_streaming_write_that_is_repeated_is_not_written_twice(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, again: int
) -> None:
    """The checkpoint forgets that its last batch was committed, as after a crash, and divides that batch differently."""
    create(servers, f"{topic}-copied")
    feed(servers, topic, PARTITIONS, 0, 600)
    checkpoint = tmp_path / "checkpoint"

    def copy(tasks: int) -> None:
        options = {"subscribe": topic, "startingOffsets": "earliest", "minPartitions": tasks}
        frame = spark.readStream.format("barnabas").options(**given(servers, options)).load()
        sink = frame.select("key", "value", "headers", "timestamp").writeStream.format("barnabas")
        sink = sink.option("kafka.bootstrap.servers", servers).option("topic", f"{topic}-copied")
        query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(int(WAIT_S))
        assert query.exception() is None

    def copied() -> list[int]:
        frame = load(spark, "kafka", servers, subscribe=f"{topic}-copied")
        return sorted(json.loads(row[4])["n"] for row in rows(frame))

    copy(3)
    assert copied() == list(range(600))
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    feed(servers, topic, PARTITIONS, 600, 300)
    copy(again)
    copy(again)  # before PySpark 4.2 an available-now run is one batch: the first one was the repeated one
    assert copied() == list(range(900))
