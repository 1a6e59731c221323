"""The requests that collect a view, and what their responses say, as parts of it. No IO.

Rules: rows with errors are left out, and their partitions then are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from client.admin import groups
from client.admin.configs import ResourceKind, SettingSource
from client.admin.share_groups import ShareOffset, offsets_in
from client.admin.steps import by_topic
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from protocol.messages.describe_producers import DescribeProducersResponse, ProducerState
from protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponse
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.list_offsets import ListOffsetsResponse
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from protocol.primitives import Buffer
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.batch import NO_TIMESTAMP
from protocol.records.invalid import InvalidBatch
from tools.health.settings import OF_BROKERS, OF_TOPICS
from tools.health.view import Key, LogDirectoryView, PartitionView, ReassignmentView, Statement

UNREAD_BYTES = 64 * 1024
MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024

Offsets = dict[Key, int]


@dataclass(frozen=True, slots=True)
class FirstUnread:
    """`is_there` is False where only markers are left; `time_ms` is None for a record without timestamp."""

    is_there: bool
    time_ms: int | None = None


def metadata_request(topics: Collection[str] | None) -> MetadataRequest:
    """Return a request about topics that creates none; None asks for all."""
    rows = None if topics is None else [MetadataRequestTopic(name=topic) for topic in sorted(topics)]
    return MetadataRequest(topics=rows, allow_auto_topic_creation=False)


def partitions(metadata: MetadataResponse) -> tuple[PartitionView, ...]:
    return tuple(
        PartitionView(
            topic=str(topic.name),
            partition=each.partition_index,
            leader=each.leader_id if each.leader_id >= 0 else None,
            replicas=tuple(each.replica_nodes),
            isr=tuple(each.isr_nodes),
            offline=tuple(each.offline_replicas),
        )
        for topic in sorted(metadata.topics, key=lambda topic: str(topic.name))
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    )


def absent(metadata: MetadataResponse) -> frozenset[str]:
    """Return the topics that do not exist. Others that are asked for may be hidden from this user."""
    return frozenset(
        str(topic.name) for topic in metadata.topics if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def statement(metadata: MetadataResponse) -> Statement:
    return Statement(
        controller=metadata.controller_id if metadata.controller_id >= 0 else None,
        brokers=frozenset(broker.node_id for broker in metadata.brokers),
        leaders={each.key: each.leader for each in partitions(metadata)},
    )


def offsets(response: ListOffsetsResponse) -> Offsets:
    return {
        (topic.name, each.partition_index): each.offset
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code and each.offset >= 0
    }


def log_directories(response: DescribeLogDirsResponse) -> tuple[LogDirectoryView, ...]:
    return tuple(
        LogDirectoryView(
            path=each.log_dir,
            is_offline=each.error_code == ErrorCode.KAFKA_STORAGE_ERROR,
            total_bytes=_known(each.total_bytes),
            usable_bytes=_known(each.usable_bytes),
            sizes={
                (topic.name, row.partition_index): row.partition_size
                for topic in each.topics
                for row in topic.partitions
                if not row.is_future_key
            },
        )
        for each in response.results
    )


def configs_request(kind: ResourceKind, names: Iterable[str]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind,
                resource_name=name,
                configuration_keys=list(OF_TOPICS if kind is ResourceKind.TOPIC else OF_BROKERS),
            )
            for name in names
        ]
    )


def settings(response: DescribeConfigsResponse) -> dict[str, dict[str, str]]:
    """Return settings by resource; one that has no value is empty."""
    return {
        each.resource_name: {row.name: row.value or "" for row in _rows(each)}
        for each in response.results
        if not each.error_code
    }


def settings_of_all_brokers(response: DescribeConfigsResponse) -> dict[str, frozenset[str]]:
    """Return the names of settings by broker whose values are those for all brokers, and not the broker's own."""
    return {
        each.resource_name: frozenset(
            row.name for row in _rows(each) if row.config_source == SettingSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        )
        for each in response.results
        if not each.error_code
    }


def _rows(result: DescribeConfigsResult) -> list[DescribeConfigsResourceResult]:
    return cast("list[DescribeConfigsResourceResult]", result.configs)  # decoders make lists


def assigned(group: DescribedGroup) -> set[Key]:
    """Return the partitions that members of a described group have. Raises DecodeError, because leaders assign whatever bytes
    they like."""
    if group.protocol_type not in (groups.CONSUMER, groups.SHARE):
        return set()
    return {key for member in group.members for key in groups.assigned(member, group)}


def share_offsets(response: DescribeShareGroupOffsetsResponse) -> dict[str, dict[Key, ShareOffset]]:
    """Return where the share partitions of each group begin."""
    return {group.group_id: offsets_in(group) for group in response.groups if not group.error_code}


def offset_fetch_request(names: Iterable[str]) -> OffsetFetchRequest:
    """Return a request for all groups of a coordinator, as brokers since 3.0 take it."""
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in names])


def commits(response: OffsetFetchResponse) -> dict[str, Offsets]:
    return {
        group.group_id: {
            (topic.name, each.partition_index): each.committed_offset
            for topic in group.topics
            for each in topic.partitions
            if not each.error_code and each.committed_offset >= 0
        }
        for group in response.groups
        if not group.error_code
    }


def reassignments(response: ListPartitionReassignmentsResponse) -> tuple[ReassignmentView, ...]:
    return tuple(
        ReassignmentView(
            key=(topic.name, each.partition_index),
            replicas=tuple(each.replicas),
            adding=tuple(each.adding_replicas),
            removing=tuple(each.removing_replicas),
        )
        for topic in response.topics
        for each in topic.partitions
    )


def open_transactions(response: DescribeProducersResponse) -> dict[tuple[Key, int], ProducerState]:
    """Return the producers with an open transaction, by partition and start offset."""
    return {
        ((topic.name, each.partition_index), producer.current_txn_start_offset): producer
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code
        for producer in each.active_producers
        if producer.current_txn_start_offset >= 0
    }


def fetch_request(starts: Mapping[Key, int]) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=UNREAD_BYTES * max(len(starts), 1),
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=each, fetch_offset=starts[topic, each], partition_max_bytes=UNREAD_BYTES)
                    for each in indexes
                ],
            )
            for topic, indexes in by_topic(starts).items()
        ],
    )


def first_unread(response: FetchResponse, starts: Mapping[Key, int]) -> dict[Key, FirstUnread]:
    """Return what is known of the first record at or behind each start. Partitions that were not read have no entry."""
    found: dict[Key, FirstUnread] = {}
    for topic in response.responses:
        for each in topic.partitions:
            key = topic.topic, each.partition_index
            if not each.error_code:
                found[key] = _first(each.records or b"", starts[key])
    return found


def _first(content: Buffer, start: int) -> FirstUnread:
    """Return what is known of the first record; one that cannot be read is there, and has no time."""
    try:
        for position, header in iter_any_headers(content):
            if header.is_control or header.last_offset < start:
                continue
            for record in iter_any_records(content, position, header, MAX_DECOMPRESSED_BYTES):
                if record.offset >= start:
                    return FirstUnread(
                        is_there=True, time_ms=None if record.timestamp == NO_TIMESTAMP else record.timestamp
                    )
    except InvalidBatch:
        return FirstUnread(is_there=True)
    return FirstUnread(is_there=False)


def _known(size: int) -> int | None:
    return None if size < 0 else size
