"""Reads one partition for a share fetch: the bytes of the record batches that may be acquired, and which offsets they have.

Only batches that are whole count: what is acquired is a run of them. The rest is cut off before the response is sent, so that a
member gets the batches of what it has acquired, and no others. A long read is a range of a file, of which only the headers
are read here.

Rules: records are never decoded. A read that would wait for the disk says so (`is_cold`); `read_cold` waits in a reader thread.
Invariant: a range is released by who sends it, or by `drop`.
Source: Kafka ReplicaManager.readFromLog, ShareFetchUtils.maybeSliceFetchRecords (KIP-932).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from protocol.records.any_format import iter_any_headers, read_any_header
from protocol.records.batch import HEADER_BYTES, MAGIC_V2
from replication.sharing.aborted_records import aborted_ranges
from runtime.network.file_range import FileRange, Piece
from storage.log.reading.log_reader import RANGE_BYTES

if TYPE_CHECKING:
    from protocol.records.batch import BatchHeader
    from replication.sharing.group_partition import GroupPartition
    from storage.segments.txn_index import AbortedTxn

# Read behind the batch in which the wanted offsets end, because that batch counts as a whole; then more, if that was too few.
_BEHIND_BYTES = 64 * 1024
_MORE = 16
EMPTY = b""
_last_offset = itemgetter(1)


class ShareRead:
    """What was read for a share fetch of one partition. Owned by the fetch."""

    __slots__ = ("_aborted", "_ends", "_headers", "batches", "is_cold", "offset", "records", "shared")

    def __init__(self, shared: GroupPartition, offset: int) -> None:
        self.shared = shared
        self.offset = offset
        self.records: Piece = EMPTY
        self.batches: list[tuple[int, int]] = []
        """The base and last offset of each."""
        self.is_cold = False
        self._headers: list[BatchHeader] = []
        self._ends: list[int] = []
        self._aborted: Sequence[AbortedTxn] = ()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    # --- reading ---

    def read(self, wanted_offsets: int, max_bytes: int, *, takes_ranges: bool, at_least_one: bool = True) -> None:
        """Read batches up to the one that has the last of `wanted_offsets`, at most `max_bytes`; with `at_least_one` the first
        one whatever its size. Sets `is_cold` and nothing else when they are not in memory. Raises KafkaError, OSError."""
        reading = self.shared.partition.log.reading
        limit_offset = self.shared.limit_offset
        wanted_end = self.offset + wanted_offsets
        read_log = reading.read_to_send if takes_ranges else reading.read
        behind_bytes = _BEHIND_BYTES
        before_bytes = reading.bytes_between(self.offset, min(limit_offset, wanted_end))
        while True:
            ask_bytes = min(before_bytes + behind_bytes, max_bytes)
            records = read_log(self.offset, limit_offset=limit_offset, max_bytes=ask_bytes, at_least_one=at_least_one)
            if records is None:
                self.is_cold = True
                return
            self._take(records)
            is_cut = len(records) >= ask_bytes and ask_bytes < max_bytes
            if not is_cut or not self.batches or self.batches[-1][1] + 1 >= wanted_end:
                break
            self.drop()
            behind_bytes *= _MORE
        if self.batches and self.shared.reads_committed:
            aborted = reading.aborted_in(self.offset, len(self))
            if aborted is None:
                self.drop()
                self.is_cold = True
                return
            self._aborted = aborted

    async def read_cold(self, wanted_offsets: int, max_bytes: int) -> None:
        """Like `read` of at least one batch, waiting for the disk. Raises KafkaError, OSError."""
        reading = self.shared.partition.log.reading
        limit_offset = self.shared.limit_offset
        before_bytes = reading.bytes_between(self.offset, min(limit_offset, self.offset + wanted_offsets))
        ask_bytes = min(before_bytes + _BEHIND_BYTES, max_bytes)
        if self.shared.reads_committed:
            records, self._aborted = await reading.read_cold_with_aborted(
                self.offset, limit_offset=limit_offset, max_bytes=ask_bytes, at_least_one=True
            )
        else:
            records = await reading.read_cold(
                self.offset, limit_offset=limit_offset, max_bytes=ask_bytes, at_least_one=True
            )
        self._take(records)

    def _take(self, records: Piece) -> None:
        headers = _headers_in_range(records) if isinstance(records, FileRange) else iter_any_headers(records)
        self.records = records
        next_offset = self.offset
        for position, header in headers:
            last_offset = header.last_offset
            # Of a compressed message set of an old format only the last offset is known.
            base_offset = header.base_offset if header.magic >= MAGIC_V2 else min(next_offset, last_offset)
            self.batches.append((base_offset, last_offset))
            self._headers.append(header)
            self._ends.append(position + header.size_bytes)
            next_offset = last_offset + 1

    # --- what becomes of it ---

    def bytes_of(self, offsets_count: int) -> int:
        """Return the bytes of the batches that have the first `offsets_count` offsets."""
        last_offset = self.offset + offsets_count - 1
        return next(
            (end for (_, last), end in zip(self.batches, self._ends, strict=True) if last >= last_offset), len(self)
        )

    def aborted_ranges(self) -> list[tuple[int, int]]:
        """Return the offsets of batches of aborted transactions, ascending; none unless the group reads committed records."""
        return aborted_ranges(self._headers, self._aborted)

    def cut(self, first_offset: int, last_offset: int) -> Piece:
        """Return the bytes of the batches that have these offsets; the read is over."""
        first = bisect_left(self.batches, first_offset, key=_last_offset)
        last = min(bisect_left(self.batches, last_offset, key=_last_offset), len(self.batches) - 1)
        begin = self._ends[first - 1] if first else 0
        end = self._ends[last]
        records, self.records = self.records, EMPTY
        if not isinstance(records, FileRange):
            return memoryview(records)[begin:end]
        records.narrow(begin, end - begin)
        if len(records) >= RANGE_BYTES:
            return records
        try:
            return records.read()
        finally:
            records.release()

    def drop(self) -> None:
        """The bytes are not sent."""
        records, self.records = self.records, EMPTY
        self.batches, self._headers, self._ends = [], [], []
        if isinstance(records, FileRange):
            records.release()


def _headers_in_range(records: FileRange) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over (position, header) of each whole batch, as `iter_any_headers`, reading the headers only.

    Raises: InvalidBatch, OSError."""
    position, end = 0, len(records)
    while position + HEADER_BYTES <= end:
        header = read_any_header(records.file.read_at(HEADER_BYTES, records.position + position))
        following = position + header.size_bytes
        if following > end:
            return
        yield position, header
        position = following
