"""The results of a request to the share coordinator, a row for each share partition.

Rules: a request without a group, without topics, or with a topic without partitions gets a response without rows, as in Apache
Kafka. The share partitions of a request are begun one after the other and wait for their records together.
Source: Kafka ShareCoordinatorService.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from broker.network.request_context import RequestContext
from coordinator.share.outcomes import ShareOutcome
from coordinator.share.state import ShareKey
from coordinator.share_coordinator import Done
from protocol.errors import ErrorCode
from security.access import Operation, on_cluster

STATE_ACCESS = on_cluster(Operation.CLUSTER_ACTION, denial=ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message)
"""Who may ask the share coordinator: brokers."""


class StateRequest(Protocol):
    """One of the five requests."""

    @property
    def group_id(self) -> str: ...

    @property
    def topics(self) -> Sequence[Any]: ...


R = TypeVar("R")


async def state_results(
    request: StateRequest,
    context: RequestContext,
    begin: Callable[[ShareKey, Any, Done], None],
    topic_result: Callable[..., R],
    row_result: Callable[[int, ShareOutcome], Any],
) -> list[R]:
    """Return the results. `begin` begins the operation of a row; `row_result` makes the row of a partition."""
    topics = request.topics
    if not request.group_id or not all(topic.partitions for topic in topics):
        return []
    rows = [
        (ShareKey(request.group_id, topic.topic_id, row.partition), row) for topic in topics for row in topic.partitions
    ]
    outcomes = iter(await _outcomes(rows, context, begin) if rows else ())
    return [
        topic_result(
            topic_id=topic.topic_id, partitions=[row_result(row.partition, next(outcomes)) for row in topic.partitions]
        )
        for topic in topics
    ]


async def _outcomes(
    rows: Sequence[tuple[ShareKey, Any]], context: RequestContext, begin: Callable[[ShareKey, Any, Done], None]
) -> list[ShareOutcome]:
    outcomes: dict[int, ShareOutcome] = {}
    complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def put(index: int, outcome: ShareOutcome) -> None:
        outcomes[index] = outcome
        if len(outcomes) == len(rows) and not complete.done():  # the connection may be closed meanwhile
            complete.set_result(None)

    async with context.services.serial_queue.begin(len(rows)) as slices:
        async for index, (key, row) in slices.over(enumerate(rows)):
            begin(key, row, partial(put, index))
    await complete
    return [outcomes[index] for index in range(len(rows))]
