"""A member of a share group acknowledges records that it acquired (KIP-932).

  v1  the first stable version
  v2  renewed locks (KIP-1222)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int8, int16, int32, int64, string, struct, uuid


class AcknowledgementBatch(Message):
    first_offset:      int       = int64()
    last_offset:       int       = int64()
    acknowledge_types: list[int] = array(int8)


class AcknowledgePartition(Message):
    partition_index:         int                        = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class AcknowledgeTopic(Message):
    topic_id:   bytes                      = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


class ShareAcknowledgeRequest(Request, key=79, versions="1-2", flexible="0+"):
    group_id:            str | None             = string(nullable="0+", default=None)
    member_id:           str | None             = string(nullable="0+")
    share_session_epoch: int                    = int32()
    is_renew_ack:        bool                   = bool_("2+", default=False)
    topics:              list[AcknowledgeTopic] = array(AcknowledgeTopic)


class LeaderIdAndEpoch(Message):
    leader_id:    int = int32()
    leader_epoch: int = int32()


class PartitionData(Message):
    partition_index: int              = int32()
    error_code:      int              = int16()
    error_message:   str | None       = string(nullable="0+", default=None)
    current_leader:  LeaderIdAndEpoch = struct(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Message):
    topic_id:   bytes               = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Message):
    node_id: int        = int32()
    host:    str        = string()
    port:    int        = int32()
    rack:    str | None = string(nullable="0+", default=None)


class ShareAcknowledgeResponse(Response, answers=ShareAcknowledgeRequest):
    throttle_time_ms:            int                                 = int32()
    error_code:                  int                                 = int16()
    error_message:               str | None                          = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int                                 = int32("2+", default=0, ignorable=True)
    responses:                   list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints:              list[NodeEndpoint]                  = array(NodeEndpoint)
