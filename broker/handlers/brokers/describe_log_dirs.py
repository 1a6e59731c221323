"""DescribeLogDirs (key 35): the logs in each log directory, and its free space.

Behaviour: no topics (null) means all; the row of an offline directory has only KAFKA_STORAGE_ERROR.
Rights: on the cluster; versions below 3 have no error for that, and get no directories.
Version 4 adds total and usable bytes, version 5 whether the directory gets no new logs (KIP-1066), which none is told here.
Source: KIP-113, KIP-827; Kafka ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from runtime.slices import Slices
from security.access import Operation, on_cluster
from storage.description import DirectoryDescription


@handles(DescribeLogDirsRequest, on_cluster(Operation.DESCRIBE), errors=ErrorForm(is_always_sent=True))
async def describe_log_dirs(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    services = context.services
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    described = await services.logs.describe(wanted)
    async with services.serial_queue.begin(sum(len(directory.logs) for directory in described)) as slices:
        results = [await _result(directory, slices) for directory in described]
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, results=results)


async def _result(directory: DirectoryDescription, slices: Slices) -> DescribeLogDirsResult:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    async for log in slices.over(directory.logs):
        topics.setdefault(log.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=log.partition,
                partition_size=log.size_bytes,
                offset_lag=log.offset_lag,
                is_future_key=log.is_future,
            )
        )
    return DescribeLogDirsResult(
        error_code=directory.error,
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
    )
