"""The requests of a look, and what their answers say, as parts of a view. No IO.

Rules: rows with errors are left out, and their partitions then are unknown.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from protocol.records.batch import NO_TIMESTAMP
from tools.health.settings import OF_BROKERS, OF_TOPICS
from tools.health.view import STORAGE_ERROR, Key, LogDirectoryView, PartitionView, ReassignmentView, Statement
from tools.log_dirs_request import by_topic

LATEST, EARLIEST = -1, -2
TOPIC, BROKER = 2, 4
"""Types of resources, as DescribeConfigs numbers them."""
DYNAMIC_DEFAULT = 3
"""The source of a value that was set for all brokers."""
OFFSET_FETCH_OF_MANY_VERSION = 8
FETCH_BY_NAME_VERSION = 12
NOT_CREATING_VERSION = 4
UNKNOWN_TOPIC = 3
UNREAD_BYTES = 64 * 1024

Offsets = dict[Key, int]


@dataclass(frozen=True, slots=True)
class FirstUnread:
    """`is_there` is False where only markers are left; `time_ms` is None for a record without timestamp."""

    is_there: bool
    time_ms: int | None = None


class UnreadableAssignment(Exception):
    """What a member of a group was assigned is not in the form of consumers."""


def partitions(metadata: Any) -> tuple[PartitionView, ...]:
    return tuple(
        PartitionView(
            topic=topic.name,
            partition=each.partition_index,
            leader=each.leader_id if each.leader_id >= 0 else None,
            replicas=tuple(each.replica_nodes),
            isr=tuple(each.isr_nodes),
            offline=tuple(each.offline_replicas or ()),
        )
        for topic in sorted(metadata.topics, key=lambda topic: str(topic.name))
        for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
    )


def metadata_request(topics: Collection[str]) -> Any:
    """Return a request about topics that creates none."""
    from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415

    row = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=[row(name=topic) for topic in sorted(topics)], allow_auto_topic_creation=False,
        min_version=NOT_CREATING_VERSION, max_version=9,
    )  # fmt: skip


def absent(metadata: Any) -> frozenset[str]:
    """Return the topics that do not exist. Others that are asked for may be hidden from this user."""
    return frozenset(topic.name for topic in metadata.topics if topic.error_code == UNKNOWN_TOPIC)


def statement(metadata: Any) -> Statement:
    return Statement(
        controller=metadata.controller_id if metadata.controller_id >= 0 else None,
        brokers=frozenset(broker.node_id for broker in metadata.brokers),
        leaders={each.key: each.leader for each in partitions(metadata)},
    )


def list_offsets_request(keys: Iterable[Key], *, is_committed_only: bool = False, timestamp: int = LATEST) -> Any:
    from kafka.protocol.consumer import ListOffsetsRequest  # noqa: PLC0415

    row = ListOffsetsRequest.ListOffsetsTopic
    index = row.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(is_committed_only),
        topics=[
            row(name=topic, partitions=[index(partition_index=each, timestamp=timestamp) for each in indexes])
            for topic, indexes in by_topic(keys).items()
        ],
        min_version=2 if is_committed_only else 1,
    )  # fmt: skip


def offsets(answer: Any) -> Offsets:
    return {
        (topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.offset >= 0
    }


def log_directories(answer: Any) -> tuple[LogDirectoryView, ...]:
    return tuple(
        LogDirectoryView(
            path=each.log_dir,
            is_offline=each.error_code == STORAGE_ERROR,
            total_bytes=_known(each.total_bytes),
            usable_bytes=_known(each.usable_bytes),
            sizes={
                (topic.name, row.partition_index): row.partition_size
                for topic in each.topics or ()
                for row in topic.partitions
                if not row.is_future_key
            },
        )
        for each in answer.results
    )


def configs_request(resources: Iterable[tuple[int, str]]) -> Any:
    from kafka.protocol.admin import DescribeConfigsRequest  # noqa: PLC0415

    row = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            row(
                resource_type=kind, resource_name=name,
                configuration_keys=list(OF_TOPICS if kind == TOPIC else OF_BROKERS),
            )
            for kind, name in resources
        ]
    )  # fmt: skip


def settings(answer: Any) -> dict[str, dict[str, str]]:
    """Return settings by resource; one that has no value is empty."""
    return {
        each.resource_name: {row.name: row.value or "" for row in each.configs}
        for each in answer.results
        if not each.error_code
    }


def settings_of_all_brokers(answer: Any) -> dict[str, frozenset[str]]:
    """Return the names of settings by broker whose values are those for all brokers, and not the broker's own."""
    return {
        each.resource_name: frozenset(
            row.name for row in each.configs if getattr(row, "config_source", None) == DYNAMIC_DEFAULT
        )
        for each in answer.results
        if not each.error_code
    }


def list_groups_request() -> Any:
    from kafka.protocol.admin import ListGroupsRequest  # noqa: PLC0415

    return ListGroupsRequest(states_filter=[], types_filter=[])


def describe_groups_request(groups: Iterable[str]) -> Any:
    from kafka.protocol.admin import DescribeGroupsRequest  # noqa: PLC0415

    return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)


def assigned(group: Any) -> set[Key]:
    """Return the partitions that members of a described group have. Raises UnreadableAssignment, because leaders
    assign whatever bytes they like."""
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment  # noqa: PLC0415

    if group.protocol_type != "consumer":
        return set()
    try:
        return {
            (topic, partition)
            for member in group.members
            if member.member_assignment
            for topic, indexes in ConsumerProtocolAssignment.decode(member.member_assignment).assigned_partitions
            for partition in indexes
        }
    except (ValueError, TypeError, struct.error) as error:
        raise UnreadableAssignment from error


def offset_fetch_request(groups: Iterable[str]) -> Any:
    """Return a request for all groups of a coordinator, as brokers since 3.0 take it."""
    from kafka.protocol.consumer import OffsetFetchRequest  # noqa: PLC0415

    row = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        groups=[row(group_id=group, member_id=None, member_epoch=-1, topics=None) for group in groups],
        min_version=OFFSET_FETCH_OF_MANY_VERSION, max_version=9,
    )  # fmt: skip


def commits(answer: Any) -> dict[str, Offsets]:
    return {
        group.group_id: {
            (topic.name, each.partition_index): each.committed_offset
            for topic in group.topics
            for each in topic.partitions
            if not each.error_code and each.committed_offset >= 0
        }
        for group in answer.groups
        if not group.error_code
    }


def reassignments_request(limit_ms: int) -> Any:
    from kafka.protocol.admin import ListPartitionReassignmentsRequest  # noqa: PLC0415

    return ListPartitionReassignmentsRequest(timeout_ms=limit_ms, topics=None)


def reassignments(answer: Any) -> tuple[ReassignmentView, ...]:
    return tuple(
        ReassignmentView(
            key=(topic.name, each.partition_index),
            replicas=tuple(each.replicas),
            adding=tuple(each.adding_replicas),
            removing=tuple(each.removing_replicas),
        )
        for topic in answer.topics
        for each in topic.partitions
    )


def describe_producers_request(keys: Iterable[Key]) -> Any:
    from kafka.protocol.admin import DescribeProducersRequest  # noqa: PLC0415

    row = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(
        topics=[row(name=topic, partition_indexes=indexes) for topic, indexes in by_topic(keys).items()]
    )


def open_transactions(answer: Any) -> dict[tuple[Key, int], Any]:
    """Return the producers with an open transaction, by partition and start offset."""
    return {
        ((topic.name, each.partition_index), producer.current_txn_start_offset): producer
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
        for producer in each.active_producers
        if producer.current_txn_start_offset >= 0
    }


def list_transactions_request(producer_ids: Iterable[int]) -> Any:
    from kafka.protocol.admin import ListTransactionsRequest  # noqa: PLC0415

    return ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producer_ids))


def describe_transactions_request(transactional_ids: Iterable[str]) -> Any:
    from kafka.protocol.admin import DescribeTransactionsRequest  # noqa: PLC0415

    return DescribeTransactionsRequest(transactional_ids=sorted(transactional_ids))


def fetch_request(starts: Mapping[Key, int]) -> Any:
    from kafka.protocol.consumer import FetchRequest  # noqa: PLC0415

    row = FetchRequest.FetchTopic
    return FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=UNREAD_BYTES * max(len(starts), 1), isolation_level=0,
        session_id=0, session_epoch=-1, forgotten_topics_data=[], rack_id="",
        topics=[
            row(topic=topic, partitions=[
                row.FetchPartition(
                    partition=each, current_leader_epoch=-1, fetch_offset=starts[topic, each], last_fetched_epoch=-1,
                    log_start_offset=-1, partition_max_bytes=UNREAD_BYTES,
                )
                for each in indexes
            ])
            for topic, indexes in by_topic(starts).items()
        ],
        min_version=4, max_version=FETCH_BY_NAME_VERSION,
    )  # fmt: skip


def first_unread(answer: Any, starts: Mapping[Key, int]) -> dict[Key, FirstUnread]:
    """Return what is known of the first record at or behind each start. Partitions that were not read have no entry."""
    from kafka.errors import UnsupportedCodecError  # noqa: PLC0415

    found: dict[Key, FirstUnread] = {}
    for topic in answer.responses:
        for each in topic.partitions:
            if each.error_code:
                continue
            key = topic.topic, each.partition_index
            try:
                found[key] = _first(each.records or b"", starts[key])
            except UnsupportedCodecError:  # the library that decompresses is not installed: unknown
                continue
    return found


def _first(content: bytes, start: int) -> FirstUnread:
    from kafka.record import MemoryRecords  # noqa: PLC0415

    batches = MemoryRecords(content)
    while batches.has_next():
        batch = batches.next_batch()
        if getattr(batch, "is_control_batch", False):
            continue
        for record in batch:
            if record.offset >= start:
                has_time = record.timestamp != NO_TIMESTAMP
                return FirstUnread(is_there=True, time_ms=int(record.timestamp) if has_time else None)
    return FirstUnread(is_there=False)


def _known(size: int | None) -> int | None:
    return None if size is None or size < 0 else size
