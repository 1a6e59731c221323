"""`python -m benchmarks.cold_read [--pairs 5] [--megabytes 1000] [--reader-idle] ...`: what reading old records costs others.

End-to-end latency at 1,000 records/s (produce call to consumer, acks=all) is measured while
nothing else happens and while one consumer reads an old topic whose pages are not in memory: they are dropped
from the page cache behind the reader. Both brokers in turn; the figure is the ratio of the two measurements.

The reader is a client that takes most of a core, and other people's consumers run elsewhere. With `--reader-idle` it has
only what the broker and the measuring clients leave, so that what remains of the ratio is the broker's: the kernel takes the
core from it as soon as one of them is ready, where a process that is merely nice (`--reader-nice 19`) ends its slice first.
`--reader-rate` is a consumer that has other things to do than to read; without it, one that reads as fast as it can.
`--reader-elsewhere` goes further: the requests are known from a first pass, and the kernel throws away what comes, uncopied, so
that the consumer takes hardly more of this machine than one on another would.

On two cores whatever moves so many bytes is felt by all others. So the same is measured beside `benchmarks.file_server`, which
sends the same files at the same rate to such a client, and with which the broker has nothing to do: what a cold read costs more
than that is the broker's. With `--another-broker` the same reader reads the same from a second broker instead: what others feel
then is the reader and whoever serves it taking cores, and not that one broker does both.

`--apart` gives the broker one core and all clients the other, as if they were machines.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from confluent_kafka import Consumer, TopicPartition

from benchmarks import workloads
from benchmarks.brokers import Running, kafka, ours
from benchmarks.cold_files import ColdFiles
from benchmarks.file_server import file_server
from benchmarks.process import pin
from benchmarks.wire import connect, steps_through, throw_away
from benchmarks.workloads import Target

SHARES = (0.5, 0.99)
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Reader:
    """How the old topic is read; 0 MB a second: as fast as can be."""

    nice: int
    is_idle: bool
    is_elsewhere: bool
    megabytes_a_second: float

    def take_place(self) -> None:
        """Of the calling process, among the machine's others; to the scheduler (autogroup) another program than the clients."""
        os.setsid()
        os.nice(self.nice)
        if self.is_idle:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    def wait(self, megabytes: float, seconds: float) -> None:
        if self.megabytes_a_second:
            time.sleep(max(megabytes / self.megabytes_a_second - seconds, 0))


def read_cold(target: Target, topic: str, paths: Sequence[Path], megabytes: Any, reader: Reader) -> None:
    """Read the topic from its start, again and again, until the process is ended; `megabytes` counts."""
    reader.take_place()
    files = ColdFiles(paths)
    if reader.is_elsewhere:
        throw_away_cold(target, topic, files, megabytes, reader)
    options = {"bootstrap.servers": target.bootstrap_servers, "group.id": "cold", "enable.auto.commit": False}
    if reader.megabytes_a_second:
        options["queued.max.messages.kbytes"] = 4096  # what is fetched ahead would be read at full speed
    consumer = Consumer(options)
    started = time.monotonic()
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)[1]
    while True:
        files.drop_all()
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen = 0
        while seen < end:
            messages = consumer.consume(1_000, 1.0)
            seen += len(messages)
            megabytes.value += len(messages) / 1000
            files.drop_up_to(files.size_bytes * seen // end)
            reader.wait(megabytes.value, time.monotonic() - started)


def throw_away_cold(target: Target, topic: str, files: ColdFiles, megabytes: Any, reader: Reader) -> NoReturn:
    """The same as if the consumer were on another machine."""
    steps = steps_through(target.address, topic, 0)
    end = sum(step.records for step in steps)
    buffer = bytearray(max(step.answer_bytes for step in steps))
    started = time.monotonic()
    with connect(target.address) as stream:
        while True:
            files.drop_all()
            seen = 0
            for step in steps:
                throw_away(stream, step, buffer)
                megabytes.value += step.records / 1000
                seen += step.records
                files.drop_up_to(files.size_bytes * seen // end)
                reader.wait(megabytes.value, time.monotonic() - started)


@contextmanager
def cold_reader(broker: Running, topic: str, how: Reader) -> Iterator[Any]:
    """Counts the megabytes that were read meanwhile."""
    megabytes = _fork.Value("d", 0.0)
    reader = _fork.Process(target=read_cold, args=(broker.target, topic, old_files(broker, topic), megabytes, how))
    reader.start()
    try:
        deadline = time.monotonic() + 30
        while not megabytes.value and time.monotonic() < deadline:
            time.sleep(0.05)
        yield megabytes
    finally:
        reader.terminate()
        reader.join()


def old_files(broker: Running, topic: str) -> list[Path]:
    assert broker.data is not None
    return sorted((broker.data / f"{topic}-0").glob("*.log"))


def latency(bootstrap_servers: str) -> list[float]:
    """Milliseconds at `SHARES`, in a process of its own."""
    target = Target(bootstrap_servers)
    receiver, sender = _fork.Pipe(duplex=False)

    def load() -> None:
        samples = workloads.latency(target, per_second=1000)
        sender.send([workloads.quantile(samples, share) for share in SHARES])
        target.delete_topics()

    child = _fork.Process(target=load)
    child.start()
    sender.close()
    figures: list[float] = receiver.recv()
    child.join()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the old topic")
    parser.add_argument("--reader-nice", type=int, default=0, help="niceness of the client that reads it")
    parser.add_argument("--reader-idle", action="store_true", help="it runs when nobody else wants the core")
    parser.add_argument(
        "--reader-elsewhere",
        action="store_true",
        help="as if on another machine: what comes is thrown away by the kernel",
    )
    parser.add_argument("--reader-rate", type=float, default=0, help="MB a second it reads; 0: as fast as it can")
    parser.add_argument("--only-ours", action="store_true", help="without Apache Kafka")
    parser.add_argument(
        "--another-broker", action="store_true", help="beside a read from a second broker, in place of a file server"
    )
    parser.add_argument("--apart", action="store_true", help="the broker on one core, all clients on another")
    options = parser.parse_args()
    reader = Reader(options.reader_nice, options.reader_idle, options.reader_elsewhere, options.reader_rate)
    found: dict[str, list[list[float]]] = {}
    with ExitStack() as running:
        kinds = (ours,) if options.only_ours else (ours, kafka)
        brokers = [running.enter_context(start()) for start in kinds]
        others = [running.enter_context(start()) for start in kinds if options.another_broker]
        everyone = [*brokers, *others]
        cores = os.sched_getaffinity(0)
        if options.apart:
            clients_core = cores.pop()
            for pid in (pid for each in everyone for pid in each.pids):
                pin(pid, cores)
            pin(os.getpid(), {clients_core})
        topics = {
            each.target.bootstrap_servers: workloads.fill(each.target, value_bytes=1000, megabytes=options.megabytes)
            for each in everyone
        }
        for each in brokers:
            latency(each.target.bootstrap_servers)  # unmeasured: a JVM's code is compiled while it runs
        for pair in range(options.pairs):
            for broker in brokers if pair % 2 == 0 else brokers[::-1]:
                quiet = latency(broker.target.bootstrap_servers)
                started = time.monotonic()
                with cold_reader(broker, topics[broker.target.bootstrap_servers], reader) as megabytes:
                    shared = latency(broker.target.bootstrap_servers)
                    rate = megabytes.value / (time.monotonic() - started)
                beside: AbstractContextManager[object]
                if others:
                    other = others[brokers.index(broker)]
                    beside = cold_reader(other, topics[other.target.bootstrap_servers], reader)
                else:
                    old, place = old_files(broker, topics[broker.target.bootstrap_servers]), reader.take_place
                    beside = file_server(old, rate, cores, place, is_thrown_away=reader.is_elsewhere)
                with beside:
                    control = latency(broker.target.bootstrap_servers)
                figures = [*quiet, *shared, *control, shared[1] / quiet[1], shared[1] / control[1], rate]
                found.setdefault(broker.name, []).append(figures)
    beside_what = "another broker" if options.another_broker else "a file server"
    print(
        f"| broker | p50, p99 ms quiet | beside a cold read | beside {beside_what} | p99 to quiet | to {beside_what}'s | MB/s |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, rows in found.items():
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        times = " | ".join(f"{medians[at]:.2f}, {medians[at + 1]:.2f}" for at in (0, 2, 4))
        print(f"| {name} | {times} | {medians[6]:.2f} | {medians[7]:.2f} | {medians[8]:.0f} |")


if __name__ == "__main__":
    main()
