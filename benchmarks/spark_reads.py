"""`python -m benchmarks.spark_reads [--share 0.1] [--rounds 3]`: Spark reads a topic in three ways: through its own Kafka
connector, through `format("barnabas")` from the broker, and from the broker's log files.

Two Sparks (`local[2]`), one with the connector's jars and one without a jar, run all the time and read the same topics in turn,
the ways in another order in each round. A JVM compiles its code while it runs, so each way runs twice unmeasured, and the
first of these runs compares what was read. A read goes to Spark's sink `noop`, which takes each row whole and does nothing with
it. Processor seconds are those of the JVM, of the Python workers and of the processes that plan a read, together; the broker's
are given beside them.

The share 1 is 10,000,000 records of 100 B and 1,000,000 records of 1,000 B, in four partitions.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.session import spark_session
from barnabas.spark import BarnabasDataSource
from benchmarks.brokers import Running, ours
from benchmarks.process import tree_cpu_seconds
from benchmarks.workloads import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
SIZES = {100: 10_000_000, 1000: 1_000_000}
"""Records of so many bytes."""
CONNECTOR, BROKER, FILES = "connector", "ours from the broker", "ours from files"


@dataclass(frozen=True, slots=True)
class Load:
    """A topic to read; `options` of the read in each way."""

    value_bytes: int
    records: int
    options: Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class Figures:
    """Of one way and one load: seconds, processor seconds and the broker's processor seconds of each run."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    broker_cpu_seconds: list[float] = field(default_factory=list)


def frame(spark: SparkSession, load: Load, way: str) -> DataFrame:
    return spark.read.format("kafka" if way == CONNECTOR else "barnabas").options(**load.options[way]).load()


def contents(rows: DataFrame) -> tuple[Any, ...]:
    """What tells one set of records from another, without keeping it."""
    row = rows.selectExpr(
        "count(*)", "sum(offset)", "sum(length(value))", "sum(bigint(hash(partition, offset, value, key, timestamp)))"
    ).first()
    assert row is not None
    return tuple(row)


def serve(requests: Connection, with_connector: bool) -> None:
    """Be the process of one Spark: (load, way, whether to compare) in; `contents`, or (seconds, processor seconds) out."""
    spark = spark_session("bench", with_connector=with_connector)
    if not with_connector:
        spark.dataSource.register(BarnabasDataSource)
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # noqa: SLF001
    requests.send(spark.version)
    while (request := requests.recv()) is not None:
        load, way, compares = request
        if compares:
            requests.send(contents(frame(spark, load, way)))
            continue
        before, started = tree_cpu_seconds(jvm), time.perf_counter()
        frame(spark, load, way).write.format("noop").mode("overwrite").save()
        requests.send((time.perf_counter() - started, tree_cpu_seconds(jvm) - before))
    spark.stop()


@contextmanager
def spark_process(with_connector: bool) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, with_connector))
    process.start()
    theirs.close()
    try:
        print(f"Spark {mine.recv()}, {'with' if with_connector else 'without'} its connector", flush=True)
        yield mine
        mine.send(None)
    finally:
        mine.close()
        process.join(60)
        if process.is_alive():
            process.kill()


def ask(sparks: Mapping[str, Connection], load: Load, way: str, *, compares: bool = False) -> Any:
    sparks[way].send((load, way, compares))
    return sparks[way].recv()


def measure(sparks: Mapping[str, Connection], broker: Running, load: Load, way: str, figures: Figures) -> None:
    broker_before = broker.usage().cpu_seconds
    seconds, cpu_seconds = ask(sparks, load, way)
    figures.seconds.append(seconds)
    figures.cpu_seconds.append(cpu_seconds)
    figures.broker_cpu_seconds.append(broker.usage().cpu_seconds - broker_before)


def load_of(broker: Running, value_bytes: int, records: int) -> Load:
    topic = fill(
        broker.target, value_bytes=value_bytes, megabytes=records * value_bytes // 1_000_000, partitions=PARTITIONS
    )
    servers = {"kafka.bootstrap.servers": broker.target.bootstrap_servers, "subscribe": topic}
    options = {CONNECTOR: servers, BROKER: servers, FILES: {"path": str(broker.data), "subscribe": topic}}
    return Load(value_bytes, records, options)


def report(load: Load, results: Mapping[str, Figures]) -> None:
    print(f"\n### {load.records:,} records of {load.value_bytes:,} B\n")
    print("| way | records per second | records per processor second | to the connector's | broker's processor s |")
    print("|---|---|---|---|---|")
    base = results[CONNECTOR]
    for way, figures in results.items():
        ratio = [theirs / ours for theirs, ours in zip(base.cpu_seconds, figures.cpu_seconds, strict=True)]
        print(
            f"| {way} | {rate(load, figures.seconds)} | {rate(load, figures.cpu_seconds)} "
            f"| {spread(ratio, '.2f')} | {statistics.median(figures.broker_cpu_seconds):.2f} |"
        )
    sys.stdout.flush()


def rate(load: Load, seconds: Sequence[float]) -> str:
    return spread([load.records / each for each in seconds], ",.0f")


def spread(values: Sequence[float], form: str) -> str:
    """The median, the smallest and the largest."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def run(sparks: Mapping[str, Connection], broker: Running, load: Load, rounds: int) -> dict[str, Figures]:
    ways = list(sparks)
    expected = {way: ask(sparks, load, way, compares=True) for way in ways}
    assert len(set(expected.values())) == 1, f"what was read differs: {expected}"
    assert next(iter(expected.values()))[0] == load.records
    results = {way: Figures() for way in ways}
    for way in ways:
        measure(sparks, broker, load, way, Figures())
    for number in range(rounds):
        for turn in range(len(ways)):
            way = ways[(number + turn) % len(ways)]
            measure(sparks, broker, load, way, results[way])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the records of the whole form")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each way")
    parser.add_argument("--only", type=int, choices=sorted(SIZES), help="records of this size alone")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    print(f"{time.strftime('%Y-%m-%d')} commit {commit.strip()} Python {platform.python_version()}")
    with ExitStack() as stack:
        broker = stack.enter_context(ours())
        theirs = stack.enter_context(spark_process(with_connector=True))
        mine = stack.enter_context(spark_process(with_connector=False))
        for size in [options.only] if options.only else sorted(SIZES):
            load = load_of(broker, size, int(SIZES[size] * options.share))
            report(load, run({CONNECTOR: theirs, BROKER: mine, FILES: mine}, broker, load, options.rounds))
            broker.target.delete_topics()


if __name__ == "__main__":
    main()
