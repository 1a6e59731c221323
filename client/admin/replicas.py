"""Replicas: where they are in log directories, moves between brokers and directories, elections of leaders, and records that
are deleted. Pure.

Rules: reassignments and elections are asked of the controller, directories of each broker, deletions of leaders.
Source: KIP-107, KIP-113, KIP-455, KIP-460.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from client.admin.brokers import each_broker
from client.admin.steps import KeyKind, Place, Rows, Steps, ask, at, by_topic, is_lost, located, rows_of
from protocol.errors import KafkaError
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    OngoingPartitionReassignment,
)
from protocol.topic_partition import TopicPartition

ReplicaKey = tuple[str, int, int]
"""Topic, partition, broker."""


class ElectionType(IntEnum):
    """The codes of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


def log_dirs_request(keys: Iterable[TopicPartition] | None = None) -> DescribeLogDirsRequest:
    """Return the request about some partitions, or all."""
    rows = None if keys is None else [
        DescribableLogDirTopic(topic=topic, partitions=each) for topic, each in by_topic(keys).items()
    ]  # fmt: skip
    return DescribeLogDirsRequest(topics=rows)


def log_dirs(brokers: Iterable[int], keys: Iterable[TopicPartition] | None = None) -> Steps[dict[int, Any]]:
    """Return for each broker its DescribeLogDirsResponse, of some partitions or of all, or the KafkaError in its place."""
    return (yield from each_broker(log_dirs_request(keys), brokers))


def move_directories(paths: Mapping[ReplicaKey, str]) -> Steps[dict[ReplicaKey, KafkaError | None]]:
    """Begin to move replicas to the directories with these paths."""

    def request_of(keys: list[ReplicaKey]) -> AlterReplicaLogDirsRequest:
        by_path: dict[str, list[TopicPartition]] = defaultdict(list)
        for key in keys:
            by_path[paths[key]].append(key[:2])
        return AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=each) for name, each in by_topic(some).items()
                    ],
                )
                for path, some in by_path.items()
            ]
        )

    found: dict[ReplicaKey, KafkaError | None] = {}
    for broker in sorted({key[2] for key in paths}):

        def read(response: Any, broker: int = broker) -> Rows[ReplicaKey, None]:
            for topic in response.results:
                for row in topic.partitions:
                    yield (topic.topic_name, row.partition_index, broker), row.error_code, None, None

        keys = [key for key in paths if key[2] == broker]
        found |= yield from rows_of(keys, at(broker), request_of, read, is_lost)
    return found


def reassign(targets: Mapping[TopicPartition, Sequence[int] | None]) -> Steps[dict[TopicPartition, KafkaError | None]]:
    """Begin reassignments; None ends one."""

    def request_of(keys: list[TopicPartition]) -> AlterPartitionReassignmentsRequest:
        return AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(partition_index=each, replicas=_listed(targets[topic, each]))
                        for each in partitions
                    ],
                )
                for topic, partitions in by_topic(keys).items()
            ]
        )

    def read(response: Any) -> Rows[TopicPartition, None]:
        for topic in response.responses:
            for row in topic.partitions:
                yield (topic.name, row.partition_index), row.error_code, row.error_message, None

    return (yield from rows_of(targets, at(Place.CONTROLLER), request_of, read))


def reassignments() -> Steps[dict[TopicPartition, OngoingPartitionReassignment]]:
    """Return the partitions that are being moved. Raises KafkaError."""
    response = yield from ask(ListPartitionReassignmentsRequest(topics=None), Place.CONTROLLER)
    return {(topic.name, row.partition_index): row for topic in response.topics for row in topic.partitions}


def elect(kind: ElectionType, keys: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, KafkaError | None]]:
    """Elect leaders. ELECTION_NOT_NEEDED is an error, too."""

    def request_of(some: list[TopicPartition]) -> ElectLeadersRequest:
        rows = [TopicPartitions(topic=topic, partitions=each) for topic, each in by_topic(some).items()]
        return ElectLeadersRequest(election_type=kind, topic_partitions=rows)

    def read(response: Any) -> Rows[TopicPartition, None]:
        for topic in response.replica_election_results:
            for row in topic.partition_result:
                yield (topic.topic, row.partition_id), row.error_code, row.error_message, None

    return (yield from rows_of(keys, at(Place.CONTROLLER), request_of, read, is_lost))


def delete_records(
    before: Mapping[TopicPartition, int], timeout_ms: int
) -> Steps[dict[TopicPartition, int | KafkaError]]:
    """Delete what is before these offsets; -1 is the high watermark. Return the new starts."""

    def request_of(keys: list[TopicPartition]) -> DeleteRecordsRequest:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=each, offset=before[topic, each]) for each in partitions
                ],
            )
            for topic, partitions in by_topic(keys).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)

    def read(response: Any) -> Rows[TopicPartition, int]:
        for topic in response.topics:
            for row in topic.partitions:
                yield (topic.name, row.partition_index), row.error_code, None, row.low_watermark

    return (yield from rows_of(before, located(KeyKind.LEADER), request_of, read))


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)
