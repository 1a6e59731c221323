"""Partitions are moved to other replicas, or such moves are called off (KIP-455)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string


class ReassignablePartition(Message):
    partition_index: int              = int32()
    replicas:        list[int] | None = array(int32, nullable="0+", default=None)


class ReassignableTopic(Message):
    name:       str                         = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Request, key=45, versions="0", flexible="0+"):
    timeout_ms: int                     = int32(default=60000)
    topics:     list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Message):
    partition_index: int        = int32()
    error_code:      int        = int16()
    error_message:   str | None = string(nullable="0+")


class ReassignableTopicResponse(Message):
    name:       str                                 = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Response, answers=AlterPartitionReassignmentsRequest):
    throttle_time_ms: int                             = int32()
    error_code:       int                             = int16()
    error_message:    str | None                      = string(nullable="0+")
    responses:        list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
