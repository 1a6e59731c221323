"""The controller tells a broker what it shall answer to Metadata: brokers and partition states.

  v1  endpoints by security protocol
  v2  rack (KIP-36)
  v3  listener names (KIP-103)
  v4  offline replicas (KIP-112)
  v5  broker epoch (KIP-380), partitions grouped by topic
  v6  flexible (KIP-482)
  v7  topic ids (KIP-516)
  v8  controller of KRaft (KIP-866)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request, Response, array, bool_, int8, int16, int32, int64, string, uuid


class UpdateMetadataPartitionState(Message):
    topic_name:       str       = string("0-4", default="", ignorable=True)
    partition_index:  int       = int32()
    controller_epoch: int       = int32()
    leader:           int       = int32()
    leader_epoch:     int       = int32()
    isr:              list[int] = array(int32)
    zk_version:       int       = int32()
    replicas:         list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "4+", default=[], ignorable=True)


class UpdateMetadataTopicState(Message):
    topic_name:       str                                = string("5+")
    topic_id:         bytes                              = uuid("7+", default=ZERO_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")


class UpdateMetadataEndpoint(Message):
    port:              int = int32("1+")
    host:              str = string("1+")
    listener:          str = string("3+", default="", ignorable=True)
    security_protocol: int = int16("1+")


class UpdateMetadataBroker(Message):
    id:        int                          = int32()
    v0_host:   str                          = string("0", default="", ignorable=True)
    v0_port:   int                          = int32("0", default=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", default=[], ignorable=True)
    rack:      str | None                   = string("2+", nullable="0+", default="", ignorable=True)


class UpdateMetadataRequest(Request, key=6, versions="0-8", flexible="6+"):
    controller_id:              int                                = int32()
    is_k_raft_controller:       bool                               = bool_("8+", default=False)
    type:                       int                                = int8("8+", tag=0, default=0)
    controller_epoch:           int                                = int32()
    broker_epoch:               int                                = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "0-4",
                                                                           default=[])
    topic_states:               list[UpdateMetadataTopicState]     = array(UpdateMetadataTopicState, "5+", default=[])
    live_brokers:               list[UpdateMetadataBroker]         = array(UpdateMetadataBroker)


class UpdateMetadataResponse(Response, answers=UpdateMetadataRequest):
    error_code: int = int16()
