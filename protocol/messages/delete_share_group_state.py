"""The group coordinator deletes the state of share partitions (KIP-932)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string, uuid


class PartitionData(Message):
    partition: int = int32()


class TopicData(Message):
    topic_id:   bytes               = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DeleteShareGroupStateRequest(Request, key=86, versions="0", flexible="0+"):
    group_id: str             = string()
    topics:   list[TopicData] = array(TopicData)


class PartitionResult(Message):
    partition:     int        = int32()
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+", default=None)


class TopicResult(Message):
    topic_id:   bytes                 = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class DeleteShareGroupStateResponse(Response, answers=DeleteShareGroupStateRequest):
    results: list[TopicResult] = array(TopicResult)
