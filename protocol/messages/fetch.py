"""Consumers and followers read record batches, waiting until enough bytes are there or the time is over.

  v1   throttle time
  v2   timestamps in messages (KIP-32)
  v3   limit over all partitions (KIP-74)
  v4   isolation level, last stable offset, aborted transactions (KIP-98)
  v5   log start offset (KIP-107)
  v6   KAFKA_STORAGE_ERROR (KIP-112)
  v7   sessions (KIP-227)
  v8   throttling happens after the answer (KIP-219)
  v9   current leader epoch (KIP-320)
  v10  zstd (KIP-110)
  v11  rack, preferred read replica (KIP-392)
  v12  flexible; last fetched epoch, diverging epoch (KIP-595)
  v13  topic ids instead of names (KIP-516)
  v14  OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
  v15  replica state with broker epoch (KIP-903)
  v16  endpoints of current leaders (KIP-951)
  v17  directory id (KIP-853)
  v18  high watermark of a follower (KIP-1166)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID, Buffer
from protocol.schema import Message, Request, Response, array, int8, int16, int32, int64, records, string, struct, uuid


class ReplicaState(Message):
    replica_id:    int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Message):
    partition:            int   = int32()
    current_leader_epoch: int   = int32("9+", default=-1, ignorable=True)
    fetch_offset:         int   = int64()
    last_fetched_epoch:   int   = int32("12+", default=-1)
    log_start_offset:     int   = int64("5+", default=-1, ignorable=True)
    partition_max_bytes:  int   = int32()
    replica_directory_id: bytes = uuid("17+", tag=0, default=ZERO_UUID, ignorable=True)
    high_watermark:       int   = int64("18+", tag=1, default=0x7FFFFFFFFFFFFFFF, ignorable=True)


class FetchTopic(Message):
    topic:      str                  = string("0-12", default="", ignorable=True)
    topic_id:   bytes                = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Message):
    topic:      str       = string("7-12", default="", ignorable=True)
    topic_id:   bytes     = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[int] = array(int32, "7+")


class FetchRequest(Request, key=1, versions="0-18", flexible="12+"):
    cluster_id:            str | None           = string("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id:            int                  = int32("0-14", default=-1)
    replica_state:         ReplicaState         = struct(ReplicaState, "15+", tag=1, default=ReplicaState())
    max_wait_ms:           int                  = int32()
    min_bytes:             int                  = int32()
    max_bytes:             int                  = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level:       int                  = int8("4+", default=0, ignorable=True)
    session_id:            int                  = int32("7+", default=0, ignorable=True)
    session_epoch:         int                  = int32("7+", default=-1, ignorable=True)
    topics:                list[FetchTopic]     = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+", default=[])
    rack_id:               str                  = string("11+", default="", ignorable=True)


class EpochEndOffset(Message):
    epoch:      int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Message):
    leader_id:    int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Message):
    end_offset: int = int64(default=-1)
    epoch:      int = int32(default=-1)


class AbortedTransaction(Message):
    producer_id:  int = int64("4+")
    first_offset: int = int64("4+")


class PartitionData(Message):
    partition_index:        int                             = int32()
    error_code:             int                             = int16()
    high_watermark:         int                             = int64()
    last_stable_offset:     int                             = int64("4+", default=-1, ignorable=True)
    log_start_offset:       int                             = int64("5+", default=-1, ignorable=True)
    diverging_epoch:        EpochEndOffset                  = struct(EpochEndOffset, "12+", tag=0,
                                                                     default=EpochEndOffset())
    current_leader:         LeaderIdAndEpoch                = struct(LeaderIdAndEpoch, "12+", tag=1,
                                                                     default=LeaderIdAndEpoch())
    snapshot_id:            SnapshotId                      = struct(SnapshotId, "12+", tag=2, default=SnapshotId())
    aborted_transactions:   list[AbortedTransaction] | None = array(AbortedTransaction, "4+", nullable="4+",
                                                                    default=[], ignorable=True)
    preferred_read_replica: int                             = int32("11+", default=-1)
    records:                Buffer | None                   = records(nullable="0+")


class FetchableTopicResponse(Message):
    topic:      str                 = string("0-12", default="", ignorable=True)
    topic_id:   bytes               = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Message):
    node_id: int        = int32("16+")
    host:    str        = string("16+")
    port:    int        = int32("16+")
    rack:    str | None = string("16+", nullable="16+", default=None)


class FetchResponse(Response, answers=FetchRequest):
    throttle_time_ms: int                          = int32("1+", default=0, ignorable=True)
    error_code:       int                          = int16("7+", default=0, ignorable=True)
    session_id:       int                          = int32("7+", default=0)
    responses:        list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints:   list[NodeEndpoint]           = array(NodeEndpoint, "16+", tag=0, default=[])
