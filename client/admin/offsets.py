"""Offsets of partitions: the first, the end, that of the youngest record, the first since a time. Pure.

Source: KIP-79, KIP-396, KIP-734.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from client.admin.steps import KeyKind, Rows, Steps, by_topic, located, rows_of
from protocol.errors import KafkaError
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.topic_partition import TopicPartition

NO_OFFSET: Final = -1
_CONSUMER: Final = -1


def offsets_request(times: Mapping[TopicPartition, int], *, is_committed_only: bool = False) -> ListOffsetsRequest:
    """Return the request about partitions of one leader."""
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(partition_index=each, timestamp=times[topic, each]) for each in partitions
            ],
        )
        for topic, partitions in by_topic(times).items()
    ]
    return ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=int(is_committed_only), topics=topics)


def offsets(
    times: Mapping[TopicPartition, int], *, is_committed_only: bool = False
) -> Steps[dict[TopicPartition, int | KafkaError]]:
    """Return the offset of the first record since the time of each partition, NO_OFFSET where there is none. With
    `is_committed_only` the end is that of what open transactions do not hide."""

    def request_of(keys: list[TopicPartition]) -> ListOffsetsRequest:
        return offsets_request({key: times[key] for key in keys}, is_committed_only=is_committed_only)

    def read(response: Any) -> Rows[TopicPartition, int]:
        for topic in response.topics:
            for row in topic.partitions:
                yield (topic.name, row.partition_index), row.error_code, None, row.offset

    return (yield from rows_of(times, located(KeyKind.LEADER), request_of, read))
