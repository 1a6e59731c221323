"""What a plan is made from: brokers, replicas, sizes, and how fast partitions grow. Work for a shell.

Rules: the size of a partition is that of its largest replica, so that one that is still being copied counts as what it will be.
A rate is what the end of a partition grows in the time between two looks; an end that cannot be had counts as no growth. A
partition without a leader is not moved, nobody could copy it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from client.admin.brokers import cluster as describe_cluster
from runtime.command_line.failure import Failure
from runtime.texts import count_text
from tools.balance.layout import Key, PartitionLoad
from tools.group_lag import end_offsets
from tools.placement import described, partition_rows
from tools.reassignment.long_work import Wait, Work, carried
from tools.reassignment.reassignments import moving, places

if TYPE_CHECKING:
    from runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Survey:
    """`racks` has every broker that is there. `leaderless` partitions stay where they are. Those in `led_by_others` are led by
    another than their first replica, which is in sync."""

    racks: dict[int, str | None]
    loads: dict[Key, PartitionLoad]
    leaderless: tuple[Key, ...]
    led_by_others: tuple[Key, ...]

    @property
    def gone(self) -> dict[int, int]:
        """The numbers of replicas by broker that is not there."""
        counts = Counter(broker for load in self.loads.values() for broker in load.replicas)
        return {broker: count for broker, count in sorted(counts.items()) if broker not in self.racks}


def survey(
    topics: Sequence[str], sample_s: float, clock: Clock, tell: Callable[[str], None] = lambda _: None
) -> Work[Survey]:
    """Look at the cluster; only `topics` (names, or patterns such as `orders-*`) may be moved, all when there are none. The
    look takes `sample_s` seconds, with 0 rates are unknown; `tell` hears why. Raises Failure."""
    active = yield from carried(moving())
    if active:
        raise Failure(
            f"{count_text(len(active), 'partition', 'is', 'are')} being moved: wait until `barnabas partitions "
            "reassignments` shows none, or end that with `barnabas partitions cancel`"
        )
    racks = {broker.node_id: broker.rack for broker in (yield from carried(describe_cluster())).brokers}
    there = yield from carried(described())
    rows = {(row["topic"], row["partition"]): row for topic in there for row in partition_rows(topic)}
    names = {topic for topic, _ in rows}
    for pattern in topics:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise Failure(f"there is no topic {pattern} (`barnabas topics list` shows the topics)")
    sizes: dict[Key, int] = {}
    for (topic, index, _), place in (yield from carried(places(racks))).items():
        sizes[topic, index] = max(sizes.get((topic, index), 0), place.bytes)
    led = [key for key, row in rows.items() if row["leader"] is not None]
    rates = yield from _rates(led, sample_s, clock, tell)
    loads = {
        key: PartitionLoad(
            tuple(row["replicas"]),
            sizes.get(key, 0),
            rates.get(key, 0),
            row["leader"] is not None and (not topics or any(fnmatchcase(key[0], pattern) for pattern in topics)),
        )
        for key, row in rows.items()
    }
    return Survey(
        racks,
        loads,
        tuple(key for key, row in rows.items() if row["leader"] is None),
        tuple(
            key
            for key, row in rows.items()
            if row["leader"] not in (None, row["replicas"][0]) and row["replicas"][0] in row["isr"]
        ),
    )


def _rates(keys: list[Key], sample_s: float, clock: Clock, tell: Callable[[str], None]) -> Work[dict[Key, int]]:
    """Return records a second, times 1000."""
    if sample_s <= 0:
        return {}
    started_ms, first = clock.monotonic_ms(), (yield from carried(end_offsets(keys)))
    tell(f"measuring for {sample_s:g} s what is written; --sample-seconds says for how long")
    yield Wait(sample_s)
    second = yield from carried(end_offsets(keys))
    elapsed_ms = max(clock.monotonic_ms() - started_ms, 1)
    rates = {}
    for key in keys:
        before, after = first.get(key), second.get(key)
        if before is not None and after is not None:
            rates[key] = max(after - before, 0) * 1_000_000 // elapsed_ms
    return rates
