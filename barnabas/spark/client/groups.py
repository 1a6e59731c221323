"""Reads and commits the offsets of consumer groups, from outside of the groups; the ends of partitions beside them.

A commit has no member and no generation, which a coordinator takes for a group without members only.

Rules: errors that may pass are waited out, as the client does it. Errors: KafkaError, ClusterUnavailable.
Source: Kafka Admin alterConsumerGroupOffsets, listConsumerGroupOffsets; KIP-396.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from barnabas.spark.client.client_options import parse_client
from barnabas.spark.client.cluster_client import GROUP, ClusterClient
from barnabas.spark.client.connection import BrokerConnection
from barnabas.spark.client.ranges import LATEST
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from protocol.topic_partition import TopicPartition

_PASSING: Final = frozenset({
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
})  # fmt: skip
_HAS_MEMBERS: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)
_FIRST_OF_SEVERAL_GROUPS: Final = 8
"""The version of OffsetFetch from which a request names several groups."""

T = TypeVar("T")


def client_of(settings: Mapping[str, str]) -> ClusterClient:
    """Return a client with the `kafka.*` settings of a source or sink. Raises SourceOptionError."""
    return ClusterClient(parse_client({name.lower(): text for name, text in settings.items()}))


def end_offsets(client: ClusterClient, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return the end offset of each partition. Raises KafkaError, ClusterUnavailable."""
    found = client.offsets(dict.fromkeys(partitions, LATEST))
    return {(topic, partition): each.offset for (topic, partition), each in found.items()}


def records_behind(settings: Mapping[str, str], reached: Mapping[tuple[str, int], int]) -> int | None:
    """Return how many offsets there are behind those that were reached, None when no broker says so within seconds."""
    try:
        with client_of({**settings, "kafka.default.api.timeout.ms": "2000"}) as client:
            ends = end_offsets(client, reached)
    except (KafkaError, OSError):
        return None
    return sum(max(0, end - reached[key]) for key, end in ends.items())


def committed_offsets(client: ClusterClient, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group, without partitions that have none. Raises KafkaError, ClusterUnavailable."""

    def ask(connection: BrokerConnection) -> dict[TopicPartition, int]:
        if connection.version_of(OffsetFetchRequest) < _FIRST_OF_SEVERAL_GROUPS:
            request = OffsetFetchRequest(group_id=group, topics=None)
        else:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        response = connection.ask(request, OffsetFetchResponse)
        one = response.groups[0] if response.groups else response
        _check(one.error_code, f"offsets of group {group}")
        found = {}
        for topic in one.topics:
            for each in topic.partitions:
                _check(each.error_code, f"offset of group {group} in {topic.name}-{each.partition_index}")
                if each.committed_offset >= 0:
                    found[topic.name, each.partition_index] = each.committed_offset
        return found

    return _from_coordinator(client, group, ask)


def commit_offsets(client: ClusterClient, group: str, offsets: Mapping[tuple[str, int], int]) -> bool:
    """Commit offsets for a group without members; return False for a group that has some, without a change.

    Raises KafkaError, ClusterUnavailable.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        )
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )

    def ask(connection: BrokerConnection) -> bool:
        for topic in connection.ask(request, OffsetCommitResponse).topics:
            for each in topic.partitions:
                if each.error_code in _HAS_MEMBERS:
                    return False
                _check(each.error_code, f"commit of group {group} in {topic.name}-{each.partition_index}")
        return True

    return _from_coordinator(client, group, ask)


def _from_coordinator(client: ClusterClient, group: str, ask: Callable[[BrokerConnection], T]) -> T:
    attempts = client.attempts(f"coordinator of group {group}")
    while True:
        connection: BrokerConnection | None = None
        try:
            connection = client.coordinator_of(group, GROUP)
            return ask(connection)
        except KafkaError as error:
            if error.code not in _PASSING:
                raise
            attempts.pause(error)
        except OSError as error:
            if connection is not None:
                client.drop_connection(connection)
            attempts.pause(error)


def _check(error_code: int, what: str) -> None:
    if error_code:
        code = ErrorCode(error_code)
        raise KafkaError(code, f"{what}: {code.name}")
