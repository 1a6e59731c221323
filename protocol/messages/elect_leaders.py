"""Leaders are elected anew: the preferred ones (KIP-183), or any at all (KIP-460).

  v1  kind of election, error of the whole request (KIP-460)
  v2  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int8, int16, int32, string


class TopicPartitions(Message):
    topic:      str       = string()
    partitions: list[int] = array(int32)


class ElectLeadersRequest(Request, key=43, versions="0-2", flexible="2+"):
    election_type:    int                          = int8("1+", default=0)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms:       int                          = int32(default=60000)


class PartitionResult(Message):
    partition_id:  int        = int32()
    error_code:    int        = int16()
    error_message: str | None = string(nullable="0+")


class ReplicaElectionResult(Message):
    topic:            str                   = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Response, answers=ElectLeadersRequest):
    throttle_time_ms:         int                         = int32()
    error_code:               int                         = int16("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
