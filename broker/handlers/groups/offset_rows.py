"""The partitions whose offsets a request commits or deletes: those that the coordinator gets, and the rows of the response.

Rules: the coordinator gets what exists and what the client may read. Of a partition that is named more than once, the last row
counts, and the response has one, in the order of the request.
Source: Kafka KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest, handleOffsetDeleteRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from broker.handlers.partition_lookup import missing_error

if TYPE_CHECKING:
    from broker.network.request_context import Rights
    from metadata.image import ClusterImage
    from runtime.slices import Slices

Topic = TypeVar("Topic")


async def rows_for_coordinator(
    topics: Sequence[Any], may_read: Rights, image: ClusterImage, slices: Slices
) -> list[Any]:
    """Return topics of the request with the rows that count."""
    known: dict[str, dict[int, Any]] = {}
    async for topic in slices.over(topics):
        if not may_read(topic.name):
            continue
        async for row in slices.over(topic.partitions):
            if image.partition(topic.name, row.partition_index) is not None:
                known.setdefault(topic.name, {})[row.partition_index] = row
    return [type(topics[0])(name=name, partitions=list(rows.values())) for name, rows in known.items()]


async def rows_of_response(
    topics: Sequence[Any],
    answered: Sequence[Topic],
    may_read: Rights,
    make_topic: Callable[..., Topic],
    make_row: Callable[..., Any],
    slices: Slices,
) -> list[Topic]:
    """Return a row for each of the request's; `answered` are those of the coordinator. What it has no row for does not exist,
    or is hidden."""
    results: Sequence[Any] = answered
    errors = {(topic.name, row.partition_index): row.error_code for topic in results for row in topic.partitions}
    rows: dict[str, dict[int, Any]] = {}
    async for topic in slices.over(topics):
        missing = missing_error(may_read(topic.name))
        async for asked in slices.over(topic.partitions):
            index = asked.partition_index
            error = errors.get((topic.name, index), missing)
            rows.setdefault(topic.name, {})[index] = make_row(partition_index=index, error_code=error)
    return [make_topic(name=name, partitions=list(of_topic.values())) for name, of_topic in rows.items()]
