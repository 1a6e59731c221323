"""The leader of a partition reads what is stored of its share partitions (KIP-932)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, int64, string, uuid


class StateBatch(Message):
    first_offset:   int = int64()
    last_offset:    int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionData(Message):
    partition:    int = int32()
    leader_epoch: int = int32()


class TopicData(Message):
    topic_id:   bytes               = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateRequest(Request, key=84, versions="0", flexible="0+"):
    group_id: str             = string()
    topics:   list[TopicData] = array(TopicData)


class PartitionResult(Message):
    partition:     int              = int32()
    error_code:    int              = int16()
    error_message: str | None       = string(nullable="0+", default=None)
    state_epoch:   int              = int32()
    start_offset:  int              = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class TopicResult(Message):
    topic_id:   bytes                 = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateResponse(Response, answers=ReadShareGroupStateRequest):
    results: list[TopicResult] = array(TopicResult)
