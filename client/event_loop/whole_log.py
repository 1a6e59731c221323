"""Reads partitions from an offset to the end that they have now: how a service learns its state from logs.

Rules: committed records alone. The end is the high watermark when reading begins, behind open transactions as well: they are
waited for, so that what was written before cannot come later. Partitions are read side by side, each in its order. What has
nothing to read is not fetched. Bounded: one response of each leader at a time.
Errors: KafkaError for what does not pass; ClusterUnavailable when no broker tells the ends.
Source: KIP-447 (an offset is read when no transaction is open that may change it).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from client.admin.offsets import offsets
from client.committing import OffsetAndMetadata
from client.event_loop.reader import PartitionReader
from client.reading.positions import MAX_DECOMPRESSED_BYTES, Positions
from protocol.errors import KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from client.event_loop.cluster_client import AsyncClusterClient
    from client.reading.positions import ReadRecord
    from protocol.topic_partition import TopicPartition
    from runtime.randomness import Randomness

POLL_MS = 1_000


async def read_whole(
    cluster: AsyncClusterClient,
    randomness: Randomness,
    starts: Mapping[TopicPartition, int | None],
    take: Callable[[list[ReadRecord]], None],
) -> dict[TopicPartition, int]:
    """Give the records of partitions to `take`, those of one partition in each call, from their starts on, None for the
    beginning; return the offsets behind them. Where records behind a start were deleted, reading goes on behind them. Raises
    KafkaError, InvalidBatch, ClusterUnavailable."""
    ends, firsts = await _offsets(cluster, starts, LATEST), await _offsets(cluster, starts, EARLIEST)
    reached = {key: max(firsts[key], start or 0) for key, start in starts.items()}
    left = {key for key in starts if reached[key] < ends[key]}
    reader = PartitionReader(cluster, randomness, Positions())
    try:
        reader.assign({key: OffsetAndMetadata(reached[key]) for key in starts if key in left})
        while left:
            polled = await reader.poll_batches(POLL_MS)
            is_quiet = not any(each.buffer for each in polled)  # otherwise others may have taken all the bytes
            for fetched in polled:
                key = fetched.topic, fetched.partition
                if records := fetched.records(MAX_DECOMPRESSED_BYTES):
                    take(records)
                    await asyncio.sleep(0)  # what is taken may be much work: heartbeats go on
                reached[key] = fetched.next_offset
                # Compaction may have removed the last records: then there is nothing up to the end.
                if fetched.next_offset >= ends[key] or (is_quiet and fetched.end_offset >= ends[key]):
                    left.discard(key)
                    reader.drop([key])
    finally:
        await reader.close()
    return reached


async def _offsets(
    cluster: AsyncClusterClient, partitions: Iterable[TopicPartition], time: int
) -> dict[TopicPartition, int]:
    found = await cluster.run(offsets(dict.fromkeys(partitions, time)))
    for each in found.values():
        if isinstance(each, KafkaError):
            raise each
    return {key: each for key, each in found.items() if not isinstance(each, KafkaError)}
