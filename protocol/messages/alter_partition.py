"""A leader asks the controller to change the ISR of its partitions (KIP-497).

  v1  leader recovery state (KIP-704)
  v2  topic ids (KIP-841)
  v3  broker epochs of the new ISR (KIP-903)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request, Response, array, int8, int16, int32, int64, string, uuid


class BrokerState(Message):
    broker_id:    int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class RequestPartitionData(Message):
    partition_index:       int               = int32()
    leader_epoch:          int               = int32()
    new_isr:               list[int]         = array(int32, "0-2", default=[])
    new_isr_with_epochs:   list[BrokerState] = array(BrokerState, "3+", default=[])
    leader_recovery_state: int               = int8("1+", default=0)
    partition_epoch:       int               = int32()


class RequestTopicData(Message):
    topic_name: str                        = string("0-1", default="", ignorable=True)
    topic_id:   bytes                      = uuid("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[RequestPartitionData] = array(RequestPartitionData)


class AlterPartitionRequest(Request, key=56, versions="0-3", flexible="0+"):
    broker_id:    int                    = int32()
    broker_epoch: int                    = int64(default=-1)
    topics:       list[RequestTopicData] = array(RequestTopicData)


class ResponsePartitionData(Message):
    partition_index:       int       = int32()
    error_code:            int       = int16()
    leader_id:             int       = int32()
    leader_epoch:          int       = int32()
    isr:                   list[int] = array(int32)
    leader_recovery_state: int       = int8("1+", default=0, ignorable=True)
    partition_epoch:       int       = int32()


class ResponseTopicData(Message):
    topic_name: str                         = string("0-1", default="", ignorable=True)
    topic_id:   bytes                       = uuid("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[ResponsePartitionData] = array(ResponsePartitionData)


class AlterPartitionResponse(Response, answers=AlterPartitionRequest):
    throttle_time_ms: int                     = int32()
    error_code:       int                     = int16()
    topics:           list[ResponseTopicData] = array(ResponseTopicData)
