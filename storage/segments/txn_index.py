"""A segment's transaction index: the aborted transactions whose abort marker is in the segment. Kafka's file, `.txnindex`.
Pure.

    entry, 34 bytes, big endian: version int16 (0) | producer id | first offset | last offset | last stable offset, int64

`last offset` is that of the abort marker, `last stable offset` up to where everything was decided when it was written.
A consumer that reads committed transactions alone is told which of the transactions that overlap what it got were
aborted; the marker may stand many segments further on. A segment without aborted transactions has no such file.

Rules: pure, no IO. What stands in the file is loaded when it is needed; entries that are appended are handed to the
caller, who writes them before the marker, in order.
Invariants: last offsets rise strictly; last stable offsets never fall; `size_bytes` is that of the file once everything
queued is written. Entries stay in memory only while they are few: `MAX_CACHED_BYTES` a segment.
Source: KIP-98; Kafka TransactionIndex, AbortedTxn, TxnIndexSearchResult.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct

from protocol.primitives import Buffer

_ENTRY = Struct(">hqqqq")
_LAST_OFFSET = Struct(">q")
_LAST_OFFSET_AT = 18
_VERSION = 0
ENTRY_BYTES = _ENTRY.size
MAX_CACHED_BYTES = 256 * 1024


class CorruptTxnIndex(Exception):
    """The file cannot be what its segment wrote: to be rebuilt from the `.log`."""


@dataclass(frozen=True, slots=True)
class AbortedTxn:
    """One entry."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the abort marker."""
    last_stable_offset: int
    """Up to where everything was decided once the marker stood there."""


@dataclass(frozen=True, slots=True)
class FoundTransactions:
    """What one segment's index knows of a range of offsets."""

    transactions: list[AbortedTxn]
    is_complete: bool
    """No later segment can know of more."""


def encode_transactions(transactions: Iterable[AbortedTxn]) -> bytes:
    """The content of a `.txnindex` file, or what is appended to one."""
    return b"".join(
        _ENTRY.pack(_VERSION, each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset)
        for each in transactions
    )


def decode_transactions(content: Buffer) -> Iterator[AbortedTxn]:
    """Each whole entry. Raises CorruptTxnIndex for a version that is not known."""
    whole = memoryview(content)[: len(content) // ENTRY_BYTES * ENTRY_BYTES]
    for version, *columns in _ENTRY.iter_unpack(whole):
        _check_version(version)
        yield AbortedTxn(*columns)


def _check_version(version: int) -> None:
    if version != _VERSION:
        raise CorruptTxnIndex(f"an entry has version {version}")


def check_content(content: Buffer, base_offset: int) -> None:
    """Whether this can be the index of the segment at `base_offset`. Raises CorruptTxnIndex."""
    if len(content) % ENTRY_BYTES:
        raise CorruptTxnIndex(f"{len(content)} bytes are no multiple of {ENTRY_BYTES}")
    previous = base_offset - 1
    for version, _, first_offset, last_offset, _ in _ENTRY.iter_unpack(content):
        _check_version(version)
        if last_offset <= previous:
            raise CorruptTxnIndex(f"last offset {last_offset} behind {previous}, in segment {base_offset}")
        if not 0 <= first_offset < last_offset:
            raise CorruptTxnIndex(f"a transaction goes from {first_offset} to {last_offset}")
        previous = last_offset


def find_in(content: Buffer, fetch_offset: int, upper_bound_offset: int) -> FoundTransactions:
    """The transactions that overlap [fetch_offset, upper_bound_offset), among those of an index file's content, or of a
    piece of it. Raises CorruptTxnIndex."""
    found: list[AbortedTxn] = []
    begin, end = _position_of(content, fetch_offset), len(content) // ENTRY_BYTES * ENTRY_BYTES
    for version, producer_id, first_offset, last_offset, stable in _ENTRY.iter_unpack(memoryview(content)[begin:end]):
        if first_offset < upper_bound_offset:
            _check_version(version)
            found.append(AbortedTxn(producer_id, first_offset, last_offset, stable))
        if stable >= upper_bound_offset:
            return FoundTransactions(found, is_complete=True)
    return FoundTransactions(found, is_complete=False)


def _position_of(content: Buffer, offset: int) -> int:
    """Where the first entry begins whose last offset is at or above `offset`; the end when none is."""
    count = len(content) // ENTRY_BYTES

    def last_offset(at: int) -> int:
        found: int = _LAST_OFFSET.unpack_from(content, at * ENTRY_BYTES + _LAST_OFFSET_AT)[0]
        return found

    return bisect_left(range(count), offset, key=last_offset) * ENTRY_BYTES


class TxnIndex:
    """The index of one segment that has one. `content` is None while it stands in the file alone."""

    __slots__ = ("content", "size_bytes")

    def __init__(self, size_bytes: int, content: bytearray | None = None) -> None:
        assert content is None or len(content) == size_bytes
        self.size_bytes = size_bytes
        self.content = content

    def __len__(self) -> int:
        return self.size_bytes // ENTRY_BYTES

    def install(self, content: Buffer) -> None:
        """What the file holds was read; it stays in memory if it is small. More may have been appended meanwhile."""
        if self.content is None and len(content) == self.size_bytes <= MAX_CACHED_BYTES:
            self.content = bytearray(content)

    def unload(self) -> None:
        """Give the memory back: the file has it all."""
        self.content = None

    def append(self, transactions: Iterable[AbortedTxn]) -> tuple[bytes, int]:
        """(bytes, position in the file) that the caller has to write."""
        added, position = encode_transactions(transactions), self.size_bytes
        self.size_bytes = position + len(added)
        if self.content is not None:
            self.content += added
            if self.size_bytes > MAX_CACHED_BYTES:
                self.unload()
        return added, position


def truncated_content(content: Buffer, offset: int) -> Buffer:
    """Return what remains of an index file when its segment is truncated at `offset`."""
    return content[: _position_of(content, offset)]
