"""The reassignments under way (KIP-455)."""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string


class ListPartitionReassignmentsTopics(Message):
    name:              str       = string()
    partition_indexes: list[int] = array(int32)


class ListPartitionReassignmentsRequest(Request, key=46, versions="0", flexible="0+"):
    timeout_ms: int                                           = int32(default=60000)
    topics:     list[ListPartitionReassignmentsTopics] | None = array(ListPartitionReassignmentsTopics, nullable="0+",
                                                                      default=None)


class OngoingPartitionReassignment(Message):
    partition_index:   int       = int32()
    replicas:          list[int] = array(int32)
    adding_replicas:   list[int] = array(int32)
    removing_replicas: list[int] = array(int32)


class OngoingTopicReassignment(Message):
    name:       str                                = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Response, answers=ListPartitionReassignmentsRequest):
    throttle_time_ms: int                            = int32()
    error_code:       int                            = int16()
    error_message:    str | None                     = string(nullable="0+")
    topics:           list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
