"""Records at given offsets of a partition: where a fetch begins, how many bytes it asks for, what its answer brought. Pure.

    wanted = WantedOffsets(key, [3, 4, 5, 90_000], sizes)      sorted; `sizes` are kept for the next ones of the partition
    request row = wanted.fetch(leader_epoch)
    for found in wanted.fetched(response row): ...             {offset: record, None where there is none any more}

Rules: a fetch begins at the next wanted offset, and reaches as far as reading what lies between costs less than asking again:
`REQUEST_COST_BYTES` for each wanted offset. What is not wanted is not decoded. Batches are read whatever became of their
transaction: who wants an offset has seen the record committed, and the markers of the transaction that wrote it, or another
open transaction, must not delay it. A batch that is longer than what was asked for is asked for again with its whole length.
Errors: InvalidBatch for records that cannot be read; the offsets behind them are read by the next fetch.
Source: KIP-74 (only the first partition of a response has at least one whole batch), KIP-320.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import Final

from client.reading.positions import MAX_DECOMPRESSED_BYTES
from protocol.messages.fetch import FetchPartition, PartitionData
from protocol.primitives import Buffer
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC_V2, BatchHeader
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, plain_records, read_record, record_spans
from protocol.topic_partition import TopicPartition

REQUEST_COST_BYTES: Final = 128 << 10
"""How many bytes are read in the time that one more request takes."""
MAX_FETCH_BYTES: Final = 1 << 20
"""Of one partition, but for a batch that is larger."""
FEW: Final = 4
"""When more than one in so many records of a batch is wanted, all are decoded, which is faster."""
MAX_INT32: Final = (1 << 31) - 1
_BATCH_LENGTH: Final = Struct(">8xi")
_OFFSET: Final = Struct(">q")
_SKIMMED: Final = Struct(">qi4xb6xi")
"""Base offset, length, format and the last offset's distance from the first, of a batch."""

FoundRecords = dict[int, Record | None]


@dataclass(slots=True)
class PartitionSizes:
    """What was seen of the batches of a partition, to ask for as many bytes as are needed."""

    offset_bytes: float = 1_024.0
    """How many bytes one offset takes."""
    batch_bytes: int = 16_384

    def seen(self, offsets_count: int, size_bytes: int, largest_bytes: int) -> None:
        """`size_bytes` of batches, the largest of which has `largest_bytes`, had so many offsets."""
        self.offset_bytes = (self.offset_bytes + size_bytes / offsets_count) / 2
        self.batch_bytes = max(largest_bytes, (self.batch_bytes + largest_bytes) // 2)


class WantedOffsets:
    """The offsets of one partition that are not read yet; they are sorted, each is there once."""

    def __init__(self, key: TopicPartition, offsets: Sequence[int], sizes: PartitionSizes) -> None:
        self.key = key
        self._offsets = array("q", offsets)
        self._sizes = sizes
        self._at = 0
        self._must_have_bytes = 0
        """The length of the batch at the next offset, where the fetch before did not bring it whole."""

    @property
    def left_count(self) -> int:
        return len(self._offsets) - self._at

    @property
    def next_offset(self) -> int:
        return self._offsets[self._at]

    def fetch(self, leader_epoch: int) -> FetchPartition:
        """Return the row of a fetch for what comes next."""
        return FetchPartition(
            partition=self.key[1],
            current_leader_epoch=leader_epoch,
            fetch_offset=self.next_offset,
            partition_max_bytes=self._fetch_bytes(),
        )

    def _fetch_bytes(self) -> int:
        if self._must_have_bytes:
            return self._must_have_bytes
        start, each_bytes, window_bytes = self.next_offset, self._sizes.offset_bytes, MAX_FETCH_BYTES
        while True:
            end = bisect_left(self._offsets, start + max(int(window_bytes / each_bytes), 1), self._at)
            if window_bytes <= REQUEST_COST_BYTES or (end - self._at) * REQUEST_COST_BYTES >= window_bytes:
                break
            window_bytes //= 2
        run_bytes = (self._offsets[end - 1] + 1 - start) * each_bytes
        return min(int(run_bytes) + 2 * self._sizes.batch_bytes, MAX_FETCH_BYTES)

    # --- answers ---

    def fetched(self, row: PartitionData) -> Iterator[FoundRecords]:
        """Iterate over what the batches of a response without an error bring, batch by batch. Raises InvalidBatch."""
        buffer, began_at, at, last_offset, largest_bytes = row.records or b"", self._at, 0, -1, 0
        self._must_have_bytes = 0
        try:
            while self.left_count:
                at, header = _first_batch(buffer, at, self.next_offset)
                if header is None:
                    break
                last_offset, largest_bytes = header.last_offset, max(largest_bytes, header.size_bytes)
                wanted = self._pass(bisect_right(self._offsets, last_offset, self._at))
                if wanted:
                    yield _read(buffer, at, header, wanted)
                at += header.size_bytes
        except InvalidBatch:
            if self._at == began_at:
                self._pass(began_at + 1)
            raise
        if largest_bytes:
            self._sizes.seen(max(last_offset + 1 - _OFFSET.unpack_from(buffer)[0], 1), at, largest_bytes)
        elif buffer and not at:
            self._must_have_bytes = _whole_batch_bytes(buffer)

    def gone_before(self, offset: int) -> FoundRecords:
        """The partition has no records below an offset."""
        return dict.fromkeys(self._pass(bisect_left(self._offsets, offset, self._at)))

    def _pass(self, end: int) -> array[int]:
        passed, self._at = self._offsets[self._at : end], end
        return passed


def _first_batch(buffer: Buffer, at: int, offset: int) -> tuple[int, BatchHeader | None]:
    """Return position and header of the first batch from `at` on whose last offset is not below `offset`; no header where
    there is no such batch as a whole. Batches before are passed with the least that says what they are."""
    end = len(buffer)
    while end - at >= HEADER_BYTES:
        base_offset, length, magic, last_delta = _SKIMMED.unpack_from(buffer, at)
        following = at + LENGTH_OVERHEAD_BYTES + length
        if magic != MAGIC_V2 or base_offset + last_delta >= offset or not at < following <= end:
            break
        at = following
    for position, header in iter_any_headers(buffer, at):
        at = position
        if header.last_offset >= offset:
            return at, header
        at += header.size_bytes
    return at, None


def _read(buffer: Buffer, at: int, header: BatchHeader, wanted: array[int]) -> FoundRecords:
    """Return what a batch has of offsets up to its last one."""
    found: FoundRecords = dict.fromkeys(wanted)
    is_dense = header.magic == MAGIC_V2 and header.records_count == header.last_offset_delta + 1
    if header.is_control:
        return found
    if is_dense and len(wanted) * FEW < header.records_count:
        records = _records_at(buffer, at, header, wanted)
    else:
        records = iter_any_records(buffer, at, header, MAX_DECOMPRESSED_BYTES)
    for record in records:
        if record.offset in found:
            found[record.offset] = record
    return found


def _records_at(buffer: Buffer, at: int, header: BatchHeader, wanted: array[int]) -> Iterator[Record]:
    """Iterate over the records of a batch without gaps at some offsets; of those between nothing but the length is read."""
    block = bytes(plain_records(buffer, at, header, MAX_DECOMPRESSED_BYTES))
    spans = record_spans(block, 0, len(block), header.records_count)
    passed = header.base_offset
    for offset in wanted:
        if offset < passed:
            continue  # below the first record of the batch
        start, end = next(islice(spans, offset - passed, None))
        yield read_record(block, start, end, header)
        passed = offset + 1


def _whole_batch_bytes(part: Buffer) -> int:
    """Return how many bytes to ask for to get a batch of which only a part came."""
    size_bytes = LENGTH_OVERHEAD_BYTES + _BATCH_LENGTH.unpack_from(part)[0] if len(part) >= LENGTH_OVERHEAD_BYTES else 0
    return min(max(size_bytes, 2 * len(part)), MAX_INT32)
