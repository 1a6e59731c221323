"""The requests of transactions, and where their responses have the error code. Versions differ in form, not in meaning."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.commits import text_of


def add_partitions_request(
    transactional_id: str, producer: tuple[int, int], keys: Sequence[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """In the form of clients: versions 0 to 3."""
    topics: dict[str, list[int]] = {}
    for topic, partition in keys:
        topics.setdefault(topic, []).append(partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )


def produce_request(transactional_id: str, key: TopicPartition, content: bytes) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(name=key[0], partition_data=[PartitionProduceData(index=key[1], records=content)])
        ],
    )


def txn_offset_commit_request(
    transactional_id: str, producer: tuple[int, int], group: str, key: TopicPartition, offset: int
) -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(
        partition_index=key[1], committed_offset=offset, committed_metadata=text_of(offset)
    )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name=key[0], partitions=[row])],
    )


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
