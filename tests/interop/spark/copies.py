"""Two streaming queries in a process of their own, which tests kill: one copies a topic to another, one archives it as Parquet.

    python -m tests.interop.spark.copies BOOTSTRAP_SERVERS SOURCE TARGET FOLDER PER_BATCH TASKS [--to-end]

Checkpoints and the archive are in FOLDER. A batch has up to PER_BATCH records, which TASKS tasks copy. It prints RUNNING when
both queries have begun. With `--to-end` it ends when nothing is left to read, otherwise when a query fails.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline import archive, session
from barnabas.pipeline.frame import Run
from tests.interop.spark import feed as spark_feed
from tests.interop.spark.feed import REPOSITORY
from tests.interop.spark.job_cases import consume
from tests.oracle import java
from tests.oracle.process import watch_over

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RUNNING = "running"
WAIT_S = 600.0
"""While a broker hangs a batch may wait for its answer, half a minute, more than once."""


class CopiesProcess:
    """The process, from the side of a test."""

    def __init__(self, servers: str, source: str, target: str, folder: Path, per_batch: int) -> None:
        self._folder = folder
        self._arguments = [servers, source, target, str(folder), str(per_batch)]
        self._log = folder / "copies.log"
        self._printed_before = self._batches_before = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> CopiesProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, tasks: int, *more: str) -> None:
        self._printed_before, self._batches_before = len(self._text()), sum(self.batches())
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.interop.spark.copies", *self._arguments, str(tasks), *more],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**java.spark_environment(), "SPARK_LOG_LEVEL": "ERROR"},
                cwd=REPOSITORY,
            )
        self._watch = watch_over(self._process.pid)

    def kill(self) -> None:
        """SIGKILL to Python and the JVM at one instant."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._watch is not None:
            self._watch.kill()
            self._watch.communicate()
            self._watch = None

    def wait_until(self, what: str, reached: Callable[[], Any]) -> None:
        """Look every few milliseconds: the answer is in other processes. Fails when this one has ended before."""
        deadline = time.monotonic() + WAIT_S
        while not reached():
            self.assert_alive(what)
            assert time.monotonic() < deadline, f"{what}: not within {WAIT_S} s\n{self}"
            time.sleep(0.02)

    def assert_alive(self, what: str) -> None:
        assert self._process is not None and self._process.poll() is None, f"{what}: ended before\n{self}"

    def wait_for_batches(self, count: int) -> None:
        """Until both queries have begun, and so many batches are done since the start or the last call, of both together."""
        self.wait_until("the queries begin", lambda: f"{RUNNING}\n" in self._text()[self._printed_before :])
        wanted = self._batches_before + count
        self.wait_until(f"{count} batches", lambda: sum(self.batches()) >= wanted)
        self._batches_before = sum(self.batches())

    def finish(self, tasks: int) -> None:
        """Run once more, in large batches, until nothing is left to read."""
        self.kill()
        self._arguments[-1] = "1000000"
        self.start(tasks, "--to-end")
        assert self._process is not None
        assert self._process.wait(WAIT_S) == 0, str(self)

    def batches(self) -> tuple[int, int]:
        """How many batches the two checkpoints have recorded as done."""
        folders = [self._folder / name / "commits" for name in ("copy-checkpoint", "archive-checkpoint")]
        first, second = (sum(each.name.isdigit() for each in folder.glob("*")) for folder in folders)
        return first, second

    def __str__(self) -> str:
        return self._text()[-6000:]

    def _text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


def assert_copied(servers: str, source: str, target: str, folder: Path, count: int) -> None:
    """The records 0 to `count` of the feed are in the target and in the archive, each once, as they were produced."""
    import pyarrow.dataset

    produced = consume(servers, source)
    assert sorted(each.value["n"] for each in produced) == list(range(count)), "the feed itself"
    copies = consume(servers, target)
    times = Counter(each.value["n"] for each in copies)
    assert [n for n in range(count) if times[n] != 1] == [], "in the target topic not once"
    assert len(copies) == count
    for copy in copies:
        n = copy.value["n"]
        assert (copy.key, copy.headers) == (spark_feed.key(n), {"n": str(n), "empty": ""})
        assert copy.timestamp_ms == spark_feed.timestamp_ms(n)
    rows = pyarrow.dataset.dataset(folder / "archive", partitioning="hive").to_table().to_pylist()
    found = Counter((row["partition"], row["offset"], json.loads(row["value"])["n"]) for row in rows)
    assert found == Counter((each.partition, each.offset, each.value["n"]) for each in produced)


class Copies:
    """What the command line says, as queries."""

    def __init__(self, spark: SparkSession, arguments: list[str]) -> None:
        self._spark = spark
        self._servers, self._source, self._target = arguments[:3]
        self._folder = Path(arguments[3])
        self._per_batch, self._tasks = arguments[4:6]
        self._archive = {
            "bootstrap_servers": self._servers, "topics": self._source, "max_offsets_per_trigger": self._per_batch,
            "output": str(self._folder / "archive"), "checkpoint": str(self._folder / "archive-checkpoint"),
        }  # fmt: skip

    def copy(self, **trigger: bool | str) -> StreamingQuery:
        """Start the copy."""
        checkpoint = str(self._folder / "copy-checkpoint")
        source = self._spark.readStream.format("barnabas").option("kafka.bootstrap.servers", self._servers)
        source = source.options(subscribe=self._source, startingOffsets="earliest", includeHeaders="true")
        source = source.options(maxOffsetsPerTrigger=self._per_batch, minPartitions=self._tasks)
        rows = source.option("checkpointLocation", checkpoint).load()
        sink = rows.select("key", "value", "headers", "timestamp").writeStream.format("barnabas")
        sink = sink.option("kafka.bootstrap.servers", self._servers).option("topic", self._target)
        return sink.option("checkpointLocation", checkpoint).trigger(**trigger).start()  # type: ignore[arg-type, unused-ignore]

    def run(self) -> None:
        """Start both, and return when one ends."""
        self.copy(processingTime="0 seconds")
        archive.job.begin(
            self._spark, archive.job.options(**self._archive, trigger="1 second"), Run("archive", is_quiet=True)
        )
        print(RUNNING, flush=True)
        self._spark.streams.awaitAnyTermination()

    def to_end(self) -> None:
        """Run both until nothing is left: before PySpark 4.2 a bounded run is one batch."""
        while True:
            query = self.copy(availableNow=True)
            query.awaitTermination()
            if not any(progress.numInputRows for progress in query.recentProgress):
                break
        archive.job.run(self._spark, **self._archive)


def main() -> None:
    from barnabas.spark import BarnabasDataSource

    spark = session.spark_session("copies")
    spark.dataSource.register(BarnabasDataSource)
    copies = Copies(spark, sys.argv[1:7])
    if "--to-end" in sys.argv:
        copies.to_end()
    else:
        copies.run()
    spark.stop()


if __name__ == "__main__":
    main()
