"""The rules of topics: names, counts, assignments. Pure: each function returns a plan or raises the KafkaError that the
client gets.

Source: Kafka Topic, ZkAdminManager, AdminZkClient, AdminUtils.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from config.broker import BrokerSettings
from config.errors import ConfigError
from config.topic import check_topic_settings
from metadata.admin.placement import Placement, PlacementBroker, place
from metadata.image import is_internal
from metadata.store.znodes import ReplicaAssignment
from protocol.errors import ErrorCode, KafkaError
from protocol.topic_names import problem_of_name
from runtime.scala_text import hash_map_of_buffers

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
DEFAULT_COUNT = -1


def check_settings(topic: str, given: Mapping[str, str], broker_settings: BrokerSettings) -> None:
    """Check the settings of `topic` before they are stored. Raises ConfigError."""
    config = check_topic_settings(given, broker_settings)
    if config.ttl_ms is not None and is_internal(topic):
        raise ConfigError(
            f"Records of the internal topic {topic} do not expire: barnabas.message.ttl.ms cannot be set."
        )


def check_name(name: str) -> None:
    """Check a topic's name. Raises KafkaError(INVALID_TOPIC_EXCEPTION)."""
    reason = problem_of_name(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def is_legal_name(name: str) -> bool:
    return problem_of_name(name) is None


def colliding(name: str, existing: Iterable[str]) -> list[str]:
    """Return topics that differ from `name` only by '.' and '_', which are one character in metric names."""
    if not may_collide(name):
        return []
    same = folded(name)
    return [each for each in existing if each != name and folded(each) == same]


def folded(name: str) -> str:
    """Return the form that colliding names share."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    return "." in name or "_" in name


def check_new_name(name: str, *, exists: bool, is_being_deleted: bool, others: Iterable[str]) -> None:
    """Check the name of a new topic. `others` are the existing topics, used for names that may collide."""
    check_name(name)
    if is_being_deleted:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    if exists:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    found = colliding(name, others)
    if found:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {', '.join(found)}"
        )


def check_counts_or_assignment(partitions: int, replication_factor: int, has_assignment: bool) -> None:
    if has_assignment and (partitions != DEFAULT_COUNT or replication_factor != DEFAULT_COUNT):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )


MAX_NEW_PARTITIONS = 50_000
"""Of all topics of one request: what it asks for is planned, written and sent to all brokers in one step. Apache Kafka takes
10,000 with KRaft, which refuses more with this text; with ZooKeeper it takes any number, and a node that describes some
80,000 is larger than ZooKeeper takes."""


@dataclass(slots=True)
class Allowance:
    """Counts how many partitions a request may still add."""

    left: int = MAX_NEW_PARTITIONS

    def check(self, partitions: int) -> None:
        if partitions > self.left:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Excessively large number of partitions per request: {partitions} in addition to "
                f"{MAX_NEW_PARTITIONS - self.left}, at most {MAX_NEW_PARTITIONS}.",
            )


def check_new_assignment(assignment: Mapping[int, Sequence[int]]) -> None:
    """Check an assignment of a client. Unknown brokers are accepted, as by Kafka: they may register later."""
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All partitions should have the same number of replicas")
    for replicas in assignment.values():
        if len(set(replicas)) != len(replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Duplicate replica assignment found: {hash_map_of_buffers(dict(sorted(assignment.items())))}",
            )
    if sorted(assignment) != list(range(len(assignment))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )


def plan_growth(
    topic: str,
    current: Mapping[int, ReplicaAssignment],
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    brokers: Sequence[PlacementBroker],
    shift: int,
) -> dict[int, tuple[int, ...]]:
    """Return the replicas of the partitions [len(current), count). `assignments` are those of the request. Raises
    KafkaError; also for a coordinator's topic, whose groups would hash to other partitions."""
    if not current:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
    if any(each.is_being_reassigned for each in current.values()):
        raise KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"A partition reassignment is in progress for the topic '{topic}'."
        )
    added = count - len(current)
    if added < 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {len(current)} partitions, which is higher than the requested {count}.",
        )
    if added == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {len(current)} partitions.")
    if is_internal(topic):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The partitions of '{topic}' cannot be {count}: what is stored in its {len(current)} partitions is found by a "
            "hash over their number, and would not be found any more.",
        )
    first = current[min(current)].replicas
    if assignments is None:
        ids = sorted(broker.broker_id for broker in brokers)
        start_index = next((index for index, each in enumerate(ids) if each >= first[0]), 0)
        return place(brokers, added, len(first), Placement(start_index, shift), first_partition=len(current))
    wished = {len(current) + index: tuple(replicas) for index, replicas in enumerate(assignments)}
    _check_added_assignment(wished, added, len(first), {broker.broker_id for broker in brokers})
    return wished


def _check_added_assignment(
    wished: Mapping[int, Sequence[int]], added: int, replication_factor: int, brokers: Collection[int]
) -> None:
    def refuse(message: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

    unknown = sorted({each for replicas in wished.values() for each in replicas} - set(brokers))
    if unknown:
        raise refuse(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    if len(wished) != added:
        raise refuse(f"Increasing the number of partitions by {added} but {len(wished)} assignments provided.")
    for partition, replicas in wished.items():
        if not replicas:
            raise refuse(f"Cannot have replication factor of 0 for partition id {partition}.")
        if len(set(replicas)) != len(replicas):
            raise refuse(
                f"Duplicate brokers not allowed in replica assignment: {', '.join(map(str, replicas))} "
                f"for partition id {partition}."
            )
    wrong = {partition: len(each) for partition, each in wished.items() if len(each) != replication_factor}
    if wrong:
        raise refuse(
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} "
            f"while partitions {sorted(wrong)} have replication factors {[wrong[each] for each in sorted(wrong)]}, "
            "respectively."
        )
