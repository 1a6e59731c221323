"""`python -m benchmarks.many_partitions [--partitions 10000] [--every 10] [--only ours|kafka]`: what mostly idle partitions
cost a broker.

Topics of a hundred partitions are made, a record is written to every tenth partition, and then nothing happens. Measured,
of this broker and of Apache Kafka one after the other, each with default settings on an empty directory:
- create: from the first CreateTopics to a record acknowledged by the last partition;
- memory (resident), open files and processor time while idle, by /proc, after a clean start;
- stop, clean start, start after kill -9: from exec to a record acknowledged by the last partition, so that every log is
  loaded and has its leader. Bytecode is compiled and the files are in the page cache, for both.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers import KAFKA_OPTIONS
from benchmarks.process import Usage, usage
from benchmarks.wire import produce_answer
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import ApacheKafka

PER_TOPIC = 100
TOPICS_AT_ONCE = 10
SETTLE_S = 5.0
TIMEOUT_S = 300.0

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Load:
    """Partitions to make; one in `every` has a record."""

    partitions: int
    every: int

    @property
    def topics(self) -> list[str]:
        return [f"idle-{number:05}" for number in range(self.partitions // PER_TOPIC)]

    def create(self, broker: Broker) -> None:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for at in range(0, len(self.topics), TOPICS_AT_ONCE):
            topics = [NewTopic(name, PER_TOPIC, 1) for name in self.topics[at : at + TOPICS_AT_ONCE]]
            for created in admin.create_topics(topics, operation_timeout=TIMEOUT_S).values():
                created.result(TIMEOUT_S)

    def write(self, broker: Broker) -> None:
        for topic in self.topics:
            for partition in range(0, PER_TOPIC, self.every):
                assert produce_answer(("127.0.0.1", broker.port), topic, partition) == 0

    def wait_for_last(self, broker: Broker) -> None:
        """Return when the last partition has acknowledged a record."""
        deadline = time.perf_counter() + TIMEOUT_S
        while time.perf_counter() < deadline:
            try:
                if produce_answer(("127.0.0.1", broker.port), self.topics[-1], PER_TOPIC - 1) == 0:
                    return
            except OSError:
                pass
            time.sleep(0.01)
        raise TimeoutError(f"{broker.name} acknowledged nothing in {TIMEOUT_S:.0f} s: {broker.log_tail()}")


def process_usage(broker: Broker) -> Usage:
    assert broker.process is not None
    return usage(broker.process.pid)


def open_files(broker: Broker) -> int:
    assert broker.process is not None
    return len(os.listdir(f"/proc/{broker.process.pid}/fd"))


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def start(broker: Broker, load: Load) -> float:
    """Seconds."""

    def run() -> None:
        broker.start()
        load.wait_for_last(broker)

    return timed(run)


def idle(broker: Broker, seconds: float) -> Figures:
    before = process_usage(broker)
    time.sleep(seconds)
    after = process_usage(broker)
    return {
        "idle cpu %": (after.cpu_seconds - before.cpu_seconds) / seconds * 100,
        "rss MB": after.rss_bytes / 1e6,
        "peak rss MB": after.peak_bytes / 1e6,
        "open files": open_files(broker),
    }


def measure(broker: Broker, load: Load, idle_seconds: float) -> Figures:
    """From an empty directory on."""
    figures: Figures = {}
    with broker:
        figures["rss MB, no partitions"] = process_usage(broker).rss_bytes / 1e6

        def create() -> None:
            load.create(broker)
            load.wait_for_last(broker)

        figures["create s"] = timed(create)
        load.write(broker)
        figures["rss MB, just made"] = process_usage(broker).rss_bytes / 1e6
        figures["clean stop s"] = timed(broker.stop)
        figures["clean start s"] = start(broker, load)
        time.sleep(SETTLE_S)
        figures |= idle(broker, idle_seconds)
        broker.kill()
        figures["start after kill -9 s"] = start(broker, load)
        figures["rss MB, after kill -9"] = process_usage(broker).rss_bytes / 1e6
    print(broker.name, {name: round(figure, 3) for name, figure in figures.items()}, flush=True)
    return figures


def brokers(name: str) -> Broker:
    settings = {"offsets.topic.num.partitions": "50"}
    made: Broker = ApacheKafka(settings, KAFKA_OPTIONS) if name == "kafka" else Barnabas(settings)
    made.start_timeout_s = made.stop_timeout_s = TIMEOUT_S
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000, help="how many, in topics of a hundred")
    parser.add_argument("--every", type=int, default=10, help="a record is in each so many-th partition")
    parser.add_argument("--idle-seconds", type=float, default=30.0, help="how long nothing is done")
    parser.add_argument("--only", choices=("ours", "kafka"), help="one of the two")
    options = parser.parse_args()
    names = (options.only,) if options.only else ("ours", "kafka")
    load = Load(options.partitions, options.every)
    what = f"{load.partitions} partitions, a record in one of {load.every}"
    print(f"{what}, Python {platform.python_version()}, {Path(sys.executable).name}", flush=True)
    results = {name: measure(brokers(name), load, options.idle_seconds) for name in names}
    print(f"\n| figure | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for figure in results[names[0]]:
        print(f"| {figure} | {' | '.join(f'{results[name][figure]:,.4g}' for name in names)} |")


if __name__ == "__main__":
    main()
