"""Declares the dependencies that all partitions of a broker share.

Rules: replication declares what it needs, `broker.components` provides it. The defaults of `PartitionDependencies` are those of
a broker without other brokers.
Source: Kafka ReplicaManager's dependencies; KIP-73 (quota), KIP-392 (selector).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from replication.isr_requests import IsrChanges, NoIsrChanges
from replication.leader import LeadingBroker
from replication.replica_selector import ReplicaSelector
from replication.waiting.delayed_queues import WakeUps

LAG_MAX_MS = 30_000


class ReplicaQuota(Protocol):
    """Limits bytes sent to followers that are out of sync (`leader.replication.throttled.rate`)."""

    def is_throttled(self, topic: str, partition: int) -> bool: ...

    @property
    def is_exceeded(self) -> bool: ...

    def record(self, size_bytes: int) -> None:
        """Count bytes sent of a throttled partition."""


class ReplicationMetrics(Protocol):
    """Counts replication traffic, ISR changes and what coordinators append."""

    def produced(self, topic: str, size_bytes: int, records_count: int) -> None: ...

    def isr_expanded(self) -> None: ...

    def isr_shrunk(self) -> None: ...

    def isr_change_failed(self) -> None: ...

    def sent_to_replica(self, size_bytes: int, *, is_reassignment: bool) -> None: ...


class NoQuota:
    """Throttles nothing."""

    is_exceeded = False

    def is_throttled(self, topic: str, partition: int) -> bool:
        return False

    def record(self, size_bytes: int) -> None:
        """Do nothing, because no rate is limited."""


class NoMetrics:
    """Counts nothing."""

    def produced(self, topic: str, size_bytes: int, records_count: int) -> None: ...

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
    """What partitions need. `now_ms` is monotonic; `is_alive` consults the cluster image; `select_replica` is None when leaders
    serve all consumers."""

    now_ms: Callable[[], int] = _no_time
    is_alive: Callable[[int], bool] = _everybody
    isr_changes: IsrChanges = field(default_factory=NoIsrChanges)
    quota: ReplicaQuota = field(default_factory=NoQuota)
    metrics: ReplicationMetrics = field(default_factory=NoMetrics)
    select_replica: ReplicaSelector | None = None
    lag_max_ms: int = LAG_MAX_MS


ALONE = PartitionDependencies()
"""The dependencies of a broker without other brokers."""


class PartitionContext:
    """What all partitions of a broker share, in one object, which takes one slot in each of ten thousand partitions."""

    __slots__ = ("broker", "dependencies", "now_ms", "wake_ups")

    def __init__(self, broker_id: int, wake_ups: WakeUps, dependencies: PartitionDependencies = ALONE) -> None:
        self.broker = LeadingBroker(broker_id, dependencies.lag_max_ms, dependencies.is_alive)
        self.dependencies = dependencies
        self.now_ms = dependencies.now_ms
        self.wake_ups = wake_ups
