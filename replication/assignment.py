"""What the controller has said of a partition, last: who leads in which epoch, who holds it, who is in sync. Pure.

Rules: no IO. `note` takes a LeaderAndIsr as it is; whether it is news at all is the partition's to know.
Source: Kafka LeaderAndIsrPartitionState, Partition.checkCurrentLeaderEpoch; KIP-320 (fencing), KIP-455 (reassignment).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState

NO_LEADER = -1
NO_EPOCH = -1


class Assignment:
    """The partition of `replication.partition` is one, with a log."""

    __slots__ = (
        "adding_replicas",
        "controller_epoch",
        "isr",
        "leader_epoch",
        "leader_id",
        "partition",
        "partition_epoch",
        "removing_replicas",
        "replicas",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.controller_epoch = NO_EPOCH
        # Tuples: an empty one takes no memory, and every partition has two of those.
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()

    def note(self, state: LeaderAndIsrPartitionState) -> None:
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.controller_epoch = state.controller_epoch
        self.replicas = tuple(state.replicas)
        self.isr = self.replicas if state.isr == state.replicas else tuple(state.isr)
        self.adding_replicas = tuple(state.adding_replicas)
        self.removing_replicas = tuple(state.removing_replicas)

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def replication_factor(self) -> int:
        """Replicas that do not count yet (they are being added) left out."""
        return len(self.replicas) - sum(replica in self.adding_replicas for replica in self.replicas)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raises FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.

        `current_leader_epoch` is the one that the client believes in; -1 when it does not say.
        """
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"Leader epoch {current_leader_epoch} of {self.topic}-{self.partition} is over: now {self.leader_epoch}.",
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"Leader epoch {current_leader_epoch} of {self.topic}-{self.partition} is not known here yet: "
            f"now {self.leader_epoch}.",
        )
