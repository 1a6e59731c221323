"""Requests as ordinary clients send them."""

from __future__ import annotations

from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.stored.consumer_protocol import ConsumerProtocolSubscription
from protocol.topic_partition import TopicPartition


def join_request(group_id: str = "g", member_id: str = "", *, instance: str | None = None) -> JoinGroupRequest:
    subscription = ConsumerProtocolSubscription(topics=["orders"]).encode_stored(0)
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )


def sync_request(
    group_id: str, member_id: str, generation_id: int, assignments: dict[str, bytes] | None = None
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=each, assignment=assignment)
            for each, assignment in (assignments or {}).items()
        ],
    )


def heartbeat_request(group_id: str, member_id: str, generation_id: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=generation_id, member_id=member_id)


def commit_request(
    group_id: str,
    offsets: dict[TopicPartition, int],
    *,
    member_id: str = "",
    generation_id: int = -1,
    metadata: str | None = None,
    retention_time_ms: int = -1,
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        retention_time_ms=retention_time_ms,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ],
    )


def transactional_commit_request(
    group_id: str,
    offsets: dict[TopicPartition, int],
    *,
    producer_id: int = 7,
    producer_epoch: int = 0,
    member_id: str = "",
    generation_id: int = -1,
    metadata: str | None = None,
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        generation_id=generation_id,
        member_id=member_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ],
    )


def fetch_group(group_id: str, places: list[TopicPartition] | None = None) -> OffsetFetchRequestGroup:
    topics = None
    if places is not None:
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[index]) for topic, index in places]
    return OffsetFetchRequestGroup(group_id=group_id, topics=topics)


def delete_offsets_request(group_id: str, places: list[TopicPartition]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
            for topic, partition in places
        ],
    )
