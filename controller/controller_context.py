"""The state of an active controller: brokers, topics, leaders, and the phases of partitions and replicas. Pure.

Life: built when the controller is elected, dropped when it resigns; only the controller's events change it.
Invariants: every partition of `assignments` is of one of `topics` (ids by name) and has a phase; every entry of
`replica_phases` belongs to an assigned replica; `leadership` mirrors the state nodes as last read or written, with their
versions; no partition of `reassigning` is of a topic that is being deleted.
Source: Kafka ControllerContext.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from config.inter_broker_version import LATEST, InterBrokerVersion
from controller.partition_map import PartitionMap, ReplicaMap
from metadata.store.znodes import BrokerRegistration, PartitionState, ReplicaAssignment
from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition

Replica = tuple[str, int, int]  # topic, partition, broker


NO_REPLICAS = ReplicaAssignment(())


class PartitionPhase(Enum):
    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class ReplicaPhase(Enum):
    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion-started"
    DELETION_SUCCESSFUL = "deletion-successful"
    DELETION_INELIGIBLE = "deletion-ineligible"


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker. `epoch` is the czxid of its node: a higher one means that it restarted."""

    registration: BrokerRegistration
    epoch: int


@dataclass(slots=True)
class ControllerContext:
    """The state. `epoch_version` is the version of /controller_epoch: every write of this controller is checked against it.
    `version` is the cluster's inter.broker.protocol.version; `reassigning` are the partitions with an ongoing reassignment.
    `stopping` has the controller's own broker once that stops: nothing is decided by it."""

    epoch: int = 0
    epoch_version: int = 0
    version: InterBrokerVersion = LATEST
    live_brokers: dict[int, LiveBroker] = field(default_factory=dict)
    shutting_down: set[int] = field(default_factory=set)
    stopping: set[int] = field(default_factory=set)
    topics: dict[str, bytes] = field(default_factory=dict)
    names_by_id: dict[bytes, str] = field(default_factory=dict)
    assignments: PartitionMap[ReplicaAssignment] = field(default_factory=PartitionMap)
    leadership: PartitionMap[PartitionState] = field(default_factory=PartitionMap)
    partition_phases: PartitionMap[PartitionPhase] = field(default_factory=PartitionMap)
    replica_phases: ReplicaMap[ReplicaPhase] = field(default_factory=ReplicaMap)
    offline_directories: dict[int, set[TopicPartition]] = field(default_factory=dict)
    topics_to_delete: dict[str, None] = field(default_factory=dict)
    deletions_started: set[str] = field(default_factory=set)
    reassigning: dict[TopicPartition, None] = field(default_factory=dict)

    # Brokers.

    def is_live(self, broker_id: int) -> bool:
        """Whether the broker is registered and not shutting down."""
        return broker_id in self.live_brokers and broker_id not in self.shutting_down

    def is_replica_online(self, broker_id: int, topic_partition: TopicPartition) -> bool:
        return self.is_live(broker_id) and topic_partition not in self.offline_directories.get(broker_id, ())

    # Topics.

    def add_topic(self, name: str, topic_id: bytes, assignments: Mapping[int, ReplicaAssignment]) -> None:
        self.topics[name] = topic_id
        for partition, assignment in assignments.items():
            self.assignments[name, partition] = assignment
        if topic_id != ZERO_UUID:
            self.names_by_id[topic_id] = name

    def remove_topic(self, name: str) -> None:
        topic_id = self.topics.pop(name, None)
        if topic_id is None:
            return
        self.names_by_id.pop(topic_id, None)
        for partition, assignment in list(self.assignments.of(name)):
            del self.assignments[name, partition]
            self.reassigning.pop((name, partition), None)
            self.leadership.pop((name, partition), None)
            self.partition_phases.pop((name, partition), None)
            for broker_id in assignment.replicas:
                self.forget_replica((name, partition, broker_id))

    def assignment(self, topic_partition: TopicPartition) -> ReplicaAssignment:
        """Return a partition's assignment; one without replicas for an unknown partition."""
        return self.assignments.find(topic_partition) or NO_REPLICAS

    def set_assignment(self, topic_partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Set an assignment. Removed replicas keep their phase until it is moved to NON_EXISTENT."""
        assert topic_partition[0] in self.topics, f"{topic_partition} is of no topic"
        self.assignments[topic_partition] = assignment

    def topic_id(self, name: str) -> bytes:
        return self.topics.get(name, ZERO_UUID)

    def partitions_of(self, name: str) -> list[TopicPartition]:
        return [(name, partition) for partition, _ in self.assignments.of(name)]

    def all_partitions(self) -> Iterator[TopicPartition]:
        """Iterate over all partitions, by topic."""
        for name in self.topics:
            for partition, _ in self.assignments.of(name):
                yield name, partition

    def replicas_of(self, topic_partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [(*each, broker_id) for each in topic_partitions for broker_id in self.assignment(each).replicas]

    def is_being_deleted(self, name: str) -> bool:
        """Whether the topic is being deleted; its partitions get no leader."""
        return name in self.topics_to_delete

    # Phases.

    def partition_phase(self, topic_partition: TopicPartition) -> PartitionPhase:
        return self.partition_phases.find(topic_partition) or PartitionPhase.NON_EXISTENT

    def replica_phase(self, replica: Replica) -> ReplicaPhase:
        return self.replica_phases.find(replica) or ReplicaPhase.NON_EXISTENT

    def forget_replica(self, replica: Replica) -> None:
        """Remove a deleted replica; another of its name may be created in an online directory."""
        name, partition, broker_id = replica
        self.replica_phases.pop(replica, None)
        self.offline_directories.get(broker_id, set()).discard((name, partition))

    def partitions_in(self, *phases: PartitionPhase) -> list[TopicPartition]:
        return [each for each, phase in self.partition_phases.pairs() if phase in phases]

    def replicas_on(self, broker_ids: set[int]) -> list[Replica]:
        return [
            (name, partition, broker_id)
            for name in self.topics
            for partition, assignment in self.assignments.of(name)
            for broker_id in assignment.replicas
            if broker_id in broker_ids
        ]
