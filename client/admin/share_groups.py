"""Share groups: described; where their share partitions begin, with lag; set elsewhere; topics that are forgotten. Pure.

Rules: what begins before the start offset of a share partition is done with; what is behind it may be, too, which only the lag
tells. A share partition that no member has read yet has no start offset. Offsets are set, and topics forgotten, only in a group
without members; setting offsets of a group that does not exist makes it.
Source: KIP-932, KIP-1226.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from client.admin.steps import KeyKind, Rows, Steps, by_topic, located, located_at_one, rows_of
from protocol.errors import KafkaError
from protocol.messages.alter_share_group_offsets import AlteredPartition, AlteredTopic, AlterShareGroupOffsetsRequest
from protocol.messages.delete_share_group_offsets import DeletedTopic, DeleteShareGroupOffsetsRequest
from protocol.messages.describe_share_group_offsets import DescribedPartition, DescribeShareGroupOffsetsRequest
from protocol.messages.describe_share_group_offsets import RequestedGroup as OffsetsOfGroup
from protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from protocol.topic_partition import TopicPartition

NO_VALUE = -1
"""No start offset; a lag that is not known."""


class ShareOffset(NamedTuple):
    """Of one share partition. `lag` is what is not done with yet: None where the broker does not know it, as one before 4.2. It
    is negative where the start offset was set behind the end of the log."""

    start_offset: int
    lag: int | None


def describe(groups: Collection[str]) -> Steps[dict[str, DescribedGroup | KafkaError]]:
    """Return the state and the members of share groups. Raises nothing: each has its error."""

    def read(response: Any) -> Rows[str, DescribedGroup]:
        return ((row.group_id, row.error_code, row.error_message, row) for row in response.groups)

    return (yield from rows_of(groups, located(KeyKind.GROUP), describe_request, read))


def describe_request(groups: Iterable[str]) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)


def start_offsets_of(groups: Collection[str]) -> Steps[dict[str, dict[TopicPartition, ShareOffset] | KafkaError]]:
    """Return where the share partitions of each group begin, without those that have no start offset, or whose state cannot be
    had."""

    def read(response: Any) -> Rows[str, dict[TopicPartition, ShareOffset]]:
        return ((row.group_id, row.error_code, row.error_message, offsets_in(row)) for row in response.groups)

    return (yield from rows_of(groups, located(KeyKind.GROUP), offsets_request, read))


def offsets_request(groups: Iterable[str]) -> DescribeShareGroupOffsetsRequest:
    """Return a request for all share partitions of groups."""
    return DescribeShareGroupOffsetsRequest(groups=[OffsetsOfGroup(group_id=each, topics=None) for each in groups])


def offsets_in(group: Any) -> dict[TopicPartition, ShareOffset]:
    """Return the offsets in the row of a group."""
    return {
        (topic.topic_name, row.partition_index): _offset_of(row)
        for topic in group.topics
        for row in topic.partitions
        if not row.error_code and row.start_offset != NO_VALUE
    }


def _offset_of(row: DescribedPartition) -> ShareOffset:
    return ShareOffset(row.start_offset, None if row.lag == NO_VALUE else row.lag)


def alter_start_offsets(
    group: str, offsets: Mapping[TopicPartition, int]
) -> Steps[dict[TopicPartition, KafkaError | None]]:
    """Set where share partitions of a group without members begin: what is behind is delivered again."""

    def request_of(keys: list[TopicPartition]) -> AlterShareGroupOffsetsRequest:
        topics = [
            AlteredTopic(
                topic_name=topic,
                partitions=[
                    AlteredPartition(partition_index=each, start_offset=offsets[topic, each]) for each in partitions
                ],
            )
            for topic, partitions in by_topic(keys).items()
        ]
        return AlterShareGroupOffsetsRequest(group_id=group, topics=topics)

    def read(response: Any) -> Rows[TopicPartition, None]:
        return (
            ((topic.topic_name, row.partition_index), row.error_code, row.error_message, None)
            for topic in response.responses
            for row in topic.partitions
        )

    return (yield from rows_of(offsets, located_at_one(KeyKind.GROUP, group), request_of, read))


def delete_topics(group: str, topics: Collection[str]) -> Steps[dict[str, KafkaError | None]]:
    """Make a group without members forget what it knows of topics, with all of their partitions."""

    def request_of(some: list[str]) -> DeleteShareGroupOffsetsRequest:
        return DeleteShareGroupOffsetsRequest(
            group_id=group, topics=[DeletedTopic(topic_name=each) for each in sorted(some)]
        )

    def read(response: Any) -> Rows[str, None]:
        return ((row.topic_name, row.error_code, row.error_message, None) for row in response.responses)

    return (yield from rows_of(topics, located_at_one(KeyKind.GROUP, group), request_of, read))
