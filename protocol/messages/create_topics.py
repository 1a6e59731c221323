"""Topics are created, with partitions placed by the broker or assigned by hand.

  v1  validate_only, error message
  v2  throttle time
  v3  throttling happens after the answer (KIP-219)
  v4  -1 takes the broker's defaults (KIP-464)
  v5  flexible; partitions, replication and settings in the answer (KIP-525)
  v6  THROTTLING_QUOTA_EXCEEDED (KIP-599)
  v7  topic id (KIP-516)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID, Encoded
from protocol.schema import Message, Request, Response, array, bool_, int8, int16, int32, string, uuid


class CreatableReplicaAssignment(Message):
    partition_index: int       = int32()
    broker_ids:      list[int] = array(int32)


class CreatableTopicConfig(Message):
    name:  str        = string()
    value: str | None = string(nullable="0+")


class CreatableTopic(Message):
    name:               str                              = string()
    num_partitions:     int                              = int32()
    replication_factor: int                              = int16()
    assignments:        list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs:            list[CreatableTopicConfig]       = array(CreatableTopicConfig)


class CreateTopicsRequest(Request, key=19, versions="0-7", flexible="5+"):
    topics:        list[CreatableTopic] = array(CreatableTopic)
    timeout_ms:    int                  = int32(default=60000)
    validate_only: bool                 = bool_("1+", default=False)


class CreatableTopicConfigs(Message):
    name:          str        = string("5+")
    value:         str | None = string("5+", nullable="5+")
    read_only:     bool       = bool_("5+")
    config_source: int        = int8("5+", default=-1)
    is_sensitive:  bool       = bool_("5+")


class CreatableTopicResult(Message):
    name:                    str        = string()
    topic_id:                bytes      = uuid("7+", default=ZERO_UUID, ignorable=True)
    error_code:              int        = int16()
    error_message:           str | None = string("1+", nullable="0+", default="", ignorable=True)
    topic_config_error_code: int        = int16("5+", tag=0, default=0, ignorable=True)
    num_partitions:          int        = int32("5+", default=-1, ignorable=True)
    replication_factor:      int        = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | Encoded | None = array(CreatableTopicConfigs, "5+", nullable="5+", default=[],
                                                                  ignorable=True, may_be_encoded=True)


class CreateTopicsResponse(Response, answers=CreateTopicsRequest):
    throttle_time_ms: int                        = int32("2+", default=0, ignorable=True)
    topics:           list[CreatableTopicResult] = array(CreatableTopicResult)
