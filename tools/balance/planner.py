"""A plan that comes nearer to all goals, and the moves that it needs. Pure.

Rules: the goals are taken in their order, and none harms an earlier one; then all once more, until nothing changes, so that the
plan of what a plan has made is empty. The same cluster gives the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.balance.amounts import even_out_bytes, even_out_rate
from tools.balance.goals import THRESHOLD_PERCENT
from tools.balance.layout import Key, Layout, PartitionLoad
from tools.balance.leaders import even_out_leaders
from tools.balance.replicas import drain, even_out_replicas, spread_over_racks


@dataclass(frozen=True, slots=True)
class Move:
    """Of one partition, from some replicas to others, or to another order of them. `copied_bytes` is what new replicas copy."""

    key: Key
    before: tuple[int, ...]
    after: tuple[int, ...]
    copied_bytes: int

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.after if broker not in self.before)


def balance(layout: Layout, percent: int = THRESHOLD_PERCENT) -> list[Move]:
    """Change a layout until it is even, and return what is to be moved for it."""
    drain(layout)
    while True:
        before = {key: list(replicas) for key, replicas in layout.replicas.items()}
        spread_over_racks(layout)
        even_out_replicas(layout)
        even_out_leaders(layout)
        even_out_bytes(layout, percent)
        even_out_rate(layout, percent)
        if layout.replicas == before:
            return moves(layout.loads, layout.replicas)


def moves(loads: Mapping[Key, PartitionLoad], replicas: Mapping[Key, list[int]]) -> list[Move]:
    """Return the partitions whose replicas or whose order of them has changed."""
    found = []
    for key, load in sorted(loads.items()):
        after = tuple(replicas[key])
        if after != load.replicas:
            copied = load.bytes * len(set(after) - set(load.replicas))
            found.append(Move(key, load.replicas, after, copied))
    return found
