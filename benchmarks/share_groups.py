"""`python -m benchmarks.share_groups [--pairs 5] [--only NAME,...]`: share groups (KIP-932) beside Apache Kafka 4.3.0:
acknowledged records a second, and what they cost the broker.

The records, of 100 B, are in the topic before the members join: batches of 16 KiB, as Java's producer makes by default. The
members acknowledge implicitly: what one poll gave is acknowledged with the next fetch. Time and processor count from when each
member has got records until all are acknowledged, so that joining, which waits for heartbeats, does not count. Pairs alternate
between the brokers, each of which has the load once before without being measured; a ratio is the median of the pairs'.
Processor seconds are the broker's alone, for a million records.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from benchmarks.brokers import KAFKA_OPTIONS, Running, ours
from benchmarks.workloads import Target
from tests.interop.clients import java_clients
from tests.oracle.kraft import KraftKafka

VALUE_BYTES: Final = 100
BATCH_BYTES: Final = 16_384
PAIRS: Final = 5
JAVA: Final = "4.3.0"
JAVA_OPTIONS: Final = ("-Xmx1G", "-Xms1G", "-XX:+UseSerialGC")
SETTINGS: Final = {
    "offsets.topic.num.partitions": "50",
    "share.coordinator.state.topic.num.partitions": "50",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "1000",
}
"""Of both brokers. Heartbeats are more frequent than by default, so that a group is together sooner."""


@dataclass(frozen=True)
class Load:
    """So many `members` read so many `records` of a topic of `partitions`."""

    name: str
    client: Callable[[list[str]], list[str]]
    """The command line of the members, with what they are told."""
    members: int
    partitions: int
    records: int


@dataclass(frozen=True)
class Measured:
    acknowledged_per_second: float
    broker_cpu_s_per_million: float
    delivered_again: int


def java(arguments: list[str]) -> list[str]:
    return java_clients.command(JAVA, "ShareLoad", arguments, options=JAVA_OPTIONS)


def librdkafka(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.share_consumers", *arguments]


def raw(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.raw_share_consumers", *arguments]


LOADS: Final = (
    Load("Java: 4 members of 4 partitions", java, 4, 4, 1_000_000),
    Load("Java: 4 members of 1 partition", java, 4, 1, 1_000_000),
    Load("Java: 10 members of 1 partition", java, 10, 1, 1_000_000),
    Load("librdkafka: 4 members of 4 partitions", librdkafka, 4, 4, 1_000_000),
    Load("raw: 4 members of 4 partitions", raw, 4, 4, 1_000_000),
    Load("raw: 10 members of 1 partition", raw, 10, 1, 1_000_000),
)


def fill(target: Target, partitions: int, records: int) -> str:
    topic = target.topic(partitions)
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            "linger.ms": 50,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    chunk = [{"value": b"x" * VALUE_BYTES}] * 1000
    for number in range(records // 1000):
        while len(producer) > 200_000:
            producer.poll(0.005)
        producer.produce_batch(topic, chunk, partition=number % partitions)
    assert producer.flush(120) == 0
    return topic


def begin_at_the_first_record(target: Target, group: str) -> None:
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": target.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(30)


def measure(running: Running, load: Load) -> Measured:
    target = running.target
    topic = fill(target, load.partitions, load.records)
    group = f"group-of-{topic}"
    begin_at_the_first_record(target, group)
    command = load.client([target.bootstrap_servers, group, topic, str(load.members), str(load.records)])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as members:
        assert members.stdout is not None
        try:
            before = _told(members.stdout.readline(), "started")[0]
            started, cpu = time.perf_counter(), running.usage().cpu_seconds
            after, delivered = _told(members.stdout.readline(), "ended")[:2]
            elapsed, cost = time.perf_counter() - started, running.usage().cpu_seconds - cpu
        except BaseException:
            members.kill()
            raise
        members.wait(60)
    target.delete_topics()
    acknowledged = after - before
    return Measured(acknowledged / elapsed, cost / acknowledged * 1e6, delivered - load.records)


def _told(line: str, word: str) -> list[int]:
    found, *numbers = line.split() or [""]
    if found != word:
        raise SystemExit(f"the members failed: {line!r}")
    return [int(number) for number in numbers]


@contextmanager
def newer_kafka() -> Iterator[Running]:
    """Apache Kafka 4.3.0 with the options of its own start script."""
    with KraftKafka(SETTINGS, KAFKA_OPTIONS) as broker:
        assert broker.process is not None
        yield Running("Kafka 4.3.0", Target(broker.bootstrap_servers), (broker.process.pid,), broker.data)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.share_groups")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", default="", help="names of loads, comma separated, or parts of them")
    parser.add_argument("--broker", choices=("both", "ours", "kafka"), default="both")
    arguments = parser.parse_args()
    wanted = [part for part in arguments.only.split(",") if part]
    with ExitStack() as stack:
        brokers: list[Running] = []
        if arguments.broker != "kafka":
            given = [f"{name}={text}" for name, text in SETTINGS.items()]
            brokers.append(stack.enter_context(ours("barnabas.initial.features=newest", *given)))
        if arguments.broker != "ours":
            brokers.append(stack.enter_context(newer_kafka()))
        for load in LOADS:
            if not wanted or any(part in load.name for part in wanted):
                _compare(load, brokers, arguments.pairs)
    return 0


def _compare(load: Load, brokers: list[Running], pairs: int) -> None:
    """Print each figure, and the ratios of ours to the other."""
    rows: list[list[Measured]] = []
    for running in brokers:
        measure(running, load)  # not counted: a JVM compiles its code while it runs
    for number in range(pairs):
        order = brokers if number % 2 == 0 else brokers[::-1]
        figures = {running.name: measure(running, load) for running in order}
        for name, measured in figures.items():
            print(
                f"{load.name}: {name:12} {measured.acknowledged_per_second:9,.0f} acknowledged a second, CPU"
                f" {measured.broker_cpu_s_per_million:6.2f} s a million, {measured.delivered_again} delivered again",
                flush=True,
            )
        rows.append([figures[running.name] for running in brokers])
    if len(brokers) == 2:
        rate = statistics.median(mine.acknowledged_per_second / its.acknowledged_per_second for mine, its in rows)
        cost = statistics.median(mine.broker_cpu_s_per_million / its.broker_cpu_s_per_million for mine, its in rows)
        print(f"{load.name}: acknowledged a second {rate:.2f} times, CPU {cost:.2f} times", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
