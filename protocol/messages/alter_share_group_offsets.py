"""The share partitions of a group without members begin elsewhere (KIP-932)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, int64, string, uuid


class AlteredPartition(Message):
    partition_index: int = int32()
    start_offset:    int = int64()


class AlteredTopic(Message):
    topic_name: str                    = string()
    partitions: list[AlteredPartition] = array(AlteredPartition)


class AlterShareGroupOffsetsRequest(Request, key=91, versions="0", flexible="0+"):
    group_id: str                = string()
    topics:   list[AlteredTopic] = array(AlteredTopic)


class PartitionResult(Message):
    partition_index: int        = int32()
    error_code:      int        = int16()
    error_message:   str | None = string(nullable="0+", default=None)


class TopicResult(Message):
    topic_name: str                   = string()
    topic_id:   bytes                 = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class AlterShareGroupOffsetsResponse(Response, answers=AlterShareGroupOffsetsRequest):
    throttle_time_ms: int               = int32()
    error_code:       int               = int16()
    error_message:    str | None        = string(nullable="0+", default=None)
    responses:        list[TopicResult] = array(TopicResult)
