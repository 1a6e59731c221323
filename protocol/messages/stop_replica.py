"""The controller tells a broker to stop replicas, and perhaps to delete them.

  v1  broker epoch (KIP-380), partitions grouped by topic
  v2  flexible (KIP-482)
  v3  leader epoch and deletion of each partition (KIP-570)
  v4  controller of KRaft (KIP-866)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int16, int32, int64, string


class StopReplicaPartitionV0(Message):
    topic_name:      str = string("0")
    partition_index: int = int32("0")


class StopReplicaTopicV1(Message):
    name:              str       = string("1-2")
    partition_indexes: list[int] = array(int32, "1-2")


class StopReplicaPartitionState(Message):
    partition_index:  int  = int32("3+")
    leader_epoch:     int  = int32("3+", default=-1)
    delete_partition: bool = bool_("3+")


class StopReplicaTopicState(Message):
    topic_name:       str                             = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")


class StopReplicaRequest(Request, key=5, versions="0-4", flexible="2+"):
    controller_id:        int                          = int32()
    is_k_raft_controller: bool                         = bool_("4+", default=False)
    controller_epoch:     int                          = int32()
    broker_epoch:         int                          = int64("1+", default=-1, ignorable=True)
    delete_partitions:    bool                         = bool_("0-2", default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0", default=[])
    topics:               list[StopReplicaTopicV1]     = array(StopReplicaTopicV1, "1-2", default=[])
    topic_states:         list[StopReplicaTopicState]  = array(StopReplicaTopicState, "3+", default=[])


class StopReplicaPartitionError(Message):
    topic_name:      str = string()
    partition_index: int = int32()
    error_code:      int = int16()


class StopReplicaResponse(Response, answers=StopReplicaRequest):
    error_code:       int                             = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
