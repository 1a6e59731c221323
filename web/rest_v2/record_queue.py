"""Records that a consumer has fetched and not handed out yet. Pure.

Rules: batches wait as they came, and are unpacked one at a time: compressed records may take a thousand times their size. A
batch that cannot be unpacked stays first, and says so each time, until its partition is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

from client.reading.positions import FetchedBatches, ReadRecord
from protocol.topic_partition import TopicPartition

MAX_UNPACKED_BYTES: Final = 128 << 20
"""Of one batch; more than the largest record that brokers are usually told to take."""


class RecordQueue:
    def __init__(self) -> None:
        self._batches: deque[FetchedBatches] = deque()
        self._records: deque[ReadRecord] = deque()  # of one batch

    def add(self, fetched: Iterable[FetchedBatches]) -> None:
        self._batches.extend(each for each in fetched if each.batches)

    def first(self) -> ReadRecord | None:
        """Return the next record, which stays. Raises InvalidBatch."""
        while not self._records and self._batches:
            fetched = self._batches[0]
            self._records.extend(fetched._replace(batches=fetched.batches[:1]).records(MAX_UNPACKED_BYTES))
            self._batches.popleft()
            if len(fetched.batches) > 1:
                self._batches.appendleft(fetched._replace(batches=fetched.batches[1:]))
        return self._records[0] if self._records else None

    def take(self) -> ReadRecord:
        """Take out what `first` has returned."""
        return self._records.popleft()

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the records of these partitions."""
        self._records = deque(each for each in self._records if each[:2] not in partitions)
        self._batches = deque(each for each in self._batches if each[:2] not in partitions)

    def offset(self, key: TopicPartition) -> int | None:
        """Return the offset of the next record of a partition; None where none waits."""
        for record in self._records:
            if record[:2] == key:
                return record.record.offset
        for fetched in self._batches:
            if fetched[:2] == key:
                return max(fetched.start, fetched.batches[0][1].base_offset)
        return None
