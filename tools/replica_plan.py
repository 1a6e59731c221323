"""Where the replicas of some partitions shall be when only some brokers may have them, or when their number changes. Pure.

Rules: what is on another broker leaves it, a replica that may stay stays; then all are evened out as `tools.balance` does it:
racks, numbers of replicas, leaders.
Invariant: no broker has two replicas of a partition.
Source: Kafka AdminUtils.assignReplicasToBrokersRackAware.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from runtime.texts import count_text
from tools.balance.layout import Key, Layout, PartitionLoad
from tools.balance.planner import balance


class PlanError(ValueError):
    """No plan does what was asked."""


Assignment = dict[Key, list[int]]


def spread(
    current: Mapping[Key, Sequence[int]], racks: Mapping[int, str | None], replication_factor: int | None = None
) -> Assignment:
    """Return the replicas of each partition on the brokers of `racks` (broker to rack). Raises PlanError."""
    used: Counter[int] = Counter(broker for replicas in current.values() for broker in replicas)
    sized = {
        key: _sized(key, replicas, len(replicas) if replication_factor is None else replication_factor, racks, used)
        for key, replicas in sorted(current.items())
    }
    layout = Layout({key: PartitionLoad(tuple(replicas)) for key, replicas in sized.items()}, racks)
    balance(layout)
    return layout.replicas


def _sized(
    key: Key, replicas: Sequence[int], count: int, racks: Mapping[int, str | None], used: Counter[int]
) -> list[int]:
    """Return `count` replicas: those that may stay, then brokers in other racks that have few. Raises PlanError."""
    if count > len(racks):
        raise PlanError(
            f"{count_text(count, 'replica')} of {key[0]}-{key[1]} need as many brokers, and there are {len(racks)}"
        )
    found = [broker for broker in replicas if broker in racks][:count]
    while len(found) < count:
        taken = Counter(racks[broker] for broker in found)
        best = min(
            (broker for broker in racks if broker not in found),
            key=lambda broker: (taken[racks[broker]], used[broker], broker),
        )
        used[best] += 1
        found.append(best)
    return found
