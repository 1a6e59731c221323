"""`python -m benchmarks.spark_pictures [docs/pictures]`: draw the progress of two real queries for docs/spark.md.

A broker of its own, one producer with a steady rate and bursts, and the jobs `archive` and `aggregate` one after the other,
each for two minutes. What is drawn is what Spark reports of each batch.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from pyspark.sql.streaming.listener import StreamingQueryListener

from barnabas import EmbeddedBroker
from barnabas.pipeline import aggregate, archive
from barnabas.pipeline.progress import parse_batch
from barnabas.pipeline.session import spark_session
from barnabas.spark.client.groups import records_behind
from benchmarks.progress_chart import chart, points_of
from tests.interop.spark.feed import key, timestamp_ms, value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 120.0
PER_SECOND = 2_000
BURST, BURST_INTERVAL_S = 40_000, 30
PARTITIONS = 3


class Events(StreamingQueryListener):
    """(JSON text, records that were left at that moment) of each batch."""

    def __init__(self, servers: str) -> None:
        self.found: list[tuple[str, int | None]] = []
        self._options = {"kafka.bootstrap.servers": servers}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802, RUF100  Spark's names
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802, RUF100
        text = event.progress.json
        reached = parse_batch(text).reached
        self.found.append((text, records_behind(self._options, reached) if reached else None))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802, RUF100
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802, RUF100
        pass


@contextmanager
def producing(servers: str, topic: str) -> Iterator[None]:
    """Write to a topic until the block ends."""
    stop = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
        number = 0
        for second in itertools.count():
            for _ in range(PER_SECOND + (BURST if second % BURST_INTERVAL_S == BURST_INTERVAL_S - 1 else 0)):
                stamp = timestamp_ms(number // 50)
                producer.produce(topic, value(number // 50), key(number), number % PARTITIONS, timestamp=stamp)
                number += 1
                producer.poll(0)
            if stop.wait(1):
                break
        producer.flush(30)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def draw(spark: SparkSession, servers: str, job: Any, title: str, file: Path, **settings: Any) -> None:
    events = Events(servers)
    spark.streams.addListener(events)
    query = job(spark, bootstrap_servers=servers, trigger="1 second", max_offsets_per_trigger=20_000, **settings)
    with producing(servers, "orders"):
        while not points_of(events.found):  # Spark's first batch takes long
            time.sleep(0.1)
        time.sleep(SECONDS)
    query.stop()
    spark.streams.removeListener(events)
    file.write_text(chart(title, points_of(events.found), with_state=job is aggregate.job), encoding="utf-8")
    print(file, flush=True)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    spark = spark_session("pictures")
    topics = {"orders": PARTITIONS, "orders-per-minute": 1}
    settings = {"log.retention.ms": -1}
    with tempfile.TemporaryDirectory() as data:
        for job, name, title, more in (
            (archive.job, "archive", "archive: 2,000 records a second, and 40,000 more every 30 seconds",
             {"topics": "orders", "output": f"{data}/archive"}),
            (aggregate.job, "aggregate", "aggregate: windows of a minute, open until they are 30 seconds old",
             {"source": "orders", "target": "orders-per-minute"}),
        ):  # fmt: skip
            with EmbeddedBroker(topics, settings) as broker:
                draw(spark, broker.bootstrap_servers, job, title, folder / f"{name}.svg",
                     checkpoint=f"{data}/{name}-checkpoint", **more)  # fmt: skip
    spark.stop()


if __name__ == "__main__":
    main()
