"""Committed offsets of a group are deleted (KIP-496)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string


class OffsetDeleteRequestPartition(Message):
    partition_index: int = int32()


class OffsetDeleteRequestTopic(Message):
    name:       str                                = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Request, key=47, versions="0"):
    group_id: str                            = string()
    topics:   list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Message):
    partition_index: int = int32()
    error_code:      int = int16()


class OffsetDeleteResponseTopic(Message):
    name:       str                                 = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Response, answers=OffsetDeleteRequest):
    error_code:       int                             = int16()
    throttle_time_ms: int                             = int32()
    topics:           list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
