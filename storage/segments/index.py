"""A segment's sparse indexes: offset -> position in the `.log`, and timestamp -> offset. Kafka's files, no mmap.

An entry is fixed size, big endian, and grows in both columns: `.index` holds (offset - base offset: int32, position:
int32), `.timeindex` holds (timestamp: int64, offset - base offset: int32). A lookup finds the last entry at or below a
key, from where the caller walks the batches: entries exist only every `index.interval.bytes`.

Rules: no IO here. Bytes of the file come through the caller's `PageReader`; `unwritten` returns what has to be written. Memory
is bounded: the newest entries (at most two pages) and, for each page of 512 entries that the file holds, its first entry; a
full index of a 1 GiB segment costs 8 KiB. Nor is more than that ever decoded at once: an index is opened in the queue that all
logs of its directory write through.
Invariants: the entries in memory are those behind the file's; every page of the file but the last one is full; keys
rise strictly.
A file that Apache Kafka left behind after a crash is as long as `segment.index.bytes`, zero filled behind its entries:
entries end where the second column of `.index`, or both of `.timeindex`, are zero.
Source: Kafka AbstractIndex, OffsetIndex, TimeIndex.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import ClassVar, Literal

from runtime.disk.filesystem import Buffer

PAGE_ENTRIES = 512
# So many entries are compared with those behind them at a time: some microseconds, so that other threads get their turn.
_COMPARED_ENTRIES = 2048

Entry = tuple[int, int]
PageReader = Callable[[int, int], Buffer]
"""`reader(length, position)` returns those bytes of the index file."""


class CorruptIndex(Exception):
    """Raised for an index file with content that its segment cannot have written: it has to be rebuilt from the `.log`."""


class SparseIndex:
    """What both indexes share. A subclass says how an entry looks and unpacks a page of them.

    Each column of an entry has its highest bit to spare (`top_bits`): neither a position or an offset in a segment nor a
    time is that large.
    """

    __slots__ = (
        "_keys",
        "_last_page",
        "_page_keys",
        "_page_values",
        "_values",
        "entries_count",
        "file_entries",
        "is_spilling",
        "last",
    )

    suffix: ClassVar[str]
    entry: ClassVar[Struct]
    key_code: ClassVar[Literal["I", "q"]]
    top_bits: ClassVar[bytes]
    """Of an entry: the highest bit of both columns."""
    key_one: ClassVar[bytes]
    """Of an entry: the lowest bit of its key."""

    def __init__(self) -> None:
        self.entries_count = 0  # in the file and in memory
        self.file_entries = 0
        # The older page in memory is being written to the file.
        self.is_spilling = False
        self.last: Entry | None = None
        # The entries that are not (or not only) in the file.
        self._keys: array[int] = array(self.key_code)
        self._values: array[int] = array("I")
        # The first entry of each page in the file.
        self._page_keys: array[int] = array(self.key_code)
        self._page_values: array[int] = array("I")
        # The page that the last lookup read: a consumer that walks through an old segment stays within it for long.
        self._last_page: tuple[int, array[int], array[int]] | None = None

    @staticmethod
    def unpack(content: Buffer) -> tuple[array[int], array[int]]:
        """The columns of whole entries."""
        raise AssertionError("the subclass unpacks")

    def __len__(self) -> int:
        return self.entries_count

    # --- loading ---

    def load(self, content: Buffer, *, keep_writable: bool = True) -> None:
        """Load the content of an index file. Raises CorruptIndex.

        `keep_writable`: the last page stays in memory, so that entries can follow. `file_entries` is then the number of entries
        that are valid in the file; `unwritten` returns the others again.
        """
        size, unpack_from = self.entry.size, self.entry.unpack_from
        if len(content) % size:
            raise CorruptIndex(f"{len(content)} bytes are no multiple of {size}")
        count = self._count(content)
        view = memoryview(content)[: count * size]
        self._check_order(view)
        paged = count - count % PAGE_ENTRIES if keep_writable else count
        self.entries_count, self.file_entries = count, paged
        self._page_keys, self._page_values = array(self.key_code), array("I")
        for at in range(0, paged, PAGE_ENTRIES):
            key, value = unpack_from(view, at * size)
            self._page_keys.append(key)
            self._page_values.append(value)
        self._keys, self._values = self.unpack(view[paged * size :])
        self.last = unpack_from(view, (count - 1) * size) if count else None
        self._last_page = None

    def _count(self, content: Buffer) -> int:
        """Entries before the zero padding."""
        size, unpack_from = self.entry.size, self.entry.unpack_from
        return bisect_left(
            range(len(content) // size), True, key=lambda at: not self.is_entry(*unpack_from(content, at * size))
        )

    def _check_order(self, view: memoryview) -> None:
        """Raises CorruptIndex unless keys rise, and no second column falls.

        No entry is decoded for that: a piece of the file is one large number, and the same piece one entry further on
        another. With the top bits of all columns added to the second no difference of two columns borrows from the next, and
        the bits are there still where it is none below zero. A column whose own top bit is set is none of an index.
        """
        size = self.entry.size
        last = len(view) - size
        if last >= 0 and _number(view[:size]) & _number(self.top_bits):
            raise CorruptIndex("its first entry is out of range")
        for begin in range(0, last, _COMPARED_ENTRIES * size):
            end = min(begin + _COMPARED_ENTRIES * size, last)
            entries = (end - begin) // size
            top_bits, key_ones = _repeated(self.top_bits, entries), _repeated(self.key_one, entries)
            earlier, later = _number(view[begin:end]), _number(view[begin + size : end + size])
            if later & top_bits or ((later | top_bits) - earlier - key_ones) & top_bits != top_bits:
                raise CorruptIndex(f"entries do not rise, from {begin // size} to {end // size}")

    @staticmethod
    def is_entry(key: int, value: int) -> bool:
        return key != 0 or value != 0

    # --- writing ---

    def append(self, key: int, value: int) -> None:
        assert self.last is None or key > self.last[0], f"index entry {key} after {self.last}"
        self._keys.append(key)
        self._values.append(value)
        self.entries_count += 1
        self.last = (key, value)

    @property
    def has_full_page(self) -> bool:
        """Whether two pages are in memory, and the older one is not being written yet."""
        return len(self._keys) >= 2 * PAGE_ENTRIES and not self.is_spilling

    def unwritten(self, entries: int | None = None) -> tuple[bytes, int]:
        """(bytes, position in the file) of the first `entries` entries in memory, by default of all."""
        keys, values = self._keys[:entries], self._values[:entries]
        pack = self.entry.pack
        content = b"".join(map(pack, keys, values))
        return content, self.file_entries * self.entry.size

    def written(self, entries: int) -> None:
        """Note that the first `entries` entries in memory, a whole page or all, are in the file now."""
        assert entries % PAGE_ENTRIES == 0 or entries == len(self._keys)
        self._page_keys.extend(self._keys[0:entries:PAGE_ENTRIES])
        self._page_values.extend(self._values[0:entries:PAGE_ENTRIES])
        del self._keys[:entries], self._values[:entries]
        self.file_entries += entries

    @property
    def memory_entries(self) -> int:
        return len(self._keys)

    def truncate(self, content: Buffer, *, key: int | None = None, value: int | None = None) -> None:
        """Drop the entries at or above `key`, or with a second column at or above `value`. `content` is that of the file; the
        caller writes `unwritten` and truncates the file behind it."""
        size, unpack_from = self.entry.size, self.entry.unpack_from
        whole = bytes(content[: self.file_entries * size]) + self.unwritten()[0]
        entries = range(len(whole) // size)
        keep = len(entries)
        if key is not None:
            keep = bisect_left(entries, key, key=lambda at: unpack_from(whole, at * size)[0])
        if value is not None:
            keep = min(keep, bisect_left(entries, value, key=lambda at: unpack_from(whole, at * size)[1]))
        self.load(whole[: keep * size])

    # --- lookups ---

    def floor(self, key: int, read: PageReader) -> Entry | None:
        """The last entry whose key is at most `key`."""
        keys = self._keys
        if keys and keys[0] <= key:
            at = bisect_right(keys, key) - 1
            return keys[at], self._values[at]
        page = bisect_right(self._page_keys, key) - 1
        if page < 0:
            return None
        page_keys, page_values = self._page(page, read)
        at = bisect_right(page_keys, key) - 1
        return page_keys[at], page_values[at]

    def floor_by_value(self, value: int, read: PageReader) -> Entry | None:
        """The last entry whose second column is at most `value`."""
        values = self._values
        if values and values[0] <= value:
            at = bisect_right(values, value) - 1
            return self._keys[at], values[at]
        page = bisect_right(self._page_values, value) - 1
        if page < 0:
            return None
        page_keys, page_values = self._page(page, read)
        at = bisect_right(page_values, value) - 1
        return page_keys[at], page_values[at]

    def ceiling_by_value(self, value: int, read: PageReader) -> Entry | None:
        """The first entry whose second column is at least `value`."""
        if self.last is None or self.last[1] < value:
            return None
        values, page_values = self._values, self._page_values
        if not values or values[0] >= value:
            page = bisect_left(page_values, value) - 1
            if page >= 0:
                page_keys, its_values = self._page(page, read)
                at = bisect_left(its_values, value)
                if at < len(its_values):
                    return page_keys[at], its_values[at]
            if page + 1 < len(page_values):
                return self._page_keys[page + 1], page_values[page + 1]
        at = bisect_left(values, value)
        return self._keys[at], values[at]

    def _page(self, page: int, read: PageReader) -> tuple[array[int], array[int]]:
        last_page = self._last_page
        if last_page is not None and last_page[0] == page:
            return last_page[1], last_page[2]
        first = page * PAGE_ENTRIES
        count = min(PAGE_ENTRIES, self.file_entries - first)
        content = read(count * self.entry.size, first * self.entry.size)
        if len(content) != count * self.entry.size:
            raise CorruptIndex(f"{self.suffix} file ends at page {page}")
        keys, values = self.unpack(content)
        if keys[0] != self._page_keys[page]:
            raise CorruptIndex(f"page {page} of {self.suffix} file begins with {keys[0]}, not {self._page_keys[page]}")
        self._last_page = (page, keys, values)
        return keys, values


def _number(content: Buffer) -> int:
    return int.from_bytes(content, "big")


@lru_cache(maxsize=8)
def _repeated(entry: bytes, entries: int) -> int:
    return _number(entry * entries)


class OffsetIndex(SparseIndex):
    """(offset of a batch's last record - base offset) -> position of that batch, or of an earlier one."""

    __slots__ = ()
    suffix = ".index"
    entry = Struct(">II")
    key_code = "I"
    top_bits = entry.pack(1 << 31, 1 << 31)
    key_one = entry.pack(1, 0)

    @staticmethod
    def unpack(content: Buffer) -> tuple[array[int], array[int]]:
        words = array("I")
        words.frombytes(content)
        if sys.byteorder == "little":
            words.byteswap()
        return words[0::2], words[1::2]

    @staticmethod
    def is_entry(key: int, value: int) -> bool:
        return value != 0  # the first batch, at position 0, is never indexed


class TimeIndex(SparseIndex):
    """largest timestamp so far -> (offset of the last record of the batch that has it - base offset)."""

    __slots__ = ()
    suffix = ".timeindex"
    entry = Struct(">qI")
    key_code = "q"
    top_bits = entry.pack(-1 << 63, 1 << 31)
    key_one = entry.pack(1, 0)

    @staticmethod
    def unpack(content: Buffer) -> tuple[array[int], array[int]]:
        timestamps, offsets = array("q"), array("I")
        for timestamp, offset in TimeIndex.entry.iter_unpack(content):
            timestamps.append(timestamp)
            offsets.append(offset)
        return timestamps, offsets


class _Closed(SparseIndex):
    __slots__ = ()

    def append(self, key: int, value: int) -> None:
        raise AssertionError("an entry for a closed segment")

    def unwritten(self, entries: int | None = None) -> tuple[bytes, int]:
        raise AssertionError("the entries of a closed segment are in its files")


class _ClosedOffsetIndex(_Closed, OffsetIndex):
    __slots__ = ()


class _ClosedTimeIndex(_Closed, TimeIndex):
    __slots__ = ()


CLOSED_OFFSET_INDEX = _ClosedOffsetIndex()
CLOSED_TIME_INDEX = _ClosedTimeIndex()
"""The indexes of every closed segment, shared: two empty indexes take 850 bytes."""
