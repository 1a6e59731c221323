"""The request for stable offsets, and where its response has them. Versions differ in form, not in meaning."""

from __future__ import annotations

from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.topic_partition import TopicPartition


def stable_offset_request(group: str, key: TopicPartition, version: int) -> OffsetFetchRequest:
    """Version 7 or later."""
    if version < 8:
        topic = OffsetFetchRequestTopic(name=key[0], partition_indexes=[key[1]])
        return OffsetFetchRequest(group_id=group, topics=[topic], require_stable=True)
    topics = [OffsetFetchRequestTopics(name=key[0], partition_indexes=[key[1]])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)


def offset_of(response: OffsetFetchResponse) -> tuple[int, int, str | None]:
    """(error code, committed offset, metadata) of the one partition."""
    error = response.groups[0].error_code if response.groups else response.error_code
    if error:
        return error, -1, None
    row = (response.groups[0] if response.groups else response).topics[0].partitions[0]
    return row.error_code, row.committed_offset, row.metadata
