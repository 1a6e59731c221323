"""A member of a share group acquires records and acknowledges others (KIP-932).

  v1  the first stable version
  v2  acquisition of no more records than asked for (KIP-1206), renewed locks (KIP-1222)
"""

from __future__ import annotations

from protocol.primitives import Buffer
from protocol.schema import (
    Message,
    Request,
    Response,
    array,
    bool_,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)


class AcknowledgementBatch(Message):
    first_offset:      int       = int64()
    last_offset:       int       = int64()
    acknowledge_types: list[int] = array(int8)


class FetchPartition(Message):
    partition_index:         int                        = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class FetchTopic(Message):
    topic_id:   bytes                = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Message):
    topic_id:   bytes     = uuid()
    partitions: list[int] = array(int32)


class ShareFetchRequest(Request, key=78, versions="1-2", flexible="0+"):
    group_id:              str | None           = string(nullable="0+", default=None)
    member_id:             str | None           = string(nullable="0+")
    share_session_epoch:   int                  = int32()
    max_wait_ms:           int                  = int32()
    min_bytes:             int                  = int32()
    max_bytes:             int                  = int32(default=2147483647)
    max_records:           int                  = int32()
    batch_size:            int                  = int32()
    share_acquire_mode:    int                  = int8("2+", default=0, ignorable=True)
    is_renew_ack:          bool                 = bool_("2+", default=False)
    topics:                list[FetchTopic]     = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


class LeaderIdAndEpoch(Message):
    leader_id:    int = int32()
    leader_epoch: int = int32()


class AcquiredRecords(Message):
    first_offset:   int = int64()
    last_offset:    int = int64()
    delivery_count: int = int16()


class PartitionData(Message):
    partition_index:           int                   = int32()
    error_code:                int                   = int16()
    error_message:             str | None            = string(nullable="0+", default=None)
    acknowledge_error_code:    int                   = int16()
    acknowledge_error_message: str | None            = string(nullable="0+", default=None)
    current_leader:            LeaderIdAndEpoch      = struct(LeaderIdAndEpoch)
    records:                   Buffer                = records()
    acquired_records:          list[AcquiredRecords] = array(AcquiredRecords)


class ShareFetchableTopicResponse(Message):
    topic_id:   bytes               = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Message):
    node_id: int        = int32()
    host:    str        = string()
    port:    int        = int32()
    rack:    str | None = string(nullable="0+", default=None)


class ShareFetchResponse(Response, answers=ShareFetchRequest):
    throttle_time_ms:            int                               = int32()
    error_code:                  int                               = int16()
    error_message:               str | None                        = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int                               = int32()
    responses:                   list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints:              list[NodeEndpoint]                = array(NodeEndpoint)
