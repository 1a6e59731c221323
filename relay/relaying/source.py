"""A source partition of this process: its rule, what waits of it, and what was read of it but not taken in yet. Pure.

Rules: `position` is what is committed with the next transaction: all records before it are taken in. What was read stays in
`_fetched` until it is taken in. Batches are decoded one by one, as they are needed: one may have a single record, or be small
and compressed, with very many. Records are delivered only after the source was read to where it ended when it was taken over:
till then a cancellation, or a record that is due earlier, may still be unread.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from client.committing import OffsetAndMetadata
from protocol.primitives import ZERO_UUID
from protocol.records.invalid import InvalidBatch
from relay.names import log_partition
from relay.relaying.needs import BucketNeeds

if TYPE_CHECKING:
    from client.reading.positions import FetchedBatches
    from protocol.records.record import Record
    from protocol.topic_partition import TopicPartition
    from relay.rules.rule import Rule
    from relay.waiting.index import WaitingIndex

MAX_DECOMPRESSED_BYTES: Final = 256 << 20
MAX_FETCHED_BYTES: Final = 4 << 20
"""Of what was read and not taken in: beyond it the source is not read further."""


class SourcePartition:
    """`end` is where the source ended when it was taken over. `log_partition` is the partition of the relay's log and buckets
    that the source's index and copies are in: one of `log_partitions`."""

    def __init__(
        self,
        key: TopicPartition,
        rule: Rule,
        index: WaitingIndex,
        log_partitions: int,
        position: OffsetAndMetadata,
        end: int,
    ) -> None:
        self.key = key
        self.rule = rule
        self.index = index
        self.log_partition = log_partition(key, log_partitions)
        self._log_partitions = log_partitions
        self.position = position
        self.refused: dict[int, str] = {}
        """Places of records that the target does not take, with the reason."""
        self.topic_id = ZERO_UUID
        self.lost_places: list[int] = []
        """Places of entries whose contents were in a topic of this name that was deleted."""
        self.must_commit = False
        """Whether the group has forgotten the offset, which the relay's log still has."""
        self.turn = 0
        """Which partition gets records without key next."""
        self.limit: int | None = None
        """How many records are delivered in a transaction, while it is looked for the one that the target does not take."""
        self.refusal: str | None = None
        """Why nothing is delivered and what is due becomes a dead letter."""
        self.is_held = False
        """Whether nothing is delivered now, as the target is missing."""
        self.avoided: set[str] = set()
        """Topics of the rule for dead letters and results that do not take records."""
        self.end = end
        self._fetched: deque[FetchedBatches] = deque()
        self._fetched_bytes = 0
        self._decoded_count = 0  # of the batches of the first of these
        self._records: deque[Record] = deque()
        self._next = position
        """The position behind `_records`."""
        self.read_position = position
        """Where reading goes on."""

    def change_rule(self, rule: Rule) -> None:
        """Go on with another rule: what its topics do not take is not known yet."""
        self.rule = rule
        self.refused.clear()
        self.avoided.clear()
        self.limit = None

    @property
    def is_caught_up(self) -> bool:
        """Whether all is taken in that the source had when it was taken over."""
        return self.position.offset >= self.end

    @property
    def needs(self) -> BucketNeeds:
        """What is needed of the buckets."""
        return BucketNeeds(self._log_partitions, self.index.lowest_offsets())

    @property
    def has_fetched(self) -> bool:
        return bool(self._records or self._fetched)

    @property
    def is_full(self) -> bool:
        return self._fetched_bytes > MAX_FETCHED_BYTES

    def fetched(self, batches: FetchedBatches) -> int:
        """Take what was read; return how many records were deleted before they could be read.

        A reader goes back where a leader says that its log parts from what was read. What was taken in stays: it is not taken
        in again."""
        before = self.read_position
        lost = max(batches.start - before.offset, 0)
        self._fetched.append(batches._replace(start=max(batches.start, before.offset)))
        self._fetched_bytes += len(batches.buffer)
        if batches.next_offset >= before.offset:
            epoch = batches.batches[-1][1].partition_leader_epoch if batches.batches else before.leader_epoch
            self.read_position = OffsetAndMetadata(batches.next_offset, epoch)
        return lost

    def peek(self, count: int) -> tuple[list[Record], OffsetAndMetadata]:
        """Return the next records to be taken in, at most `count`, with the position behind them. Raises InvalidBatch.

        They come again until `took` is told of them."""
        while self._fetched and len(self._records) < count:
            try:
                self._decode(self._fetched[0])
            except InvalidBatch:
                if not self._records:
                    raise
                break
        records = list(islice(self._records, count))
        if len(records) == len(self._records):
            return records, self._next
        return records, OffsetAndMetadata(records[-1].offset + 1, self._next.leader_epoch)

    def _decode(self, fetched: FetchedBatches) -> None:
        """Take the next batch of what was read, alone: many batches could be much larger than they were read. Raises
        InvalidBatch, and the batch stays."""
        if self._decoded_count < len(fetched.batches):
            at, header = fetched.batches[self._decoded_count]
            one = fetched._replace(batches=[(at, header)], next_offset=header.last_offset + 1)
            self._records.extend(each.record for each in one.records(MAX_DECOMPRESSED_BYTES))
            self._decoded_count += 1
            if one.next_offset > self._next.offset:
                self._next = OffsetAndMetadata(one.next_offset, header.partition_leader_epoch)
        if self._decoded_count == len(fetched.batches):
            self._fetched.popleft()
            self._decoded_count = 0
            self._fetched_bytes -= len(fetched.buffer)
            self._next = OffsetAndMetadata(max(fetched.next_offset, self._next.offset), self._next.leader_epoch)
        if not self._records:
            self.position = self._next

    def failed(self, count: int) -> None:
        """A transaction with so many records was not possible: try fewer, to find the one whose fault it is."""
        self.limit = max(count // 2, 1)

    def delivered(self, limit_max: int) -> None:
        """A transaction was committed: try more."""
        self.turn += 1
        if self.limit is not None:
            self.limit = self.limit * 2 if self.limit * 2 < limit_max else None

    def took(self, count: int, position: OffsetAndMetadata) -> None:
        """`count` records are taken in, and `position` is committed."""
        for _ in range(count):
            self._records.popleft()
        self.position = position
        self.must_commit = False
