"""A consumer stores the offsets that it has reached, for its group.

  v0   offsets kept in ZooKeeper
  v1   generation and member; timestamp of each partition
  v2   retention time instead of timestamps
  v3   throttle time
  v4   throttling happens after the answer (KIP-219)
  v5   no retention time (KIP-211)
  v6   leader epoch (KIP-320)
  v7   group instance id (KIP-345)
  v8   flexible (KIP-482)
  v9   errors of KIP-848
  v10  topic ids instead of names (KIP-848)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request, Response, array, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Message):
    partition_index:        int        = int32()
    committed_offset:       int        = int64()
    committed_leader_epoch: int        = int32("6+", default=-1, ignorable=True)
    commit_timestamp:       int        = int64("1", default=-1)
    committed_metadata:     str | None = string(nullable="0+")


class OffsetCommitRequestTopic(Message):
    name:       str                                = string("0-9", default="", ignorable=True)
    topic_id:   bytes                              = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


class OffsetCommitRequest(Request, key=8, versions="0-10", flexible="8+"):
    group_id:                      str                            = string()
    generation_id_or_member_epoch: int                            = int32("1+", default=-1, ignorable=True)
    member_id:                     str                            = string("1+", default="", ignorable=True)
    group_instance_id:             str | None                     = string("7+", nullable="7+", default=None)
    retention_time_ms:             int                            = int64("2-4", default=-1, ignorable=True)
    topics:                        list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Message):
    partition_index: int = int32()
    error_code:      int = int16()


class OffsetCommitResponseTopic(Message):
    name:       str                                 = string("0-9", default="", ignorable=True)
    topic_id:   bytes                               = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


class OffsetCommitResponse(Response, answers=OffsetCommitRequest):
    throttle_time_ms: int                             = int32("3+", default=0, ignorable=True)
    topics:           list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
