from __future__ import annotations

from array import array
from bisect import bisect_right

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runtime.disk.filesystem import Buffer
from storage.segments.index import PAGE_ENTRIES, CorruptIndex, OffsetIndex, SparseIndex, TimeIndex


class IndexFile:
    """What a segment does with the bytes."""

    def __init__(self, index: SparseIndex) -> None:
        self.index = index
        self.content = bytearray()
        self.reads = 0

    def spill(self, entries: int | None = None) -> None:
        content, position = self.index.unwritten(entries)
        self.content[position : position + len(content)] = content
        self.index.written(self.index.memory_entries if entries is None else entries)

    def read(self, length: int, position: int) -> bytes:
        self.reads += 1
        return bytes(self.content[position : position + length])


def filled(count: int, *, spilled_pages: int = 0) -> IndexFile:
    file = IndexFile(OffsetIndex())
    for at in range(count):
        file.index.append(10 * at + 9, 4097 * (at + 1))
    for _ in range(spilled_pages):
        file.spill(PAGE_ENTRIES)
    return file


@pytest.mark.parametrize("spilled_pages", [0, 1, 2, 3])
def test_the_first_entry_at_or_behind_a_position(spilled_pages: int) -> None:
    count = 3 * PAGE_ENTRIES + 7
    file = filled(count, spilled_pages=spilled_pages)
    positions = [4097 * (at + 1) for at in range(count)]
    for at in (0, 1, PAGE_ENTRIES - 1, PAGE_ENTRIES, PAGE_ENTRIES + 1, 2 * PAGE_ENTRIES, 3 * PAGE_ENTRIES, count - 1):
        entry = (10 * at + 9, positions[at])
        assert file.index.ceiling_by_value(positions[at], file.read) == entry
        assert file.index.ceiling_by_value(positions[at] - 4096, file.read) == entry
    assert file.index.ceiling_by_value(positions[-1] + 1, file.read) is None
    if spilled_pages == 3:
        file.spill()
        assert file.index.ceiling_by_value(positions[-1], file.read) == (10 * (count - 1) + 9, positions[-1])


def test_an_empty_index_finds_nothing() -> None:
    file = IndexFile(OffsetIndex())
    assert file.index.floor(5, file.read) is None
    assert file.index.floor_by_value(5, file.read) is None
    assert file.index.ceiling_by_value(0, file.read) is None
    assert len(file.index) == 0


@pytest.mark.parametrize("spilled_pages", [0, 1, 2, 3])
def test_lookups_do_not_depend_on_where_the_entries_are(spilled_pages: int) -> None:
    file = filled(3 * PAGE_ENTRIES + 7, spilled_pages=spilled_pages)
    keys = [10 * at + 9 for at in range(3 * PAGE_ENTRIES + 7)]
    for key in (0, 8, 9, 10, 5000, 10 * PAGE_ENTRIES + 8, 10 * PAGE_ENTRIES + 9, keys[-1], keys[-1] + 100):
        at = bisect_right(keys, key) - 1
        expected = None if at < 0 else (keys[at], 4097 * (at + 1))
        assert file.index.floor(key, file.read) == expected
        if expected is not None:
            assert file.index.floor_by_value(expected[1] + 4096, file.read) == expected


def test_a_walk_through_one_page_reads_it_once() -> None:
    file = filled(2 * PAGE_ENTRIES, spilled_pages=1)
    for key in range(9, 2000, 10):
        file.index.floor(key, file.read)
    assert file.reads == 1


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
@pytest.mark.parametrize("count", [0, 1, PAGE_ENTRIES, PAGE_ENTRIES + 1, 3 * PAGE_ENTRIES])
def test_what_was_written_is_loaded(kind: type[SparseIndex], count: int) -> None:
    file = IndexFile(kind())
    for at in range(count):
        file.index.append(at + 1, at + 1)
    file.spill()
    loaded = kind()
    loaded.load(bytes(file.content))
    assert len(loaded) == count
    assert loaded.last == file.index.last
    for key in (0, 1, count // 2, count):
        assert loaded.floor(key, file.read) == file.index.floor(key, file.read)
    loaded.append(count + 1, count + 1)
    assert loaded.floor(count + 5, file.read) == (count + 1, count + 1)


def test_zero_padding_as_apache_kafka_leaves_it_is_no_entry() -> None:
    file = filled(PAGE_ENTRIES + 3)
    content = file.index.unwritten()[0] + bytes(10_485_760 - 8 * (PAGE_ENTRIES + 3))
    loaded = OffsetIndex()
    loaded.load(content)
    assert len(loaded) == PAGE_ENTRIES + 3
    assert loaded.last == file.index.last
    empty = TimeIndex()
    empty.load(bytes(10_485_756))
    assert len(empty) == 0 and empty.last is None


def packed(*entries: tuple[int, int]) -> bytes:
    return b"".join(OffsetIndex.entry.pack(*entry) for entry in entries)


@pytest.mark.parametrize("content", [b"123", packed((5, 100), (4, 200)), packed((5, 300), (6, 200))])
def test_what_no_writer_leaves_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptIndex):
        OffsetIndex().load(content)


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
@settings(deadline=None)
@given(
    st.integers(1, 3) | st.integers(PAGE_ENTRIES - 1, PAGE_ENTRIES + 2) | st.integers(2047, 2051) | st.just(5000),
    st.integers(0, 4999),
    st.sampled_from([-(1 << 33), -1000, -40, -39, -1, 0, 1, 39, 40, 41, 1000, 1 << 33, 1 << 63]),
    st.sampled_from([-(1 << 31), -1000, -4097, -1, 0, 1, 4096, 4097, 1000, 1 << 31]),
    st.booleans(),
)
def test_an_index_is_taken_if_and_only_if_it_rises(
    kind: type[SparseIndex], count: int, at: int, key_step: int, value_step: int, is_to_the_end: bool
) -> None:
    """One entry, or all from there on, moved by so much: as far as the columns are wide."""
    largest_key = (1 << (63 if kind is TimeIndex else 31)) - 1
    entries = [(40 * (row + 1), 4097 * (row + 1)) for row in range(count)]
    at %= count
    for row in range(at, count if is_to_the_end else at + 1):
        key, value = entries[row]
        entries[row] = (key + key_step) & (2 * largest_key + 1), (value + value_step) & 0xFFFFFFFF
    content = b"".join(
        kind.entry.pack(key if kind is OffsetIndex or key <= largest_key else key - (1 << 64), value)
        for key, value in entries
    )
    is_in_order = (
        all(key <= largest_key and value < 1 << 31 for key, value in entries)
        and all(entries[row][0] < entries[row + 1][0] for row in range(count - 1))
        and all(entries[row][1] <= entries[row + 1][1] for row in range(count - 1))
    )
    assume(all(kind.is_entry(*entry) for entry in entries))  # else it is taken for padding
    index = kind()
    if is_in_order:
        index.load(content)
        assert (len(index), index.last) == (count, entries[-1])
    else:
        with pytest.raises(CorruptIndex):
            index.load(content)


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_no_more_is_decoded_at_once_than_memory_keeps(kind: type[SparseIndex], monkeypatch: pytest.MonkeyPatch) -> None:
    """An index is opened, and cut, in the queue that all logs of its directory write through."""
    count = 100 * PAGE_ENTRIES + 7
    content = b"".join(kind.entry.pack(row + 1, row + 1) for row in range(count))
    decoded: list[int] = []
    unpack = kind.unpack

    def counting(piece: Buffer) -> tuple[array[int], array[int]]:
        decoded.append(len(piece) // kind.entry.size)
        return unpack(piece)

    monkeypatch.setattr(kind, "unpack", staticmethod(counting))
    index = kind()
    index.load(content)
    index.truncate(content, key=count // 2)
    assert max(decoded) < PAGE_ENTRIES
    assert (len(index), index.last) == (count // 2 - 1, (count // 2 - 1, count // 2 - 1))
    assert index.floor(40 * PAGE_ENTRIES, lambda length, at: content[at : at + length])[1] == 40 * PAGE_ENTRIES  # type: ignore[index]


def test_a_page_that_changed_behind_our_back_is_refused() -> None:
    file = filled(2 * PAGE_ENTRIES, spilled_pages=1)
    file.content[0:8] = OffsetIndex.entry.pack(1, 1)
    with pytest.raises(CorruptIndex):
        file.index.floor(50, file.read)


@given(
    st.lists(st.integers(1, 50), max_size=30).map(lambda steps: [sum(steps[: at + 1]) for at in range(len(steps))]),
    st.integers(0, 1600),
    st.integers(0, 1600),
)
def test_cut_forgets_what_is_at_or_above(keys: list[int], key: int, value: int) -> None:
    file = IndexFile(OffsetIndex())
    for each in keys:
        file.index.append(each, each * 2)
    file.index.truncate(bytes(file.content), key=key, value=value)
    kept = [each for each in keys if each < key and each * 2 < value]
    assert len(file.index) == len(kept)
    assert file.index.last == ((kept[-1], kept[-1] * 2) if kept else None)
