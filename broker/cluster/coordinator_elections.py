"""Notifies the coordinator of an internal topic when this broker becomes, or is no longer, the leader of one of its partitions.

Source: Kafka RequestHandlerHelper.onLeadershipChange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from replication.partition import Partition


class ElectedCoordinator(Protocol):
    """The notifications of a coordinator. `coordinator.runtime.coordinator_runtime.CoordinatorRuntime` implements it."""

    @property
    def topic(self) -> str: ...

    def on_leadership(self, partition: int, leader_epoch: int) -> None: ...

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None: ...


class CoordinatorElections:
    """Implements `replication.partitions.LeadershipListener`.

    Coordinators are added when they are made, before the first election: they and the partitions refer to each other.
    """

    def __init__(self) -> None:
        self._coordinators: dict[str, ElectedCoordinator] = {}

    def add(self, coordinator: ElectedCoordinator) -> None:
        """Add the coordinator of a topic, the only one of it."""
        assert coordinator.topic not in self._coordinators
        self._coordinators[coordinator.topic] = coordinator

    def on_leader(self, partition: Partition) -> None:
        coordinator = self._coordinators.get(partition.topic)
        if coordinator is not None:
            coordinator.on_leadership(partition.partition, partition.assignment.leader_epoch)

    def on_not_leader(self, topic: str, partition: int, leader_epoch: int) -> None:
        coordinator = self._coordinators.get(topic)
        if coordinator is not None:
            coordinator.on_resignation(partition, leader_epoch)
