"""Reads ranges of partitions on an event loop, to their ends and no further.

Rules: committed records only. The ends are fixed when the scan begins: what is written meanwhile does not lengthen it. What was
deleted is passed over. Bounded: one fetch of each leader is in memory, and its records while they are looked at.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from client.committing import OffsetAndMetadata
from client.event_loop.reader import PartitionReader
from client.reading.positions import MAX_DECOMPRESSED_BYTES, Positions, ReadRecord

if TYPE_CHECKING:
    from client.event_loop.cluster_client import AsyncClusterClient
    from protocol.topic_partition import TopicPartition
    from runtime.randomness import Randomness

POLL_MS: Final = 1_000


@dataclass
class RangeScan:
    """The partitions of `ends` from their `starts` on."""

    cluster: AsyncClusterClient
    randomness: Randomness
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    moved: Callable[[], None] = lambda: None
    """Called when an answer has come."""
    _left: dict[TopicPartition, int] = field(init=False)

    def __post_init__(self) -> None:
        self._left = {key: end for key, end in self.ends.items() if self.starts[key] < end}

    def left(self) -> list[int]:
        """Return the partitions that are not read to their ends."""
        return [partition for _, partition in self._left]

    async def batches(self) -> AsyncGenerator[list[ReadRecord]]:
        """Return the records as they come, in order in each partition. Raises KafkaError, InvalidBatch."""
        reader = PartitionReader(self.cluster, self.randomness, Positions())
        try:
            reader.assign({key: OffsetAndMetadata(self.starts[key]) for key in self._left})
            while self._left:
                polled = await reader.poll_batches(POLL_MS)
                is_quiet = not any(each.buffer for each in polled)
                for fetched in polled:
                    self.moved()
                    key = (fetched.topic, fetched.partition)
                    end = self._left.get(key)
                    if end is None:
                        continue
                    yield [each for each in fetched.records(MAX_DECOMPRESSED_BYTES) if each.record.offset < end]
                    # Compaction may have removed the last records: then there is nothing up to the end.
                    if fetched.next_offset >= end or (is_quiet and fetched.end_offset >= end):
                        del self._left[key]
                        reader.drop([key])
        finally:
            await reader.close()
