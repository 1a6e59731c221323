"""The state of a partition that the controller announced last: leader, epochs, replicas, in-sync replicas. Pure.

Rules: no IO. A `PartitionAssignment` is immutable; `note` replaces it with the one of a LeaderAndIsr, and the partition
decides whether that is a change. Thousands of partitions have equal assignments and share one object, because it would be
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


class Assigned:
    """A partition and its assignment; `replication.partition.Partition` is one that has a log."""

    __slots__ = ("assignment", "partition", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.assignment = UNASSIGNED

    def note(self, state: LeaderAndIsrPartitionState) -> None:
        self.assignment = _shared(
            PartitionAssignment(
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

    def note_isr(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.assignment = _shared(replace(self.assignment, isr=isr, partition_epoch=partition_epoch))

    def note_no_leader(self) -> None:
        self.assignment = _shared(replace(self.assignment, leader_id=NO_LEADER))

    @property
    def leader_id(self) -> int:
        return self.assignment.leader_id

    @property
    def leader_epoch(self) -> int:
        return self.assignment.leader_epoch

    @property
    def partition_epoch(self) -> int:
        return self.assignment.partition_epoch

    @property
    def controller_epoch(self) -> int:
        return self.assignment.controller_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        return self.assignment.isr

    @property
    def replicas(self) -> tuple[int, ...]:
        return self.assignment.replicas

    @property
    def adding_replicas(self) -> tuple[int, ...]:
        return self.assignment.adding_replicas

    @property
    def is_reassigning(self) -> bool:
        return bool(self.assignment.adding_replicas or self.assignment.removing_replicas)

    @property
    def replication_factor(self) -> int:
        """The number of replicas, without those that a reassignment is adding."""
        replicas, adding = self.assignment.replicas, self.assignment.adding_replicas
        return len(replicas) - sum(replica in adding for replica in replicas) if adding else len(replicas)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Compare a client's `current_leader_epoch` (-1: the client sent none) with the leader epoch of this partition.

        Raises: KafkaError with FENCED_LEADER_EPOCH (older) or UNKNOWN_LEADER_EPOCH (newer).
        """
        leader_epoch = self.assignment.leader_epoch
        if current_leader_epoch in (NO_EPOCH, leader_epoch):
            return
        if current_leader_epoch < leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"Leader epoch {current_leader_epoch} of {self.topic}-{self.partition} is over: now {leader_epoch}.",
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"Leader epoch {current_leader_epoch} of {self.topic}-{self.partition} is not known here yet: "
            f"now {leader_epoch}.",
        )
