"""AlterReplicaLogDirs (key 34): replicas of this broker move to other log directories of it.

Behaviour: responds when the copying has started; DescribeLogDirs shows its progress. A partition that is named for two
directories moves to the last one. A move to the replica's current directory ends a move. For a replica that this broker does
not have, the directory is kept for its creation, and the error is REPLICA_NOT_AVAILABLE, or UNKNOWN_TOPIC_OR_PARTITION if the
partition does not exist.
Source: KIP-113; Kafka KafkaApis.handleAlterReplicaLogDirsRequest, ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.observability.audited_request import audit
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from protocol.topic_partition import TopicPartition
from security.access import Operation, on_cluster


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Return the directory of each partition: the last one that is given."""
    return {
        (topic.name, partition): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }


def _response(errors: Mapping[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, partition), error in errors.items():
        row = AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=error)
        results.setdefault(topic, []).append(row)
    return AlterReplicaLogDirsResponse(
        throttle_time_ms=0,
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=rows) for name, rows in results.items()],
    )


def _refused(
    request: AlterReplicaLogDirsRequest, _version: int, code: ErrorCode, _message: str | None
) -> AlterReplicaLogDirsResponse:
    return _response(dict.fromkeys(_wanted(request), code))


@handles(
    AlterReplicaLogDirsRequest,
    on_cluster(Operation.ALTER),
    errors=_refused,
    audit=audit(Operation.ALTER, "PARTITION", "dirs.topics.partitions", "results.partitions"),
)
async def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    wanted = _wanted(request)
    async with context.services.serial_queue.begin(len(wanted)) as slices:
        return _response({each: await _move(*each, path, context) async for each, path in slices.over(wanted.items())})


async def _move(topic: str, index: int, path: str, context: RequestContext) -> ErrorCode:
    services = context.services
    try:
        partition = services.partitions.find(topic, index)
        is_offline = services.partitions.is_offline(topic, index)
        await services.log_moves.move(topic, index, partition, path, is_offline=is_offline)
    except KafkaError as error:
        if error.code is ErrorCode.REPLICA_NOT_AVAILABLE and not _exists(topic, index, context):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error.code
    return ErrorCode.NONE


def _exists(topic: str, index: int, context: RequestContext) -> bool:
    known = context.services.metadata.image.topics.get(topic)
    return known is not None and index in known.partitions
