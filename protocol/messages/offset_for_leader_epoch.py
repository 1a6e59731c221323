"""Where a leader epoch ends in the leader's log: followers and consumers find divergence by it (KIP-101).

  v1  the epoch found, in the answer (KIP-279)
  v2  current leader epoch, throttle time (KIP-320)
  v3  replica id, which consumers leave at -2
  v4  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, int64, string


class OffsetForLeaderPartition(Message):
    partition:            int = int32()
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch:         int = int32()


class OffsetForLeaderTopic(Message):
    topic:      str                            = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Request, key=23, versions="0-4", flexible="4+"):
    replica_id: int                        = int32("3+", default=-2, ignorable=True)
    topics:     list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class EpochEndOffset(Message):
    error_code:   int = int16()
    partition:    int = int32()
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset:   int = int64(default=-1)


class OffsetForLeaderTopicResult(Message):
    topic:      str                  = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochResponse(Response, answers=OffsetForLeaderEpochRequest):
    throttle_time_ms: int                              = int32("2+", default=0, ignorable=True)
    topics:           list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
