"""A consumer reads the offsets that its group has committed.

  v0   offsets kept in ZooKeeper
  v2   null means all topics; error of the group (KIP-88)
  v3   throttle time
  v4   throttling happens after the answer (KIP-219)
  v5   leader epoch (KIP-320)
  v6   flexible (KIP-482)
  v7   can wait for open transactions (KIP-447)
  v8   several groups at once (KIP-709)
  v9   member id and epoch (KIP-848)
  v10  topic ids instead of names (KIP-848)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request, Response, array, bool_, int16, int32, int64, string, uuid


class OffsetFetchRequestTopic(Message):
    name:              str       = string("0-7")
    partition_indexes: list[int] = array(int32, "0-7")


class OffsetFetchRequestTopics(Message):
    name:              str       = string("8-9", default="", ignorable=True)
    topic_id:          bytes     = uuid("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[int] = array(int32, "8+")


class OffsetFetchRequestGroup(Message):
    group_id:     str                                   = string("8+")
    member_id:    str | None                            = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int                                   = int32("9+", default=-1, ignorable=True)
    topics:       list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+")


class OffsetFetchRequest(Request, key=9, versions="0-10", flexible="6+"):
    group_id:       str                                  = string("0-7", default="")
    topics:         list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7",
                                                                 default=[])
    groups:         list[OffsetFetchRequestGroup]        = array(OffsetFetchRequestGroup, "8+", default=[])
    require_stable: bool                                 = bool_("7+", default=False)


class OffsetFetchResponsePartition(Message):
    partition_index:        int        = int32("0-7")
    committed_offset:       int        = int64("0-7")
    committed_leader_epoch: int        = int32("5-7", default=-1, ignorable=True)
    metadata:               str | None = string("0-7", nullable="0-7")
    error_code:             int        = int16("0-7")


class OffsetFetchResponseTopic(Message):
    name:       str                                = string("0-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")


class OffsetFetchResponsePartitions(Message):
    partition_index:        int        = int32("8+")
    committed_offset:       int        = int64("8+")
    committed_leader_epoch: int        = int32("8+", default=-1)
    metadata:               str | None = string("8+", nullable="8+")
    error_code:             int        = int16("8+")


class OffsetFetchResponseTopics(Message):
    name:       str                                 = string("8-9", default="", ignorable=True)
    topic_id:   bytes                               = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")


class OffsetFetchResponseGroup(Message):
    group_id:   str                             = string("8+")
    topics:     list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int                             = int16("8+", default=0)


class OffsetFetchResponse(Response, answers=OffsetFetchRequest):
    throttle_time_ms: int                            = int32("3+", default=0, ignorable=True)
    topics:           list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7", default=[])
    error_code:       int                            = int16("2-7", default=0, ignorable=True)
    groups:           list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+", default=[])
