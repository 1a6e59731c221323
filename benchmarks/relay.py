"""`python -m benchmarks.relay [--rate 10000] [--seconds 30] [--pending 10000000] [--buckets] [--kafka]`: how late the relay
delivers, and what it costs.

A producer writes `--rate` records a second of 100 B, each with the time when it is due: 2 to 20 seconds later, at random, so
that neighbours in the source are not due together. A read_committed consumer compares its clock with that time. What is due in
the last `--seconds` of the load is counted. Producer, consumer, relay and broker share this machine. Near records wait in the
source; with `--buckets` each is copied into a bucket.

`--pending` entries, due in days, are in the index before the relay begins, written as the relay writes them: what they cost is
memory and the time to begin.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.launch import command
from benchmarks.brokers import Running, kafka, ours
from benchmarks.process import Usage, usage
from benchmarks.workloads import quantile
from relay.names import RelayNames, log_partition
from relay.rules.rule import Rule, RuleKind
from relay.waiting.entries import MONTH, WaitingEntry, place_of
from relay.waiting.index_records import MAX_ENTRIES, taken_record

SOURCE: Final = "bench-later"
TARGET: Final = "bench-now"
PARTITIONS: Final = 4
VALUE_BYTES: Final = 100
STAMP_BYTES: Final = 8
LEAST_DELAY_MS, MOST_DELAY_MS = 2_000, 20_000
TICK_S: Final = 0.05
DAY_MS: Final = 86_400_000
TIMEOUT_S: Final = 300.0
STOP_TIMEOUT_S: Final = 30.0
NAMES: Final = RelayNames("bench-relay")


def wall_ms() -> float:
    return time.time() * 1000


def load(bootstrap_servers: str, rate: int, seconds: float, results: Connection) -> None:
    """Write records at a rate, each with a time when it is due; send how many there were."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
    )
    chance, pad = random.Random(1), b"x" * (VALUE_BYTES - STAMP_BYTES)
    began_s, sent = time.perf_counter(), 0
    while (passed_s := time.perf_counter() - began_s) < seconds:
        now_ms = int(wall_ms())
        for number in range(sent, int(passed_s * rate)):
            due_ms = now_ms + chance.randrange(LEAST_DELAY_MS, MOST_DELAY_MS)
            headers = [("barnabas-deliver-at", b"%d" % due_ms)]
            producer.produce(
                SOURCE, due_ms.to_bytes(STAMP_BYTES, "big") + pad, b"%d" % (number % 1_000), headers=headers
            )
        sent = int(passed_s * rate)
        producer.poll(TICK_S)
    assert producer.flush(60) == 0
    results.send(sent)


def watch(bootstrap_servers: str, results: Connection) -> None:
    """Send when the first record has come, then, told how many come, how late each was, as (due, lateness)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(TARGET, partition, 0) for partition in range(PARTITIONS)])
    found: list[tuple[float, float]] = []
    expected: int | None = None
    while expected is None or len(found) < expected:
        messages = consumer.consume(10_000, 0.01)
        now_ms = wall_ms()
        for message in messages:
            assert message.error() is None, message.error()
            due_ms = int.from_bytes(message.value()[:STAMP_BYTES], "big")
            if not found:
                results.send(now_ms)
            found.append((due_ms, now_ms - due_ms))
        if expected is None and results.poll(0):
            expected = results.recv()
    assert not consumer.consume(1, 1.0), "a record came twice"
    results.send(found)
    consumer.close()


def prepare(bootstrap_servers: str, pending: int, _: Connection) -> None:
    """Make the topics, the rule, the index of what waits, and a record that is due."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    compacted = {"cleanup.policy": "compact"}
    topics = [
        NewTopic(SOURCE, PARTITIONS, 1),
        NewTopic(TARGET, PARTITIONS, 1),
        NewTopic(NAMES.rules, 1, 1, config=compacted),
        NewTopic(NAMES.log, PARTITIONS, 1, config=compacted),
    ]
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "message.max.bytes": 2_000_000})
    rule = Rule(SOURCE, RuleKind.DELAY, TARGET)
    producer.produce(NAMES.rules, rule.to_json(), SOURCE.encode())
    producer.produce(SOURCE, bytes(VALUE_BYTES), headers=[("barnabas-deliver-at", b"0")])
    chance, now_ms, each = random.Random(2), int(wall_ms()), pending // PARTITIONS
    for partition in range(PARTITIONS):
        for first in range(0, each, MAX_ENTRIES):
            entries = [
                WaitingEntry(
                    now_ms + chance.randrange(DAY_MS, 30 * DAY_MS),
                    place_of(MONTH, partition * each + offset),
                    chance.getrandbits(64) | 1,
                )
                for offset in range(first, min(first + MAX_ENTRIES, each))
            ]
            key, value = taken_record(SOURCE, partition, first // MAX_ENTRIES, entries)
            producer.produce(NAMES.log, value, key, partition=log_partition((SOURCE, partition), PARTITIONS))
            producer.flush(60)
    assert producer.flush(60) == 0


@contextmanager
def relaying(bootstrap_servers: str, settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A relay process."""
    with tempfile.TemporaryDirectory(prefix="bench-relay-") as folder:
        path = Path(folder) / "relay.properties"
        given = {"bootstrap.servers": bootstrap_servers, "barnabas.relay.name": NAMES.name, **settings}
        path.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
        process = subprocess.Popen(command("relay", str(path)), start_new_session=True)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)


class Apart:
    """`run` in a process of its own, with a pipe to it as its last argument. This process has no threads."""

    def __init__(self, run: Callable[..., None], *arguments: object) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, its = context.Pipe()
        self._process = context.Process(target=run, args=(*arguments, its), daemon=True)
        self._process.start()
        its.close()

    def end(self) -> None:
        """Return when it has ended. Raises SystemExit when it failed."""
        self._process.join()
        if self._process.exitcode:
            raise SystemExit(f"a client failed with {self._process.exitcode}")


@dataclass(frozen=True, slots=True)
class Figures:
    lateness_ms: list[float]
    started_in_s: float
    relay: Usage
    """Processor time while records of the load came; memory at the end."""
    broker: Usage
    seconds: float


def measure(broker: Running, rate: int, seconds: float, pending: int, settings: dict[str, str]) -> Figures:
    servers = broker.target.bootstrap_servers
    Apart(prepare, servers, pending).end()
    watcher = Apart(watch, servers)
    began_ms = wall_ms()
    with relaying(servers, settings) as relay:
        started_in_s = (receive(watcher.pipe) - began_ms) / 1000
        relay_before, broker_before, began_s = usage(relay.pid), broker.usage(), time.perf_counter()
        lead_s = MOST_DELAY_MS / 1000
        loader = Apart(load, servers, rate, lead_s + seconds)
        sent = receive(loader.pipe)
        loader.end()
        end_ms = wall_ms()
        took_s = time.perf_counter() - began_s
        relay_after, broker_after = usage(relay.pid), broker.usage()
        watcher.pipe.send(1 + sent)
        found = receive(watcher.pipe)
    watcher.end()
    counted = sorted(late for due_ms, late in found if end_ms - seconds * 1000 <= due_ms < end_ms)
    assert counted[0] >= 0, f"a record came {-counted[0]} ms early"
    return Figures(counted, started_in_s, since(relay_before, relay_after), since(broker_before, broker_after), took_s)


def receive(pipe: Connection) -> Any:
    if not pipe.poll(TIMEOUT_S):
        raise SystemExit(f"nothing was delivered within {TIMEOUT_S:g} s")
    return pipe.recv()


def since(before: Usage, after: Usage) -> Usage:
    return Usage(after.cpu_seconds - before.cpu_seconds, after.rss_bytes, after.peak_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--pending", type=int, default=0)
    parser.add_argument("--buckets", action="store_true")
    parser.add_argument("--kafka", action="store_true")
    arguments = parser.parse_args()
    settings = {"barnabas.relay.near.ms": "0"} if arguments.buckets else {}
    with kafka() if arguments.kafka else ours() as broker:
        found = measure(broker, arguments.rate, arguments.seconds, arguments.pending, settings)
    print("| broker | due a second | pending before | late p50 ms | p99 | p99.9 | most | first delivery after s |"
          " relay's cores | its memory MB | broker's cores |\n|---|---|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    late = [f"{quantile(found.lateness_ms, share):.0f}" for share in (0.5, 0.99, 0.999)]
    cells = [
        broker.name, f"{len(found.lateness_ms) / arguments.seconds:,.0f}", f"{arguments.pending:,}", *late,
        f"{found.lateness_ms[-1]:.0f}", f"{found.started_in_s:.1f}", f"{found.relay.cpu_seconds / found.seconds:.2f}",
        f"{found.relay.peak_bytes / 1e6:.0f}", f"{found.broker.cpu_seconds / found.seconds:.2f}",
    ]  # fmt: skip
    print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
