"""A producer commits a group's offsets within its transaction (KIP-98).

  v1  throttling happens after the answer (KIP-219)
  v2  leader epoch (KIP-320)
  v3  flexible; generation, member and instance (KIP-447)
  v4  TRANSACTION_ABORTABLE (KIP-890)
  v5  the request adds the group to the transaction (KIP-890)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, int64, string


class TxnOffsetCommitRequestPartition(Message):
    partition_index:        int        = int32()
    committed_offset:       int        = int64()
    committed_leader_epoch: int        = int32("2+", default=-1, ignorable=True)
    committed_metadata:     str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Message):
    name:       str                                   = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Request, key=28, versions="0-5", flexible="3+"):
    transactional_id:  str                               = string()
    group_id:          str                               = string()
    producer_id:       int                               = int64()
    producer_epoch:    int                               = int16()
    generation_id:     int                               = int32("3+", default=-1)
    member_id:         str                               = string("3+", default="")
    group_instance_id: str | None                        = string("3+", nullable="3+", default=None)
    topics:            list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = int32()
    error_code:      int = int16()


class TxnOffsetCommitResponseTopic(Message):
    name:       str                                    = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Response, answers=TxnOffsetCommitRequest):
    throttle_time_ms: int                                = int32()
    topics:           list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
