"""The state of a partition that the controller announced last: leader, epochs, replicas, in-sync replicas. Pure.

Rules: no IO. A `PartitionAssignment` is immutable; the partition replaces it with the one of a LeaderAndIsr, and decides
whether that is a change. Thousands of partitions have equal assignments and share one object, because it would be
most of the memory of an idle partition.
Source: Kafka LeaderAndIsrPartitionState, Partition.checkCurrentLeaderEpoch; KIP-320 (fencing), KIP-455 (reassignment).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState

NO_LEADER = -1
NO_EPOCH = -1

# The number of distinct assignments that are shared, the most recently used ones. Others only cost memory.
_SHARED_MAX = 1024


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """What one LeaderAndIsr says of one partition. -1: the controller has said nothing yet."""

    leader_id: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    partition_epoch: int = NO_EPOCH
    controller_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @classmethod
    def of(cls, state: LeaderAndIsrPartitionState) -> PartitionAssignment:
        """Return the assignment that a LeaderAndIsr announces."""
        return _shared(
            cls(
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                controller_epoch=state.controller_epoch,
                isr=ids(state.isr),
                replicas=ids(state.replicas),
                adding_replicas=ids(state.adding_replicas),
                removing_replicas=ids(state.removing_replicas),
            )
        )

    def with_isr(self, isr: tuple[int, ...], partition_epoch: int) -> PartitionAssignment:
        """Return this assignment with the in-sync replicas that the controller has granted."""
        return _shared(replace(self, isr=isr, partition_epoch=partition_epoch))

    def without_leader(self) -> PartitionAssignment:
        """Return this assignment without a leader, as when the partition has left this broker."""
        return _shared(replace(self, leader_id=NO_LEADER))

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def replication_factor(self) -> int:
        """The number of replicas, without those that a reassignment is adding."""
        replicas, adding = self.replicas, self.adding_replicas
        return len(replicas) - sum(replica in adding for replica in replicas) if adding else len(replicas)

    def check_epoch(self, current_leader_epoch: int, topic: str, partition: int) -> None:
        """Compare a client's `current_leader_epoch` (-1: the client sent none) with the leader epoch of this partition.

        Raises: KafkaError with FENCED_LEADER_EPOCH (older) or UNKNOWN_LEADER_EPOCH (newer).
        """
        leader_epoch = self.leader_epoch
        if current_leader_epoch in (NO_EPOCH, leader_epoch):
            return
        if current_leader_epoch < leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"Leader epoch {current_leader_epoch} of {topic}-{partition} is over: now {leader_epoch}.",
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"Leader epoch {current_leader_epoch} of {topic}-{partition} is not known here yet: now {leader_epoch}.",
        )


@lru_cache(_SHARED_MAX)
def _shared(assignment: PartitionAssignment) -> PartitionAssignment:
    return assignment


@lru_cache(_SHARED_MAX)
def _shared_ids(broker_ids: tuple[int, ...]) -> tuple[int, ...]:
    return broker_ids


def ids(broker_ids: Iterable[int]) -> tuple[int, ...]:
    """Return `broker_ids` as a tuple that all callers with equal ids share."""
    return _shared_ids(tuple(broker_ids))


UNASSIGNED = PartitionAssignment()
