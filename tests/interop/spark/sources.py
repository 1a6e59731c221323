"""What the tests of the Spark sources share: topics whose content is known, rows as tuples, streams that are gathered in this
process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
HAS_CONNECTOR = os.environ.get("SPARK_CONNECTOR") != "no"
WAIT_S = 240.0


Row = tuple[Any, ...]
"""Topic, partition, offset, key, value, timestamp, type of timestamp, headers."""


class Produced:
    """The records that a broker has acknowledged, with the offsets it gave them: what a reader must find."""

    def __init__(self) -> None:
        self.committed: list[Row] = []
        self.aborted: list[Row] = []

    def produce(self, producer: Any, topic: str, n: int, value: bytes | None, **more: Any) -> None:
        """A record with number `n`, which chooses partition and timestamp. Its row is known when `producer` has flushed."""
        key, headers, into = more.get("key"), more.get("headers"), more.get("into", self.committed)
        partition, timestamp_ms = more.get("partition", n % PARTITIONS), 1_700_000_000_000 + n

        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            at = datetime.fromtimestamp(timestamp_ms / 1000)  # noqa: DTZ006  as PySpark gives it: local
            into.append((topic, partition, message.offset(), key, value, at, 0, headers))

        producer.produce(
            topic, value, key, partition=partition, headers=headers, timestamp=timestamp_ms, on_delivery=delivered
        )
        producer.poll(0)

    @property
    def rows(self) -> list[Row]:
        """What a reader of committed records finds, by partition and offset."""
        return sorted(self.committed, key=lambda row: row[:3])

    @property
    def all_rows(self) -> list[Row]:
        return sorted(self.committed + self.aborted, key=lambda row: row[:3])


def fill_mixed(servers: str, topic: str = "mixed") -> Produced:
    """Records of every codec and shape, alone and in transactions."""
    from confluent_kafka import Producer

    produced = Produced()
    for codec in CODECS:
        settings = {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50}
        producer = Producer(settings)
        for n in range(400):
            value = [None, b"", b"v" * (n % 300), codec.encode() * 40][n % 4]
            headers = [[("a", b"1"), ("a", None), ("é", b"")], None, [("n", str(n).encode())]][n % 3]
            key = None if n % 5 == 0 else str(n % 17).encode()
            produced.produce(producer, topic, n, value, key=key, headers=headers)
        assert producer.flush(60) == 0
        transactional = Producer({**settings, "transactional.id": f"{topic}-{codec}"})
        transactional.init_transactions(60)
        for number in range(4):
            into = produced.aborted if number % 2 else produced.committed
            transactional.begin_transaction()
            for n in range(60):
                produced.produce(transactional, topic, n, f"{codec}-{number}-{n}".encode(), into=into)
            transactional.flush(60)
            (transactional.abort_transaction if number % 2 else transactional.commit_transaction)(60)
    return produced


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


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    """Spark before 4.1 gives bytearrays, which no set takes."""
    return None if value is None else bytes(value)


def rows(frame: DataFrame) -> list[Row]:
    """What was read, by partition and offset; what is there twice is listed twice."""
    found = [
        (
            row["topic"],
            row["partition"],
            row["offset"],
            _bytes(row["key"]),
            _bytes(row["value"]),
            row["timestamp"],
            row["timestampType"],
            None if row["headers"] is None else [(each["key"], _bytes(each["value"])) for each in row["headers"]],
        )
        for row in frame.collect()
    ]
    return sorted(found, key=lambda row: row[:3])


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


class Streamed:
    """A streaming query whose rows are gathered in this process, by batch: a batch that is interrupted before Spark has
    recorded its end comes again, as in every sink that `foreachBatch` writes to. `before` is what an earlier query gathered."""

    def __init__(
        self,
        spark: SparkSession,
        form: str,
        servers: str,
        checkpoint: Path,
        before: Streamed | None = None,
        **options: object,
    ) -> None:
        self._rows_by_batch: dict[int, list[Row]] = {} if before is None else dict(before._rows_by_batch)
        self.batches: list[int] = []
        options = {"startingOffsets": "earliest", **options}
        if form == "barnabas":
            options["checkpointLocation"] = checkpoint
        frame = spark.readStream.format(form).options(**given(servers, options)).load()
        self.query = (
            frame.writeStream.foreachBatch(self._add)
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="0 seconds")
            .start()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.query.stop()

    def _add(self, frame: DataFrame, batch_id: int) -> None:
        found = rows(frame)
        self._rows_by_batch[batch_id] = found
        self.batches.append(len(found))

    @property
    def rows(self) -> list[Row]:
        return [row for batch_id in sorted(self._rows_by_batch) for row in self._rows_by_batch[batch_id]]

    def wait(self, count: int) -> list[Row]:
        """All rows, by partition and offset, when they are so many and the checkpoint has their batches as done."""
        self.wait_for(lambda found: len(found) >= count)
        self.query.processAllAvailable()
        return sorted(self.rows, key=lambda row: row[:3])

    def wait_for(self, reached: Callable[[list[Row]], bool]) -> None:
        """Until the rows are as `reached` says."""
        deadline = time.monotonic() + WAIT_S
        while not reached(self.rows) and self.query.exception() is None:
            assert time.monotonic() < deadline, f"{len(self.rows)} rows within {WAIT_S} s"
            time.sleep(0.05)
        assert self.query.exception() is None

    def error(self) -> str:
        """The text of the error with which the query ends."""
        until(self.query.exception, "an error")
        return str(self.query.exception())


def until(reached: Callable[[], Any], what: str) -> None:
    """Look every few milliseconds: the answer is in other processes."""
    deadline = time.monotonic() + WAIT_S
    while not reached():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_S} s"
        time.sleep(0.05)
