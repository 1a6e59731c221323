"""The group coordinator gives share partitions their first state, or sets their start offset (KIP-932)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, int64, string, uuid


class PartitionData(Message):
    partition:    int = int32()
    state_epoch:  int = int32()
    start_offset: int = int64()


class TopicData(Message):
    topic_id:   bytes               = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class InitializeShareGroupStateRequest(Request, key=83, versions="0", flexible="0+"):
    group_id: str             = string()
    topics:   list[TopicData] = array(TopicData)


class PartitionResult(Message):
    partition:     int        = int32()
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+", default=None)


class TopicResult(Message):
    topic_id:   bytes                 = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(Response, answers=InitializeShareGroupStateRequest):
    results: list[TopicResult] = array(TopicResult)
