"""A client learns the brokers, the controller, and of each topic the leaders and replicas.

  v1   null means all topics; rack, controller, internal topics
  v2   cluster id (KIP-78)
  v3   throttle time
  v4   automatic creation can be declined
  v5   offline replicas (KIP-112)
  v6   throttling happens after the answer (KIP-219)
  v7   leader epoch (KIP-320)
  v8   authorized operations (KIP-430)
  v9   flexible (KIP-482)
  v10  topic ids (KIP-516)
  v11  no more authorized operations of the cluster: DescribeCluster tells them (KIP-700)
  v12  topics by id (KIP-516)
  v13  error of the whole request (KIP-1102)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request, Response, array, bool_, int16, int32, string, uuid


class MetadataRequestTopic(Message):
    topic_id: bytes      = uuid("10+", default=ZERO_UUID, ignorable=True)
    name:     str | None = string(nullable="10+")


class MetadataRequest(Request, key=3, versions="0-13", flexible="9+"):
    topics:                                list[MetadataRequestTopic] | None = array(MetadataRequestTopic,
                                                                                     nullable="1+")
    allow_auto_topic_creation:             bool                              = bool_("4+", default=True)
    include_cluster_authorized_operations: bool                              = bool_("8-10", default=False)
    include_topic_authorized_operations:   bool                              = bool_("8+", default=False)


class MetadataResponseBroker(Message):
    node_id: int        = int32()
    host:    str        = string()
    port:    int        = int32()
    rack:    str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Message):
    error_code:       int       = int16()
    partition_index:  int       = int32()
    leader_id:        int       = int32()
    leader_epoch:     int       = int32("7+", default=-1, ignorable=True)
    replica_nodes:    list[int] = array(int32)
    isr_nodes:        list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "5+", default=[], ignorable=True)


class MetadataResponseTopic(Message):
    error_code:                  int                             = int16()
    name:                        str | None                      = string(nullable="12+")
    topic_id:                    bytes                           = uuid("10+", default=ZERO_UUID, ignorable=True)
    is_internal:                 bool                            = bool_("1+", default=False, ignorable=True)
    partitions:                  list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int                             = int32("8+", default=-2147483648)


class MetadataResponse(Response, answers=MetadataRequest):
    throttle_time_ms:              int                          = int32("3+", default=0, ignorable=True)
    brokers:                       list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id:                    str | None                   = string("2+", nullable="2+",
                                                                         default=None, ignorable=True)
    controller_id:                 int                          = int32("1+", default=-1, ignorable=True)
    topics:                        list[MetadataResponseTopic]  = array(MetadataResponseTopic)
    cluster_authorized_operations: int                          = int32("8-10", default=-2147483648)
    error_code:                    int                          = int16("13+", default=0, ignorable=True)
