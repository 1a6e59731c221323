"""The controller tells a broker which replicas it holds, who leads them and who is in sync.

  v1  is_new
  v2  broker epoch (KIP-380), partitions grouped by topic
  v3  adding and removing replicas (KIP-455)
  v4  flexible (KIP-482)
  v5  topic ids, full or incremental (KIP-516)
  v6  leader recovery state (KIP-704)
  v7  controller of KRaft (KIP-866)
"""

from __future__ import annotations

from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request, Response, array, bool_, int8, int16, int32, int64, string, uuid


class LeaderAndIsrPartitionState(Message):
    topic_name:            str       = string("0-1", default="", ignorable=True)
    partition_index:       int       = int32()
    controller_epoch:      int       = int32()
    leader:                int       = int32()
    leader_epoch:          int       = int32()
    isr:                   list[int] = array(int32)
    partition_epoch:       int       = int32()
    replicas:              list[int] = array(int32)
    adding_replicas:       list[int] = array(int32, "3+", default=[], ignorable=True)
    removing_replicas:     list[int] = array(int32, "3+", default=[], ignorable=True)
    is_new:                bool      = bool_("1+", default=False, ignorable=True)
    leader_recovery_state: int       = int8("6+", default=0)


class LeaderAndIsrTopicState(Message):
    topic_name:       str                              = string("2+")
    topic_id:         bytes                            = uuid("5+", default=ZERO_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


class LeaderAndIsrLiveLeader(Message):
    broker_id: int = int32()
    host_name: str = string()
    port:      int = int32()


class LeaderAndIsrRequest(Request, key=4, versions="0-7", flexible="4+"):
    controller_id:              int                              = int32()
    is_k_raft_controller:       bool                             = bool_("7+", default=False)
    controller_epoch:           int                              = int32()
    broker_epoch:               int                              = int64("2+", default=-1, ignorable=True)
    type:                       int                              = int8("5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "0-1", default=[])
    topic_states:               list[LeaderAndIsrTopicState]     = array(LeaderAndIsrTopicState, "2+", default=[])
    live_leaders:               list[LeaderAndIsrLiveLeader]     = array(LeaderAndIsrLiveLeader)


class LeaderAndIsrPartitionError(Message):
    topic_name:      str = string("0-4", default="", ignorable=True)
    partition_index: int = int32()
    error_code:      int = int16()


class LeaderAndIsrTopicError(Message):
    topic_id:         bytes                            = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


class LeaderAndIsrResponse(Response, answers=LeaderAndIsrRequest):
    error_code:       int                              = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4", default=[])
    topics:           list[LeaderAndIsrTopicError]     = array(LeaderAndIsrTopicError, "5+", default=[])
