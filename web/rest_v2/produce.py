"""Produce in REST v2: records to a topic or to one of its partitions, in binary or JSON.

Rules: the request as a whole is checked before the first record is sent. What becomes of each record is told for each, and the
status is 200 as long as the topic is there. Records wait for memory of the user's producer.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import Request

from client.errors import LoginRefused
from client.event_loop.producer import Delivered
from protocol.errors import ErrorCode, KafkaError
from runtime.slices import Slices
from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem
from web.requests import WRITING, Cluster, Parts
from web.rest_v2.embedded import to_bytes
from web.rest_v2.errors import number_of_record, partition_not_found
from web.rest_v2.forms import EmbeddedFormat, V2Response, format_of_content, v2_router
from web.rest_v2.metadata import described
from web.rest_v2.models import PartitionOffset, ProduceRequest, ProduceResponse

router = v2_router(dependencies=[WRITING])
_WRITTEN: Final = (EmbeddedFormat.BINARY, EmbeddedFormat.JSON)
_Outcome = asyncio.Future[Delivered] | KafkaError
_Pair = tuple[bytes | None, bytes | None]


@router.post("/topics/{topic}", response_model=ProduceResponse)
async def to_topic(cluster: Cluster, parts: Parts, request: Request, topic: str, body: ProduceRequest) -> Any:
    return await _produce(cluster, Slices(parts.surroundings.clock), request, topic, body, None)


@router.post("/topics/{topic}/partitions/{partition}", response_model=ProduceResponse)
async def to_partition(
    cluster: Cluster, parts: Parts, request: Request, topic: str, partition: int, body: ProduceRequest
) -> Any:
    return await _produce(cluster, Slices(parts.surroundings.clock), request, topic, body, partition)


async def _produce(
    cluster: UserCluster, slices: Slices, request: Request, topic: str, body: ProduceRequest, partition: int | None
) -> V2Response:
    """Raises HttpProblem, KafkaError, OSError."""
    form = format_of_content(request)
    if form not in _WRITTEN:
        raise HttpProblem(415, f"records are written as binary or JSON: {form.value} is only read")
    pairs: list[_Pair] = []
    async for index, record in slices.over(enumerate(body.records)):
        key = to_bytes(f"records[{index}].key", record.key, form)
        pairs.append((key, to_bytes(f"records[{index}].value", record.value, form)))
    count = len((await described(cluster, topic)).partitions)
    if partition is not None and not 0 <= partition < count:
        raise partition_not_found()
    partitions = [partition if row.partition is None else row.partition for row in body.records]
    outcomes = [await _send(cluster, topic, *pair, where, count) for pair, where in zip(pairs, partitions, strict=True)]
    rows = [await _row(each) for each in outcomes]
    return V2Response(ProduceResponse(offsets=rows).model_dump())


async def _send(
    cluster: UserCluster, topic: str, key: bytes | None, value: bytes | None, partition: int | None, count: int
) -> _Outcome:
    """Raises OSError, when no broker knows the topic any more in time."""
    if partition is not None and partition >= count:
        return KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"Invalid partition given with record: {partition} is not in [0...{count})"
        )
    producer = await cluster.producer()
    try:
        async with asyncio.timeout(cluster.settings.api_timeout_ms / 1000):
            return await producer.send(topic, value, key, partition=partition)
    except KafkaError as error:
        return error


async def _row(outcome: _Outcome) -> PartitionOffset:
    error: KafkaError | OSError | LoginRefused
    if isinstance(outcome, KafkaError):
        error = outcome
    else:
        try:
            delivered = await outcome
        except (KafkaError, OSError, LoginRefused) as failure:
            error = failure
        else:
            return PartitionOffset(partition=delivered.partition, offset=delivered.offset)
    return PartitionOffset(error_code=number_of_record(error), error=str(error))
