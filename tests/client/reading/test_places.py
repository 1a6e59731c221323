"""Records at given offsets: what a fetch asks for, and what its answer brings."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.reading.places import MAX_FETCH_BYTES, REQUEST_COST_BYTES, PartitionSizes, WantedOffsets
from protocol.messages.fetch import PartitionData
from protocol.records.compression import Compression
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, encode_batch

KEY = ("t", 3)


def record(offset: int) -> Record:
    return Record(offset, 1_000 + offset, b"key", b"value of %d" % offset, [("h", b"%d" % offset)])


def batch(offsets: list[int], compression: Compression = Compression.NONE) -> bytes:
    made = [record(each) for each in offsets]
    return encode_batch(made, base_offset=offsets[0], keep_offsets=True, compression=compression)


def row(records: bytes) -> PartitionData:
    return PartitionData(partition_index=3, error_code=0, high_watermark=1 << 40, records=records)


def wanted(*offsets: int, sizes: PartitionSizes | None = None) -> WantedOffsets:
    return WantedOffsets(KEY, offsets, sizes or PartitionSizes())


def found(reading: WantedOffsets, records: bytes) -> dict[int, Record | None]:
    return {offset: each for part in reading.fetched(row(records)) for offset, each in part.items()}


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_the_wanted_records_of_a_batch_whether_few_or_many(compression: Compression) -> None:
    content = batch(list(range(100, 200)), compression)
    for offsets in ([100], [199], [101, 150, 151], list(range(120, 190))):
        reading = wanted(*offsets)
        assert found(reading, content) == {each: record(each) for each in offsets}
        assert reading.left_count == 0


def test_what_compaction_removed_and_what_never_was_a_record_is_none() -> None:
    marker = encode_marker(EndTxnMarker(ControlType.COMMIT, 0, 0), producer_id=7, producer_epoch=0, base_offset=20)
    content = batch([10, 12, 15]) + marker + batch([30, 31])
    reading = wanted(3, 10, 11, 15, 20, 25, 30, 40)
    expected = {3: None, 10: record(10), 11: None, 15: record(15), 20: None, 25: None, 30: record(30)}
    assert found(reading, content) == expected
    assert reading.next_offset == 40


def test_a_batch_that_came_in_part_is_asked_for_as_a_whole() -> None:
    reading, content = wanted(5), batch(list(range(5, 500)))
    assert found(reading, content[:100]) == {}
    assert reading.fetch(0).partition_max_bytes == len(content)
    assert found(reading, content[:8]) == {}, "its length is not there either"
    assert reading.fetch(0).partition_max_bytes == 16
    assert found(reading, content) == {5: record(5)}


def test_a_broken_batch_is_passed_and_named() -> None:
    content = bytearray(batch([1, 2]) + batch([3, 4]))
    content[61] = 0x7E  # the length of the first record
    reading = wanted(1, 2, 3)
    with pytest.raises(InvalidBatch):
        found(reading, bytes(content))
    assert reading.next_offset == 3
    with pytest.raises(InvalidBatch):
        found(reading, content[:16] + b"\x09" + content[17:])  # a format that nobody knows
    assert reading.left_count == 0, "nothing is asked for without end"


def test_a_partition_that_begins_later() -> None:
    reading = wanted(1, 5, 9)
    assert reading.gone_before(6) == {1: None, 5: None}
    assert reading.next_offset == 9


@pytest.mark.parametrize(
    ("offsets", "least", "most"),
    [
        (range(10), 10 * 100, 40_000),  # what is asked for, and the rest of the batch at each end
        (range(100_000), MAX_FETCH_BYTES, MAX_FETCH_BYTES),
        (range(0, 10_000_000, 100), MAX_FETCH_BYTES, MAX_FETCH_BYTES),  # 10 kB between two: read through
        ((0, 10_000_000), 100, 40_000),  # far from each other: two requests
        ((0, *range(REQUEST_COST_BYTES // 10, 1_000_000)), 100, 40_000),  # the run begins behind the first
    ],
)
def test_a_fetch_reaches_as_far_as_reading_costs_less_than_asking_again(
    offsets: range | tuple[int, ...], least: int, most: int
) -> None:
    reading = wanted(*offsets, sizes=PartitionSizes(100.0, 16_384))
    fetch = reading.fetch(4)
    assert (fetch.partition, fetch.fetch_offset, fetch.current_leader_epoch) == (3, 0, 4)
    assert least <= fetch.partition_max_bytes <= most


@settings(max_examples=50)
@given(st.sets(st.integers(0, 300), min_size=1), st.sets(st.integers(0, 320), min_size=1), st.integers(0, 1 << 30))
def test_any_offsets_of_any_log_are_read_as_by_looking_at_each_record(
    stored: set[int], asked: set[int], seed: int
) -> None:
    randomness, batches, left = random.Random(seed), [], sorted(stored)
    while left:
        count = randomness.randint(1, 40)
        batches.append(batch(left[:count]))
        left = left[count:]
    log, reading, answer = b"".join(batches), wanted(*sorted(asked)), {}
    while reading.left_count and reading.next_offset <= max(stored):
        fetch = reading.fetch(0)
        kept = [each for each in batches if last_offset(each) >= fetch.fetch_offset]
        answer |= found(reading, b"".join(kept)[: min(fetch.partition_max_bytes, randomness.randint(1, len(log) + 60))])
    answer |= reading.gone_before(1_000)
    assert answer == {each: record(each) if each in stored else None for each in asked}


def last_offset(content: bytes) -> int:
    return int.from_bytes(content[:8], "big") + int.from_bytes(content[23:27], "big")
