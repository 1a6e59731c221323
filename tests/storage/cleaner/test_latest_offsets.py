"""Cleaning by the offsets of the latest records leaves what cleaning by their keys leaves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import read_header
from protocol.records.compression import Compression
from protocol.records.record import Record, encode_batch
from storage.cleaner.batch_cleaning import BatchCleaner, Cleaned, read_keys
from storage.cleaner.latest_offsets import LatestOffsets
from storage.cleaner.offset_map import OffsetMap

NOW_MS = 1_700_000_000_000
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"c" * 100])),
        st.one_of(st.none(), st.just(b""), st.binary(min_size=1, max_size=200)),
        st.integers(0, 1 << 20),
    ),
    min_size=1,
    max_size=40,
)


def batches_of(rows: list[tuple[bytes | None, bytes | None, int]], size: int, codec: Compression) -> list[bytes]:
    records = [Record(offset, NOW_MS + at_ms, key, value) for offset, (key, value, at_ms) in enumerate(rows)]
    return [
        encode_batch(records[at : at + size], base_offset=at, keep_offsets=True, compression=codec)
        for at in range(0, len(records), size)
    ]


def cleaned(batches: list[bytes], by: BatchCleaner) -> list[Cleaned]:
    return [by.clean(batch, 0, read_header(batch), {}) for batch in batches]


@given(
    ROWS, st.integers(1, 70), st.sampled_from([Compression.NONE, Compression.LZ4]), st.sampled_from([1 << 10, 1 << 20])
)
def test_leaves_what_cleaning_by_keys_leaves(
    rows: list[tuple[bytes | None, bytes | None, int]], size: int, codec: Compression, buffer_bytes: int
) -> None:
    batches = batches_of(rows, size, codec)
    offsets = OffsetMap(buffer_bytes, 0.9, 100)
    for batch in batches:
        header = read_header(batch)
        assert offsets.put(read_keys(batch, 0, header).keys, range(header.base_offset, header.last_offset + 1))
        offsets.reached(header.last_offset)
    latest = LatestOffsets(0, len(rows))
    latest.add(offsets.offsets())
    by_keys = BatchCleaner(offsets, now_ms=NOW_MS, delete_retention_ms=1000)
    by_offsets = BatchCleaner(offsets, now_ms=NOW_MS, delete_retention_ms=1000)
    by_offsets.latest = latest
    assert all(latest.know(read_header(batch)) for batch in batches)
    assert cleaned(batches, by_offsets) == cleaned(batches, by_keys)


def test_knows_no_batch_outside_its_range_and_none_with_gaps() -> None:
    latest = LatestOffsets(10, 20)
    gap = [Record(12, NOW_MS, b"a", b"1"), Record(14, NOW_MS, b"b", b"2")]
    assert not latest.know(read_header(encode_batch(gap, base_offset=12, keep_offsets=True)))
    for base_offset, is_known in ((8, False), (9, False), (10, True), (18, True), (19, False)):
        batch = encode_batch([Record(0, NOW_MS, b"a", b"1"), Record(0, NOW_MS, b"b", b"2")], base_offset=base_offset)
        assert latest.know(read_header(batch)) == is_known, base_offset
