"""`python -m benchmarks.cold_read [--pairs 5] [--megabytes 1000] [--reader-nice 0]`: what reading old records costs others.

End-to-end latency at 1,000 records/s (produce call to consumer, acks=all) is measured while
nothing else happens and while one consumer reads an old topic whose pages are not in memory: they are written back and
dropped from the page cache before each pass. Both brokers in turn; the figure is the ratio of the two measurements.

The reader is a client that takes most of a core, and other people's consumers run elsewhere. With `--reader-nice 19` it has
only what the broker and the measuring clients leave, so that what remains of the ratio is the broker's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks import workloads
from benchmarks.brokers import Running, kafka, ours
from benchmarks.workloads import Target

SHARES = (0.5, 0.99)
_fork = multiprocessing.get_context("fork")


def drop_pages(folder: Path) -> None:
    """Have the kernel read a partition's files from the disk next time."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def read_cold(target: Target, topic: str, folder: Path, megabytes: Any, nice: int) -> None:
    """Read the topic from its start, again and again, until the process is ended; `megabytes` counts."""
    os.nice(nice)
    consumer = Consumer(
        {"bootstrap.servers": target.bootstrap_servers, "group.id": "cold", "enable.auto.commit": False}
    )
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)[1]
    while True:
        drop_pages(folder)
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen = 0
        while seen < end:
            messages = consumer.consume(10_000, 1.0)
            seen += len(messages)
            megabytes.value += len(messages) / 1000


@contextmanager
def cold_reader(broker: Running, topic: str, nice: int) -> Iterator[Any]:
    """Counts the megabytes that were read meanwhile."""
    assert broker.data is not None
    megabytes = _fork.Value("d", 0.0)
    folder = broker.data / f"{topic}-0"
    reader = _fork.Process(target=read_cold, args=(broker.target, topic, folder, megabytes, nice))
    reader.start()
    try:
        deadline = time.monotonic() + 30
        while not megabytes.value and time.monotonic() < deadline:
            time.sleep(0.05)
        yield megabytes
    finally:
        reader.terminate()
        reader.join()


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
    options = parser.parse_args()
    found: dict[str, list[list[float]]] = {}
    with ours() as mine, kafka() as theirs:
        brokers = (mine, theirs)
        topics = {
            each.name: workloads.fill(each.target, value_bytes=1000, megabytes=options.megabytes) for each in brokers
        }
        for each in brokers:
            latency(each.target.bootstrap_servers)  # unmeasured: a JVM's code is compiled while it runs
        for pair in range(options.pairs):
            for broker in brokers if pair % 2 == 0 else brokers[::-1]:
                quiet = latency(broker.target.bootstrap_servers)
                started = time.monotonic()
                with cold_reader(broker, topics[broker.name], options.reader_nice) as megabytes:
                    shared = latency(broker.target.bootstrap_servers)
                    rate = megabytes.value / (time.monotonic() - started)
                found.setdefault(broker.name, []).append([*quiet, *shared, shared[1] / quiet[1], rate])
    print(
        "| broker | p50, p99 ms quiet | p50, p99 ms beside a cold read | p99 ratio | MB/s read |\n|---|---|---|---|---|"
    )
    for name, rows in found.items():
        p50, p99, p50_shared, p99_shared, ratio, rate = (
            statistics.median(column) for column in zip(*rows, strict=True)
        )
        print(f"| {name} | {p50:.2f}, {p99:.2f} | {p50_shared:.2f}, {p99_shared:.2f} | {ratio:.2f} | {rate:.0f} |")


if __name__ == "__main__":
    main()
