"""`python -m benchmarks.sizes`: bytes of memory that one idle object of each kind takes, and how long a start takes.

A broker may have ten thousand partitions that nobody uses, so what each of them costs counts. Every figure has a limit; the
exit code is 1 when one is above it. Sizes are those of CPython 3.11 on 64 bits. The time of a start is the best of twelve: only
what else runs on this machine makes a start slower.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from barnabas import EmbeddedBroker
from controller.controller_context import ControllerContext, PartitionPhase, ReplicaPhase
from metadata.store import znodes
from metadata.store.node_tree import NodeTree
from metadata.store.port import Create, Operation, SetData
from metadata.store.znodes import PartitionState, ReplicaAssignment
from replication.leader import LeaderState
from replication.partition import Partition
from tests.storage.directories.test_log_manager import TOPIC_ID, broker
from tests.storage.logs import append

PARTITIONS = 2_000
TOPICS = 10
LOGS = 300
STARTS = 12
COLLECTOR_BYTES = 16  # in front of every object that may refer to others

# Of a partition in the store: its place in the topic and a transaction's number; 650 with a path for each node.
STORE_BYTES = 130
# Of a partition of one replica in the controller: four places in lists; 500 with keys of its own for each.
CONTROLLER_BYTES = 50
# A `Partition` and its `LeaderState`, without the log.
LED_ALONE_BYTES = 256
FOLLOWED_BYTES = 128
LOG_BYTES = 1_500
START_MS = 1_000


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, in `unit`, and the most that it may be."""

    name: str
    value: float
    limit: float
    unit: str = "bytes"


def main() -> int:
    is_within = True
    for figure in measure():
        is_within &= figure.value <= figure.limit
        print(f"{figure.name:<50} {figure.value:8.0f} {figure.unit} of {figure.limit:.0f}", flush=True)
    return 0 if is_within else 1


def measure() -> Iterator[Figure]:
    yield from _in_the_store()
    with _tracing() as traced_bytes:
        context = _in_the_controller()
        yield Figure("partition in the controller", traced_bytes() / PARTITIONS, CONTROLLER_BYTES)
    del context
    yield Figure("partition led alone, without its log", _bytes_of(Partition, LeaderState), LED_ALONE_BYTES)
    yield Figure("partition that follows, without its log", _bytes_of(Partition), FOLLOWED_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        yield Figure("log with a record, idle", asyncio.run(_idle_log_bytes(Path(folder))), LOG_BYTES)
    yield Figure("start of an embedded broker", _best_start_ms(), START_MS, "ms")


def _bytes_of(*types: type) -> int:
    return sum(each.__basicsize__ + COLLECTOR_BYTES for each in types)


@contextmanager
def _tracing() -> Iterator[Callable[[], int]]:
    """Yields what tells the bytes allocated since the beginning and still in use."""

    def traced_bytes() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    gc.collect()
    tracemalloc.start()
    try:
        yield traced_bytes
    finally:
        tracemalloc.stop()


def _in_the_store() -> Iterator[Figure]:
    tree = NodeTree()

    def transact(*operations: Operation) -> None:
        tree.apply(tree.stage(operations, session_id=1, now_ms=tree.zxid // 20))

    def create(topic: str) -> None:
        transact(Create(znodes.topic_path(topic)))
        transact(Create(znodes.partitions_path(topic)))
        state = PartitionState(1, 0, (1,), 1).encode()
        for partition in range(PARTITIONS):
            path = znodes.partition_path(topic, partition)
            transact(Create(path), Create(f"{path}/state", state))

    def elect() -> None:
        """Another leader: the number of that transaction comes to the node."""
        for partition in range(PARTITIONS):
            transact(SetData(znodes.state_path("t", partition), PartitionState(2, 1, (2,), 1).encode()))

    transact(Create("/brokers"))
    transact(Create("/brokers/topics"))
    create("another")  # topics share the numbers of their partitions
    with _tracing() as traced_bytes:
        create("t")
        created_bytes = traced_bytes()
        elect()
        elected_bytes = traced_bytes() - created_bytes
    yield Figure("partition in the store", created_bytes / PARTITIONS, STORE_BYTES)
    yield Figure("its next leader in the store", elected_bytes / PARTITIONS, STORE_BYTES / 2)


def _in_the_controller() -> ControllerContext:
    context, state, assignment = ControllerContext(), PartitionState(1, 0, (1,), 1), ReplicaAssignment((1,))
    for topic in range(TOPICS):
        for partition in range(PARTITIONS // TOPICS):
            key = (f"t{topic}", partition)
            context.assignments[key] = assignment
            context.leadership[key] = state
            context.partition_phases[key] = PartitionPhase.ONLINE
            context.replica_phases[*key, 1] = ReplicaPhase.ONLINE
    return context


async def _idle_log_bytes(folder: Path) -> float:
    overrides = {"retention.ms": "360000000"}
    async with broker(folder, overrides=overrides) as one:
        for partition in range(LOGS):
            await append(await one.logs.log_for("many", partition, TOPIC_ID), "a")
    with _tracing() as traced_bytes:
        async with broker(folder, overrides=overrides):
            return traced_bytes() / LOGS


def _best_start_ms() -> float:
    took_ms: list[float] = []
    while len(took_ms) < STARTS and min(took_ms, default=START_MS) >= START_MS:
        began = time.monotonic()
        with EmbeddedBroker(["a"]):
            took_ms.append((time.monotonic() - began) * 1000)
    return min(took_ms)


if __name__ == "__main__":
    sys.exit(main())
