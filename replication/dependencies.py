"""What the partitions of a broker are given from outside, once for all of them.

Rules: replication declares what it needs, `broker.components` joins it to what there is. The values of
`PartitionDependencies` that
are not given belong to a broker without others beside it.
Source: Kafka ReplicaManager's dependencies; KIP-73 (quota), KIP-392 (selector).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from replication.isr_requests import IsrChanges, NoIsrChanges
from replication.leader import LeadingBroker
from replication.replica_selector import ReplicaSelector
from replication.waiters import WakeUps

LAG_MAX_MS = 30_000


class ReplicaQuota(Protocol):
    """How much may go to followers that are out of sync (`leader.replication.throttled.rate`)."""

    def is_throttled(self, topic: str, partition: int) -> bool: ...

    @property
    def is_exceeded(self) -> bool: ...

    def record(self, size_bytes: int) -> None:
        """Bytes of a throttled partition have gone out."""


class ReplicationMetrics(Protocol):
    """Who counts."""

    def isr_expanded(self) -> None: ...

    def isr_shrunk(self) -> None: ...

    def isr_change_failed(self) -> None: ...

    def sent_to_replica(self, size_bytes: int, *, is_reassignment: bool) -> None: ...


class NoQuota:
    """Nothing is throttled."""

    is_exceeded = False

    def is_throttled(self, topic: str, partition: int) -> bool:
        return False

    def record(self, size_bytes: int) -> None:
        """Nobody asks."""


class NoMetrics:
    """Nobody counts."""

    def isr_expanded(self) -> None: ...

    def isr_shrunk(self) -> None: ...

    def isr_change_failed(self) -> None: ...

    def sent_to_replica(self, size_bytes: int, *, is_reassignment: bool) -> None: ...


def _no_time() -> int:
    return 0


def _everybody(_broker_id: int) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class PartitionDependencies:
    """`now_ms` is monotonic; `is_alive` asks the cluster image; `select_replica` is None where leaders serve everybody."""

    now_ms: Callable[[], int] = _no_time
    is_alive: Callable[[int], bool] = _everybody
    isr_changes: IsrChanges = field(default_factory=NoIsrChanges)
    quota: ReplicaQuota = field(default_factory=NoQuota)
    metrics: ReplicationMetrics = field(default_factory=NoMetrics)
    select_replica: ReplicaSelector | None = None
    lag_max_ms: int = LAG_MAX_MS


ALONE = PartitionDependencies()
"""A broker without others: no follower's lag to measure, nobody to ask."""


class PartitionContext:
    """What all partitions of a broker share, in one object: a place for it in each of them would be ten thousand places."""

    __slots__ = ("broker", "doors", "now_ms", "wake_ups")

    def __init__(self, broker_id: int, wake_ups: WakeUps, doors: PartitionDependencies = ALONE) -> None:
        self.broker = LeadingBroker(broker_id, doors.lag_max_ms, doors.is_alive)
        self.doors = doors
        self.now_ms = doors.now_ms
        self.wake_ups = wake_ups
