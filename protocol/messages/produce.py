"""A producer appends record batches to partitions. With acks=0 there is no answer (KIP-98 for transactions).

  v1   throttle time
  v2   log append time (KIP-32)
  v3   transactional id, record batches v2 (KIP-98)
  v4   KAFKA_STORAGE_ERROR (KIP-112)
  v5   log start offset (KIP-107)
  v6   throttling happens after the answer (KIP-219)
  v7   zstd (KIP-110)
  v8   errors of single records (KIP-467)
  v9   flexible (KIP-482)
  v10  current leader in the answer (KIP-951)
  v11  TRANSACTION_ABORTABLE (KIP-890)
  v12  a transactional request adds its partitions to the transaction (KIP-890)
  v13  topic ids instead of names (KIP-516)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID, Buffer
from protocol.schema import Message, Request, Response, array, int16, int32, int64, records, string, struct, uuid


class PartitionProduceData(Message):
    index:   int           = int32()
    records: Buffer | None = records(nullable="0+")


class TopicProduceData(Message):
    name:           str                        = string("0-12", default="", ignorable=True)
    topic_id:       bytes                      = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Request, key=0, versions="0-13", flexible="9+"):
    transactional_id: str | None             = string("3+", nullable="3+", default=None)
    acks:             int                    = int16()
    timeout_ms:       int                    = int32()
    topic_data:       list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Message):
    batch_index:               int        = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Message):
    leader_id:    int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Message):
    index:              int                             = int32()
    error_code:         int                             = int16()
    base_offset:        int                             = int64()
    log_append_time_ms: int                             = int64("2+", default=-1, ignorable=True)
    log_start_offset:   int                             = int64("5+", default=-1, ignorable=True)
    record_errors:      list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+",
                                                                default=[], ignorable=True)
    error_message:      str | None                      = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader:     LeaderIdAndEpoch                = struct(LeaderIdAndEpoch, "10+", tag=0,
                                                                 default=LeaderIdAndEpoch())


class TopicProduceResponse(Message):
    name:                str                            = string("0-12", default="", ignorable=True)
    topic_id:            bytes                          = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Message):
    node_id: int        = int32("10+")
    host:    str        = string("10+")
    port:    int        = int32("10+")
    rack:    str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Response, answers=ProduceRequest):
    responses:        list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int                        = int32("1+", default=0, ignorable=True)
    node_endpoints:   list[NodeEndpoint]         = array(NodeEndpoint, "10+", tag=0, default=[])
