"""Topics: describe, create, delete, give more partitions. Pure.

Rules: creating and deleting is asked of the controller. A topic that is being created has partitions without leader for a
moment: that is no error here.
Source: KIP-4, KIP-195, KIP-516; Kafka KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from client.admin.steps import ByVersion, Place, Rows, Steps, ask, at, rows_of
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from protocol.primitives import ZERO_UUID

_FIRST_WITH_IDS = 6
"""The version of DeleteTopics from which topics have names or ids."""
NOT_ASSIGNED = -1
"""The number of partitions or replicas of a topic that the broker decides, or that its assignments say."""


def all_topics() -> Steps[dict[str, MetadataResponseTopic]]:
    """Return the topics that this user may see. Raises KafkaError."""
    response = yield from ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    return {topic.name: topic for topic in response.topics if topic.error_code not in _NOT_THERE}


def describe(
    names: Collection[str], *, has_operations: bool = False
) -> Steps[dict[str, MetadataResponseTopic | KafkaError]]:
    """Return these topics; with `has_operations` each with what this user may do with it. Raises KafkaError."""

    def request_of(wanted: list[str]) -> MetadataRequest:
        return MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in wanted],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=has_operations,
        )

    def read(response: Any) -> Rows[str, MetadataResponseTopic]:
        for topic in response.topics:
            code = 0 if topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE else topic.error_code
            yield topic.name, code, None, topic

    return (yield from rows_of(names, at(Place.ANY), request_of, read))


def create(
    wanted: Mapping[str, CreatableTopic], timeout_ms: int, *, validate_only: bool
) -> Steps[dict[str, KafkaError | None]]:
    """Create topics; `timeout_ms` is how long the controller waits for their leaders."""

    def request_of(names: list[str]) -> CreateTopicsRequest:
        topics = [wanted[name] for name in names]
        return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)

    def read(response: Any) -> Rows[str, None]:
        return ((row.name, row.error_code, row.error_message, None) for row in response.topics)

    return (yield from rows_of(wanted, at(Place.CONTROLLER), request_of, read))


def delete(names: Collection[str], timeout_ms: int) -> Steps[dict[str, KafkaError | None]]:
    """Delete topics with their records."""

    def request_of(some: list[str]) -> ByVersion:
        def in_version(version: int) -> DeleteTopicsRequest:
            if version < _FIRST_WITH_IDS:
                return DeleteTopicsRequest(topic_names=some, timeout_ms=timeout_ms)
            topics = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in some]
            return DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)

        return ByVersion(DeleteTopicsRequest, in_version)

    def read(response: Any) -> Rows[str, None]:
        return ((row.name, row.error_code, row.error_message, None) for row in response.responses)

    return (yield from rows_of(names, at(Place.CONTROLLER), request_of, read))


def add_partitions(
    counts: Mapping[str, int], assignments: Mapping[str, Sequence[Sequence[int]]], timeout_ms: int
) -> Steps[dict[str, KafkaError | None]]:
    """Give topics more partitions. `counts` are the new numbers, `assignments` the brokers of the new partitions, of topics
    where the controller shall not choose them."""

    def request_of(names: list[str]) -> CreatePartitionsRequest:
        topics = [
            CreatePartitionsTopic(
                name=name,
                count=counts[name],
                assignments=[CreatePartitionsAssignment(broker_ids=list(each)) for each in assignments[name]]
                if name in assignments
                else None,
            )
            for name in names
        ]
        return CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=False)

    def read(response: Any) -> Rows[str, None]:
        return ((row.name, row.error_code, row.error_message, None) for row in response.results)

    return (yield from rows_of(counts, at(Place.CONTROLLER), request_of, read))


_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
