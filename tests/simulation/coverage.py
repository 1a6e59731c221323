"""What the histories have been through, counted; a simulation that meets nothing proves nothing.

Clients and the harness count what they see from outside. `watching` adds what only the broker knows, by standing in
front of some of its methods. `MINIMUMS` are for a hundred seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from coordinator.runtime.shard_context import ShardContext
from replication.fetch_sessions import FetchSessions
from storage.log.partition_log import PartitionLog
from storage.log.producers.producer_state import ProducerStates
from storage.log.reading.log_reading import LogReading
from storage.log.writing.log_writer import LogWriter
from tests.simulation.world import World

MINIMUMS = {
    "requests": 100 * 200,
    "faults": 100 * 5,
    "virtual seconds": 100 * 30,
    "ended: process crash": 80,
    "ended: power crash": 80,
    "ended: stopped": 100,
    "ended: could not go on": 10,
    "crashes in a call": 30,
    "crashes while starting": 10,
    "recoveries": 150,
    "log: damaged end of a log truncated": 100,
    "log: segment behind a damaged one removed": 5,
    "log: log directory offline": 5,
    "duplicates answered": 20,
    "retries acknowledged": 50,
    "producers that lost their place": 20,
    "producer states taken from a snapshot": 100,
    "segments rolled": 1_000,
    "cold reads": 500,
    "ranges of files sent": 5_000,
    "writes that were queued": 5_000,
    "long polls woken": 1_000,
    "incremental fetches": 5_000,
    "sessions evicted": 20,
    "positions out of range": 20,
    "records deleted": 300,
    "topics deleted": 300,
    "group partitions loaded": 300,
    "commits acknowledged": 1_000,
    "commits fetched": 1_000,
    "commits of members": 500,
    "syncs": 200,
    "leaves": 5,
}

# (what is counted, whose method, its name)
_POINTS: tuple[tuple[str, type, str], ...] = (
    ("duplicates answered", PartitionLog, "_complete_duplicate"),
    ("cold reads", LogReading, "read_cold"),
    ("segments rolled", LogWriter, "roll"),
    ("writes that were queued", LogWriter, "_on_written"),
    ("group partitions loaded", ShardContext, "load"),
    ("sessions evicted", FetchSessions, "_evict"),
)


@contextmanager
def watching(world: World) -> Iterator[None]:
    with ExitStack() as stack:
        for what, owner, name in _POINTS:
            stack.enter_context(_counted(world.coverage, what, owner, name))
        stack.enter_context(_counted_snapshots(world.coverage))
        yield


@contextmanager
def _counted(counter: Counter[str], what: str, owner: type, name: str) -> Iterator[None]:
    original: Callable[..., Any] = getattr(owner, name)

    def counting(*args: Any, **options: Any) -> Any:
        counter[what] += 1
        return original(*args, **options)

    setattr(owner, name, counting)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def _counted_snapshots(counter: Counter[str]) -> Iterator[None]:
    original = ProducerStates.from_snapshot

    def counting(content: bytes, **options: Any) -> ProducerStates:
        counter["producer states taken from a snapshot"] += 1
        return original(content, **options)

    ProducerStates.from_snapshot = counting  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        ProducerStates.from_snapshot = original  # type: ignore[method-assign]


def shortfalls(coverage: Counter[str], seeds: int, minimums: Mapping[str, int] = MINIMUMS) -> list[str]:
    """What the histories of `seeds` seeds should have met more often."""
    return [
        f"{name}: {coverage[name]}, at least {minimum * seeds // 100} expected"
        for name, minimum in sorted(minimums.items())
        if coverage[name] < minimum * seeds // 100
    ]
