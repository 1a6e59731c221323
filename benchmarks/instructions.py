"""User instructions of one request, counted by valgrind: `python -m benchmarks.instructions [TREE ...]`.

The broker runs under `valgrind --tool=cachegrind`, which counts instructions and does not measure time, so that other load on
the machine changes nothing. Each load is run with a few and with many requests, one at a time over one connection, or, of idle
consumers, of a hundred connections side by side; the difference divided by the difference in requests is what one costs. Every
TREE is a checkout whose broker is measured (default: this one), so that two commits stand side by side.

Needs `valgrind`; takes a few minutes a tree.
"""

from __future__ import annotations

import argparse
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from barnabas.listening import free_port, wait_until_listening
from benchmarks.transactions import raw_commits
from benchmarks.wire import connect, fetch_frame, join_alone, polls, produce_frame, sends
from benchmarks.workloads import Target
from protocol.header import encode_request
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.transaction_version import EPOCH_BUMPS, ONE_EPOCH

FEW, MANY = 200, 1_200
IDLE_CONSUMERS = 100
IDLE_WAIT_MS = 500
START_TIMEOUT_S = 300.0
MiB = 1 << 20


def ask(stream: socket.socket, frame: bytes) -> int:
    """Send one request and return the size of its whole response."""
    stream.sendall(frame)
    return receive(stream)


def receive(stream: socket.socket) -> int:
    size = int.from_bytes(stream.recv(4, socket.MSG_WAITALL), "big")
    rest = size
    while rest:
        rest -= len(stream.recv(min(rest, MiB)))
    return size


def produce_one_record(address: tuple[str, int], count: int) -> None:
    """One record of 100 bytes, acks=1."""
    frame = produce_frame("t", 0, 100)
    with connect(address) as stream:
        for _ in range(count):
            ask(stream, frame)


def fetch_a_megabyte(address: tuple[str, int], count: int) -> None:
    """A sessionless fetch of 1 MB of records of 1 KB."""
    with connect(address) as stream:
        for _ in range(1_200):
            ask(stream, produce_frame("t", 1, 1_000))
        frame = fetch_frame("t", 1, offset=0, max_wait_ms=500)
        for _ in range(count):
            assert ask(stream, frame) > MiB


def park_a_fetch(address: tuple[str, int], count: int) -> None:
    """A fetch that waits, and a record that ends its wait; the produce is counted too."""
    frame = produce_frame("t", 2, 100)
    with connect(address) as consumer, connect(address) as producer:
        for offset in range(count):
            consumer.sendall(fetch_frame("t", 2, offset=offset, max_wait_ms=60_000))
            ask(producer, frame)
            receive(consumer)


def wait_in_vain(address: tuple[str, int], count: int, *, has_session: bool) -> None:
    """Fetches of many consumers that wait side by side, and end without records; the next follows at once."""
    streams = [connect(address) for _ in range(IDLE_CONSUMERS)]
    if has_session:
        client = polls(address, "t", 0, IDLE_WAIT_MS)
    else:
        client = sends(address, fetch_frame("t", 0, offset=0, max_wait_ms=IDLE_WAIT_MS))
    poll = select.epoll()
    waiting = {stream.fileno(): (stream, client.begin(stream)) for stream in streams}
    for stream, next_frame in waiting.values():
        poll.register(stream.fileno(), select.EPOLLIN)
        stream.sendall(next_frame())
    left = count
    while left:
        for number, _ in poll.poll():
            stream, next_frame = waiting[number]
            receive(stream)
            stream.sendall(next_frame())
            left -= 1
            if not left:
                break
    for stream in streams:
        stream.close()


def beat(address: tuple[str, int], count: int) -> None:
    """Heartbeats of the only member of a group."""
    with connect(address) as stream:
        frame = join_alone(stream, "bench")
        for _ in range(count):
            ask(stream, frame)


def commit(address: tuple[str, int], count: int, *, version: int) -> None:
    """Transactions of one record."""
    host, port = address
    raw_commits(Target(f"{host}:{port}"), transactions=count, records=1, version=version)


LOADS: dict[str, Callable[[tuple[str, int], int], None]] = {
    "one-record produce": produce_one_record,
    "1 MB fetch": fetch_a_megabyte,
    "parked fetch": park_a_fetch,
    "idle consumer: one empty fetch": partial(wait_in_vain, has_session=False),
    "idle consumer: one empty fetch of a session": partial(wait_in_vain, has_session=True),
    "heartbeat": beat,
    "transaction of the first version": partial(commit, version=ONE_EPOCH),
    "transaction of the second version": partial(commit, version=EPOCH_BUMPS),
}


@contextmanager
def broker(tree: Path, counted: list[int]) -> Iterator[tuple[str, int]]:
    """A broker of `tree` under valgrind; `counted` gets its instructions when it has stopped."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={folder}/counts"]
        settings = {"broker.id": "0", "log.dirs": f"{folder}/data", "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                    "group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}  # fmt: skip
        command += [sys.executable, "-m", "barnabas", "start"]
        command += [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]
        process = subprocess.Popen(command, cwd=tree, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            if not wait_until_listening(process, port, START_TIMEOUT_S):
                raise RuntimeError(f"the broker does not listen on port {port}")
            make_topic(("127.0.0.1", port))
            yield "127.0.0.1", port
        finally:
            process.terminate()
            _, printed = process.communicate(timeout=START_TIMEOUT_S)
        found = re.search(r"I\s+refs:\s+([\d,]+)", printed)
        assert found is not None, printed
        counted.append(int(found[1].replace(",", "")))


def make_topic(address: tuple[str, int]) -> None:
    topic = CreatableTopic(name="t", num_partitions=3, replication_factor=1, assignments=[], configs=[])
    frame = b"".join(encode_request(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5, 1, "bench"))
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with connect(address) as stream:
                ask(stream, frame)
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def instructions(tree: Path, load: Callable[[tuple[str, int], int], None]) -> float:
    """Instructions of one request."""
    counted: list[int] = []
    for count in (FEW, MANY):
        with broker(tree, counted) as address:
            load(address, count)
    few, many = counted
    return (many - few) / (MANY - FEW)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, default=[Path.cwd()], metavar="TREE")
    parser.add_argument("--only", choices=LOADS)
    options = parser.parse_args()
    for name, load in LOADS.items():
        if options.only in (None, name):
            for tree in options.trees:
                print(f"{name}\t{tree}\t{instructions(tree, load):,.0f} instructions", flush=True)


if __name__ == "__main__":
    main()
