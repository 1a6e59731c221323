"""The leader of a partition stores what changed in its share partitions (KIP-932).

  v1  how many records from the start offset on are done with (KIP-1226)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, int64, string, uuid


class StateBatch(Message):
    first_offset:   int = int64()
    last_offset:    int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionData(Message):
    partition:               int              = int32()
    state_epoch:             int              = int32()
    leader_epoch:            int              = int32()
    start_offset:            int              = int64()
    delivery_complete_count: int              = int32("1+", default=-1, ignorable=True)
    state_batches:           list[StateBatch] = array(StateBatch)


class TopicData(Message):
    topic_id:   bytes               = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class WriteShareGroupStateRequest(Request, key=85, versions="0-1", flexible="0+"):
    group_id: str             = string()
    topics:   list[TopicData] = array(TopicData)


class PartitionResult(Message):
    partition:     int        = int32()
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+", default=None)


class TopicResult(Message):
    topic_id:   bytes                 = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class WriteShareGroupStateResponse(Response, answers=WriteShareGroupStateRequest):
    results: list[TopicResult] = array(TopicResult)
