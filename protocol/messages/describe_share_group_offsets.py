"""Where the share partitions of groups begin (KIP-932).

  v1  lag (KIP-1226)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, int64, string, uuid


class RequestedTopic(Message):
    topic_name: str       = string()
    partitions: list[int] = array(int32)


class RequestedGroup(Message):
    group_id: str                         = string()
    topics:   list[RequestedTopic] | None = array(RequestedTopic, nullable="0+")


class DescribeShareGroupOffsetsRequest(Request, key=90, versions="0-1", flexible="0+"):
    groups: list[RequestedGroup] = array(RequestedGroup)


class DescribedPartition(Message):
    partition_index: int        = int32()
    start_offset:    int        = int64()
    leader_epoch:    int        = int32()
    lag:             int        = int64("1+", default=-1, ignorable=True)
    error_code:      int        = int16()
    error_message:   str | None = string(nullable="0+", default=None)


class DescribedTopic(Message):
    topic_name: str                      = string()
    topic_id:   bytes                    = uuid()
    partitions: list[DescribedPartition] = array(DescribedPartition)


class DescribedGroup(Message):
    group_id:      str                  = string()
    topics:        list[DescribedTopic] = array(DescribedTopic)
    error_code:    int                  = int16()
    error_message: str | None           = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Response, answers=DescribeShareGroupOffsetsRequest):
    throttle_time_ms: int                  = int32()
    groups:           list[DescribedGroup] = array(DescribedGroup)
