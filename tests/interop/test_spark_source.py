"""The Python data source and Spark's own Kafka connector read the same topics, and give the same rows.

The topics hold what logs can hold: every codec, headers, nulls, transactions that were committed and aborted, gaps that
compaction left, records that were deleted.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import EmbeddedBroker
from tests.interop.spark_feed import REPOSITORY, feed
from tests.oracle import java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
WAIT_S = 120.0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker") / "data"


@pytest.fixture(scope="module")
def servers(data: Path) -> Iterator[str]:
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
        fill_mixed(broker.bootstrap_servers)
        yield broker.bootstrap_servers
        assert " ERROR " not in broker.log, broker.log


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
    import pyspark
    from pyspark.sql import SparkSession

    from barnabas.spark import BarnabasDataSource

    path = os.pathsep.join((str(users_modules), str(REPOSITORY)))
    before = dict(os.environ)
    os.environ |= {**java.spark_environment(), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    builder = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC")
    settings = {
        "spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    if "SPARK_IVY" in os.environ:
        settings["spark.jars.ivy"] = os.environ["SPARK_IVY"]
    for name, value in settings.items():
        builder = builder.config(name, value)
    folder_before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:  # Spark leaves folders where its JVM starts
        os.chdir(folder)
        try:
            spark = builder.getOrCreate()
        finally:
            os.chdir(folder_before)
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(BarnabasDataSource)
        yield spark
        spark.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("[", "-").replace("]", "").replace("test_", "")[:80]


def fill_mixed(servers: str) -> None:
    """Records of every codec and shape, alone and in transactions."""
    from confluent_kafka import Producer

    for codec in CODECS:
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50})
        for n in range(400):
            value = [None, b"", b"v" * (n % 300), codec.encode() * 40][n % 4]
            headers = [[("a", b"1"), ("a", None), ("é", b"")], None, [("n", str(n).encode())]][n % 3]
            key = None if n % 5 == 0 else str(n % 17).encode()
            producer.produce(
                "mixed", value, key, partition=n % PARTITIONS, headers=headers, timestamp=1_700_000_000_000 + n
            )
        assert producer.flush(60) == 0
        transactional = Producer(
            {"bootstrap.servers": servers, "compression.type": codec, "transactional.id": f"mixed-{codec}"}
        )
        transactional.init_transactions(60)
        for number in range(4):
            transactional.begin_transaction()
            for n in range(60):
                transactional.produce(
                    "mixed", f"{codec}-{number}-{n}", partition=n % PARTITIONS, timestamp=1_700_000_001_000
                )
            transactional.flush(60)
            (transactional.abort_transaction if number % 2 else transactional.commit_transaction)(60)


def given(servers: str, options: dict[str, object]) -> dict[str, str]:
    texts = {name: json.dumps(each) if isinstance(each, dict) else str(each) for name, each in options.items()}
    return {
        "kafka.bootstrap.servers": servers,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        **texts,
    }


def load(spark: SparkSession, form: str, servers: str, **options: object) -> DataFrame:
    return spark.read.format(form).options(**given(servers, options)).load()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """What was read, by partition and offset; what is there twice is listed twice."""
    found = [
        (
            row["topic"],
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            row["timestamp"],
            row["timestampType"],
            None if row["headers"] is None else [(each["key"], each["value"]) for each in row["headers"]],
        )
        for row in frame.collect()
    ]
    return sorted(found, key=lambda row: row[:3])


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
        error = importlib.import_module("barnabas.spark.client").KafkaError.__module__
        return private, error, *(importlib.import_module(name).WHOSE for name in USERS)

    (found,) = spark.sparkContext.parallelize([0], 1).map(look).collect()
    theirs = ("the user's",) * len(USERS)
    assert found == ("barnabas.spark.fetching", "barnabas._private.protocol.errors", *theirs)


EACH = 400 + 2 * 60  # records of a codec that are committed


def test_all_codecs_shapes_and_committed_transactions(spark: SparkSession, servers: str) -> None:
    assert len(both(spark, servers, subscribe="mixed")) == EACH * len(CODECS)


def test_all_records_when_uncommitted_ones_are_wanted(spark: SparkSession, servers: str) -> None:
    options = {"subscribe": "mixed", "kafka.isolation.level": "read_uncommitted", "minPartitions": 7}
    assert len(both(spark, servers, **options)) == (EACH + 2 * 60) * len(CODECS)


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


def administer(servers: str, do: Callable[[Any], dict[Any, Any]]) -> None:
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": servers})
    for future in do(client).values():
        future.result(60)


def create(servers: str, topic: str, partitions: int = PARTITIONS, **config: str) -> None:
    from confluent_kafka.admin import NewTopic

    names = {name.replace("_", "."): value for name, value in config.items()}
    administer(servers, lambda client: client.create_topics([NewTopic(topic, partitions, 1, config=names)]))


def is_created(servers: str, topic: str) -> bool:
    """Whether a topic could be created: not while one of its name is being deleted."""
    from confluent_kafka import KafkaException

    try:
        create(servers, topic)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
        return False
    return True


def test_compaction_leaves_gaps(spark: SparkSession, servers: str, topic: str) -> None:
    from confluent_kafka import Producer

    create(servers, topic, 1, cleanup_policy="compact", segment_bytes="4096", min_cleanable_dirty_ratio="0.01")
    producer = Producer({"bootstrap.servers": servers, "batch.num.messages": 20, "linger.ms": 5})
    for n in range(2000):
        producer.produce(topic, b"v%d" % n, b"once-%d" % n if n % 100 == 0 else b"often-%d" % (n % 7))
        producer.poll(0)
    assert producer.flush(60) == 0

    def offsets() -> list[int]:
        return [row[2] for row in rows(load(spark, "barnabas", servers, subscribe=topic))]

    until(lambda: len(offsets()) < 500, "compaction")
    found = both(spark, servers, subscribe=topic)
    assert {bytes(row[3]) for row in found} >= {b"once-%d" % n for n in range(0, 2000, 100)}


def test_deleted_records(spark: SparkSession, servers: str, topic: str) -> None:
    from confluent_kafka import TopicPartition
    from pyspark.errors import PySparkException

    feed(servers, topic, PARTITIONS, 0, 300)
    administer(servers, lambda client: client.delete_records([TopicPartition(topic, 0, 40)]))
    assert len(both(spark, servers, subscribe=topic)) == 260
    start = {topic: {"0": 10, "1": 90, "2": 0}}
    with pytest.raises(PySparkException, match="offsets 10 to 39 are gone"):
        load(spark, "barnabas", servers, subscribe=topic, startingOffsets=start).count()
    assert len(both(spark, servers, subscribe=topic, startingOffsets=start, failOnDataLoss="false")) == 60 + 10 + 100


# Streams


class Streamed:
    """A streaming query whose rows are gathered in this process, by batch: a batch that is interrupted before Spark has
    recorded its end comes again, as in every sink that `foreachBatch` writes to. `before` is what an earlier query gathered."""

    def __init__(
        self, spark: SparkSession, servers: str, checkpoint: Path, before: Streamed | None = None, **options: object
    ) -> None:
        self._rows_by_batch: dict[int, list[tuple[Any, ...]]] = {} if before is None else dict(before._rows_by_batch)
        self.batches: list[int] = []
        frame = spark.readStream.format("barnabas").options(**given(servers, options)).load()
        self.query = (
            frame.writeStream.foreachBatch(self._add)
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _add(self, frame: DataFrame, batch_id: int) -> None:
        found = rows(frame)
        self._rows_by_batch[batch_id] = found
        self.batches.append(len(found))

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return [row for batch_id in sorted(self._rows_by_batch) for row in self._rows_by_batch[batch_id]]

    def until(self, count: int) -> list[tuple[Any, ...]]:
        until(lambda: len(self.rows) >= count or self.query.exception(), f"{count} rows")
        assert self.query.exception() is None
        return sorted(self.rows, key=lambda row: row[:3])


def until(reached: Callable[[], Any], what: str) -> None:
    """Look every few milliseconds: the answer is in other processes."""
    deadline = time.monotonic() + WAIT_S
    while not reached():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_S} s"
        time.sleep(0.05)


@pytest.mark.long
def test_a_stream_of_a_topic_that_grows(spark: SparkSession, servers: str, topic: str, tmp_path: Path) -> None:
    from confluent_kafka.admin import NewPartitions

    feed(servers, topic, PARTITIONS, 0, 900)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 200}
    options["checkpointLocation"] = tmp_path / "checkpoint"
    stream = Streamed(spark, servers, tmp_path / "checkpoint", **options)
    try:
        stream.until(900)
        administer(servers, lambda client: client.create_partitions([NewPartitions(topic, PARTITIONS + 2)]))
        feed(servers, topic, PARTITIONS + 2, 900, 500)
        stream.until(1400)
    finally:
        stream.query.stop()
    assert max(stream.batches) <= 200
    feed(servers, topic, PARTITIONS + 2, 1400, 300)
    again = Streamed(spark, servers, tmp_path / "checkpoint", stream, **options)
    try:
        again.until(1700)
    finally:
        again.query.stop()
    assert max(again.batches) <= 200, "also the first batch of a restarted query is limited"
    everything = sorted(again.rows, key=lambda row: row[:3])
    assert everything == rows(load(spark, "kafka", servers, subscribe=topic))


@pytest.mark.long
@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_made_again_in_mid_stream(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, fails: bool
) -> None:
    feed(servers, topic, PARTITIONS, 0, 300)
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": str(fails).lower()}
    stream = Streamed(spark, servers, tmp_path / "checkpoint", **options)
    try:
        stream.until(300)
        administer(servers, lambda client: client.delete_topics([topic]))
        if fails:
            until(stream.query.exception, "an error")
            assert "does not exist" in str(stream.query.exception()) or "made again" in str(stream.query.exception())
            return
        until(lambda: is_created(servers, topic), "the deletion")
        feed(servers, topic, PARTITIONS, 1000, 600)  # more than before
        stream.until(900)
    finally:
        stream.query.stop()
    values = sorted(json.loads(row[4])["n"] for row in stream.rows)
    assert values == [*range(300), *range(1000, 1600)]


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
