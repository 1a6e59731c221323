"""`python -m benchmarks [--pairs 7] [--only NAME,...] [--processes N] [--against ours] [--cluster]`: measure both brokers in
turn and print the ratios.

With `--processes N`, ours are N brokers by one command (`barnabas start --brokers N`), whose costs are added up, with those of
their store and supervisor; `--against ours` puts one broker of ours in the place of Apache Kafka.

Both brokers run all the time and are loaded alternately, ours first in even pairs and second in odd ones, so that what
the machine does meanwhile meets both. Each measurement has a client process of its own: what an earlier load left behind
in a client (its heap above all) made the same load up to three times slower. A figure is the median over the pairs with
its quartiles; a ratio is the median of the pairs' ratios. Processor seconds and memory are the broker's alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import transactions, workloads
from benchmarks.brokers import Running, kafka, ours, several, start_ours, three_brokers, wait_for_produce
from benchmarks.crowd import PARTITIONS, crowd_latency
from benchmarks.process import usage
from benchmarks.workloads import Target
from tests.oracle.cluster import KAFKA, OURS
from tests.oracle.ports import lasting_port

Figures = dict[str, float]
MEGABYTES = 300
# How often the raw consumer reads a topic: once takes it a third of a second.
RAW_PASSES = 5


@dataclass
class Workload:
    """`run` returns figures by name. `smaller_is_better` turns the ratio's reading round; the name says it.
    With `transactions`, the broker's processor time is given for each. `prepare` makes the topics that `run` finds in its
    target; what it costs is not counted."""

    name: str
    run: Callable[[Target], Figures]
    megabytes: float = 0
    smaller_is_better: bool = False
    transactions: int = 0
    prepare: Callable[[Target], object] | None = None
    results: dict[str, list[Figures]] = field(default_factory=lambda: defaultdict(list))

    def run_apart(self, target: Target) -> Figures:
        """`run` in a process of its own, forked: this one has no threads."""

        def load(send: Callable[[Figures], None]) -> None:
            send(self.run(target))
            target.delete_topics()

        figures: Figures = self._apart(load)
        return figures

    def _apart(self, load: Callable[[Callable[[Any], None]], None]) -> Any:
        """Run `load` in a forked process, and return what it sends when that has ended."""
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=load, args=(sender.send,))
        child.start()
        sender.close()
        try:
            sent = receiver.recv()
        except EOFError:
            raise SystemExit(f"{self.name}: the client failed") from None
        child.join()
        return sent

    def prepared(self, target: Target) -> Target:
        """The target with the topics that `prepare` made and filled there."""
        prepare = self.prepare
        if prepare is None:
            return target

        def load(send: Callable[[list[str]], None]) -> None:
            prepare(target)
            send(target.topics)

        return replace(target, topics=self._apart(load))

    def measure(self, broker: Running) -> None:
        target = self.prepared(broker.target)
        before = broker.usage()
        started = time.perf_counter()
        figures = self.run_apart(target)
        elapsed = time.perf_counter() - started
        after = broker.usage()
        cpu_seconds = after.cpu_seconds - before.cpu_seconds
        figures["broker cpu share"] = cpu_seconds / elapsed
        if self.megabytes:
            figures["broker cpu s/GB"] = cpu_seconds / self.megabytes * 1000
        elif "per second" in figures:
            figures["broker cpu us a request"] = cpu_seconds / elapsed / figures["per second"] * 1e6
        if self.transactions:
            figures["broker cpu ms a transaction"] = cpu_seconds / self.transactions * 1000
        figures["rss MB"] = after.rss_bytes / 1e6
        figures["peak rss MB"] = after.peak_bytes / 1e6
        self.results[broker.name].append(figures)


def _rate(function: Callable[[Target], float]) -> Callable[[Target], Figures]:
    return lambda target: {"per second": function(target)}


def _consume(name: str, read: Callable[[Target], float], value_bytes: int, passes: int = 1) -> Workload:
    """A load that reads a topic `passes` times; filling it is not counted."""
    fill = partial(workloads.fill, value_bytes=value_bytes, megabytes=MEGABYTES)
    return Workload(name, _rate(read), MEGABYTES * passes, prepare=fill)


def _latency(**options: int) -> Callable[[Target], Figures]:
    def run(target: Target) -> Figures:
        samples = workloads.latency(target, **options)
        return {f"p{share * 100:g} ms": workloads.quantile(samples, share) for share in (0.5, 0.99, 0.999)}

    return run


def _crowd(target: Target) -> Figures:
    samples = crowd_latency(target.address, target.topic(PARTITIONS))
    return {f"p{share * 100:g} ms": workloads.quantile(samples, share) for share in (0.5, 0.99)}


def _produce(value_bytes: int, codec: str, *, acks: str = "1", idempotent: bool = False) -> Callable[[Target], Figures]:
    return _rate(
        lambda target: workloads.produce(
            target, value_bytes=value_bytes, codec=codec, megabytes=MEGABYTES, acks=acks, idempotent=idempotent
        )
    )


def all_workloads() -> list[Workload]:
    return [
        Workload("produce 1 KB", _produce(1000, "none"), MEGABYTES),
        Workload("produce 100 B", _produce(100, "none"), MEGABYTES),
        Workload("produce 1 KB lz4", _produce(1000, "lz4"), MEGABYTES),
        Workload("produce 100 B lz4", _produce(100, "lz4"), MEGABYTES),
        Workload("produce 1 KB idempotent", _produce(1000, "none", idempotent=True), MEGABYTES),
        Workload("one-record requests, one connection", _rate(workloads.one_record_requests)),
        Workload("one-record requests, 1000 connections", _rate(workloads.many_connections)),
        _consume("consume 1 KB", workloads.consume, 1000),
        _consume("consume 100 B", workloads.consume, 100),
        _consume("raw consume 1 KB", partial(workloads.consume_raw, passes=RAW_PASSES), 1000, RAW_PASSES),
        _consume("raw consume 100 B", partial(workloads.consume_raw, passes=RAW_PASSES), 100, RAW_PASSES),
        Workload("latency at 1000/s", _latency(per_second=1000), smaller_is_better=True),
        Workload("latency at 10000/s", _latency(per_second=10_000), smaller_is_better=True),
        Workload("200 producers, 200 consumers, 5 MB/s", _crowd, smaller_is_better=True),
        Workload("1000 idle consumers", _rate(workloads.idle_consumers)),
        Workload("1000 idle consumers with sessions", _rate(workloads.idle_sessions)),
        *tls_workloads(),
        *transaction_workloads(),
    ]


def tls_workloads() -> list[Workload]:
    def over_tls(
        name: str, run: Callable[[Target], Figures], megabytes: float = 0, *, is_time: bool = False
    ) -> Workload:
        return Workload(f"{name} over TLS", lambda t: run(t.over_tls()), megabytes, smaller_is_better=is_time)

    consume = _consume("consume 1 KB over TLS", lambda t: workloads.consume(t.over_tls()), 1000)
    return [
        over_tls("produce 1 KB", _produce(1000, "none"), MEGABYTES),
        over_tls("produce 100 B", _produce(100, "none"), MEGABYTES),
        consume,
        over_tls("latency at 1000/s", _latency(per_second=1000), is_time=True),
        over_tls("connections", _rate(workloads.handshakes)),
    ]


def transaction_workloads() -> list[Workload]:
    def of(records: int, count: int, *, partitions: int = 1) -> Workload:
        def run(target: Target) -> Figures:
            return transactions.commits(target, records=records, transactions=count, partitions=partitions)

        name = f"transactions of {records} record{'s' if records > 1 else ''}"
        return Workload(name, run, transactions=count + transactions.WARM_UP_TRANSACTIONS)

    return [
        Workload(
            "transactions, a commit every 100 ms", lambda t: transactions.commit_every(t, interval_ms=100, seconds=5)
        ),
        of(1_000, 200),
        of(10, 1_000),
        of(1, 1_000),
        Workload(
            "transactions of 10 records, raw", lambda t: transactions.raw_commits(t, transactions=1_000, records=10)
        ),
        Workload("consume committed 1 KB", _rate(lambda t: transactions.consume_committed(t, megabytes=MEGABYTES))),
    ]


def of_several_processes() -> frozenset[str]:
    """The loads that several brokers share."""
    return frozenset(
        {
            "produce 1 KB",
            "produce 100 B",
            "one-record requests, 1000 connections",
            "1000 idle consumers",
            "1000 idle consumers with sessions",
        }
    )


def cluster_workloads() -> list[Workload]:
    return [
        Workload("replicated produce 1 KB", _produce(1000, "none", acks="all"), MEGABYTES),
        Workload("replicated produce 100 B", _produce(100, "none", acks="all"), MEGABYTES),
        Workload("replicated latency at 1000/s", _latency(per_second=1000), smaller_is_better=True),
    ]


def start_seconds() -> tuple[float, float]:
    """(exec to first acknowledged produce on an existing topic, idle memory in MB), bytecode compiled."""
    with TemporaryDirectory(prefix="bench-") as folder:
        elapsed, idle = 0.0, 0.0
        for _ in range(2):  # the first start makes the topic
            port = lasting_port()
            started = time.perf_counter()
            process = start_ours(folder, port)
            wait_for_produce(process, port, "ready")
            elapsed = time.perf_counter() - started
            idle = usage(process.pid).rss_bytes / 1e6
            process.terminate()
            process.wait(30)
        return elapsed, idle


def _spread(values: list[float]) -> str:
    values = sorted(values)
    if len(values) < 2:
        return f"{values[0]:,.4g}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:,.4g} ({low:,.4g} to {high:,.4g})"


def report(load: Workload, other: str = "Apache Kafka") -> None:
    print(f"\n### {load.name}{' (smaller is better)' if load.smaller_is_better else ''}\n")
    print(f"| figure | ours | {other} | ours / {other.split()[-1]} |\n|---|---|---|---|")
    mine, theirs = load.results["ours"], load.results["kafka"]
    for name in mine[0]:
        left = [figures[name] for figures in mine]
        right = [figures[name] for figures in theirs]
        ratios = [a / b for a, b in zip(left, right, strict=True) if b]
        print(f"| {name} | {_spread(left)} | {_spread(right)} | {_spread(ratios) if ratios else '-'} |")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="alternating measurements of each load")
    parser.add_argument("--only", default="", help="names of loads, comma separated, or parts of them")
    parser.add_argument("--cluster", action="store_true", help="three brokers each, three replicas, acks=all")
    parser.add_argument("--processes", type=int, default=0, help="ours are so many brokers by one command")
    parser.add_argument("--against", choices=("kafka", "ours"), default="kafka", help="ours: one broker of ours")
    options = parser.parse_args()
    wanted = [part.strip() for part in options.only.split(",") if part.strip()]
    every = cluster_workloads() if options.cluster else all_workloads()
    loads = [load for load in every if not wanted or any(part in load.name for part in wanted)]
    if options.processes:
        loads = [load for load in loads if load.name in of_several_processes()]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    print(
        f"{time.strftime('%Y-%m-%d')} commit {commit.strip()} Python {platform.python_version()}, {options.pairs} pairs"
    )
    if not (options.cluster or options.processes) and (not wanted or "start" in wanted):
        starts = [start_seconds() for _ in range(options.pairs)]
        print(f"\nstart to first acknowledged produce, s: {_spread([start for start, _ in starts])}")
        print(f"idle memory, MB: {_spread([idle for _, idle in starts])}", flush=True)
    if not loads:
        return
    left, right = (three_brokers(OURS), three_brokers(KAFKA)) if options.cluster else (ours(), kafka())
    other = "Apache Kafka"
    if options.processes:
        left = several(options.processes)
    if options.against == "ours":
        right, other = ours(), "one process"
    with left as mine, right as theirs:
        partitions = replace(theirs.target, processes=mine.target.processes)  # as many
        theirs = replace(theirs, name="kafka", target=partitions)
        for load in loads:
            for broker in (mine, theirs):
                load.run_apart(load.prepared(broker.target))  # unmeasured: a JVM's code is compiled while it runs
            for pair in range(options.pairs):
                for broker in (mine, theirs) if pair % 2 == 0 else (theirs, mine):
                    load.measure(broker)
            report(load, other)


if __name__ == "__main__":
    main()
