"""Replicas of this broker move to other log directories (KIP-113).

  v1  throttling happens after the answer (KIP-219)
  v2  flexible (KIP-482)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, int16, int32, string


class AlterReplicaLogDirTopic(Message):
    name:       str       = string()
    partitions: list[int] = array(int32)


class AlterReplicaLogDir(Message):
    path:   str                           = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Request, key=34, versions="0-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = int32()
    error_code:      int = int16()


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str                                     = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(Response, answers=AlterReplicaLogDirsRequest):
    throttle_time_ms: int                                 = int32()
    results:          list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
