"""Header view, checksum, patches, walking from batch to batch."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from protocol.errors import ErrorCode
from protocol.records.batch import (
    HEADER_BYTES,
    InvalidBatch,
    advance_sequence,
    crc_is_valid,
    iter_headers,
    magic_at,
    patch,
    patch_log_append_time,
    patch_timestamp,
    producer_of,
    read_header,
    rewind_sequence,
)
from protocol.records.compression import Compression
from protocol.records.record import Record, encode_batch, iter_records
from tests.protocol.records.batches import MAX_BYTES, many_records, with_field

BATCH = encode_batch(many_records(3), base_offset=40)


def test_every_field_of_the_header() -> None:
    batch = encode_batch(
        many_records(3), base_offset=40, compression=Compression.ZSTD, producer_id=7, producer_epoch=2,
        base_sequence=2**31 - 2, is_transactional=True, partition_leader_epoch=9,
    )  # fmt: skip
    header = read_header(b"xx" + batch, 2)
    assert producer_of(batch) == (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 2**31 - 2)
    assert header.size_bytes == len(batch) == header.batch_length + 12
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 42, 43)
    assert (header.partition_leader_epoch, header.magic, header.records_count) == (9, 2, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        7,
        2,
        2**31 - 2,
        0,
    )
    assert (header.base_timestamp, header.max_timestamp) == (1_000_000, 1_000_002)
    assert header.compression is Compression.ZSTD
    assert header.is_compressed and header.is_transactional and header.has_producer_id
    assert not header.is_control and not header.is_log_append_time and not header.has_delete_horizon
    assert "40..42" in repr(header)


@pytest.mark.parametrize("cut", [0, 1, 16, 17, 60])
def test_too_few_bytes_for_a_header(cut: int) -> None:
    with pytest.raises(InvalidBatch) as caught:
        read_header(BATCH[:cut])
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (1, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (255, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_other_formats(magic: int, code: ErrorCode) -> None:
    other = bytearray(BATCH)
    other[16] = magic
    for data in (other, other[:30]):
        with pytest.raises(InvalidBatch) as caught:
            read_header(data)
        assert caught.value.code == code
    assert magic_at(other) == magic
    assert magic_at(other[:16]) == -1


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_a_length_that_no_batch_has(length: int) -> None:
    with pytest.raises(InvalidBatch) as caught:
        read_header(with_field(BATCH, ">i", 8, length))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(codec: int) -> None:
    header = read_header(with_field(BATCH, ">h", 21, codec))
    with pytest.raises(InvalidBatch) as caught:
        _ = header.compression
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_every_damaged_byte_behind_the_crc_is_found() -> None:
    header = read_header(BATCH)
    assert crc_is_valid(BATCH, 0, header)
    for position in range(21, len(BATCH)):
        damaged = bytearray(BATCH)
        damaged[position] ^= 0x10
        assert not crc_is_valid(damaged, 0, header), position
    assert not crc_is_valid(BATCH[:-1], 0, header)


def test_crc_copies_nothing() -> None:
    large = encode_batch([Record(0, 0, None, bytes(4_000_000))])
    buffer = memoryview(bytearray(b"abc" + large))
    header = read_header(buffer, 3)
    tracemalloc.start()
    try:
        assert crc_is_valid(buffer, 3, header)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", [bytearray, lambda data: memoryview(bytearray(data))])
def test_patched_offset_and_epoch_leave_the_crc_valid(form: type[bytearray]) -> None:
    buffer = form(b"abc" + BATCH)
    patch(buffer, 3, 2**40, 77)
    header = read_header(buffer, 3)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (2**40, 2**40 + 2, 77)
    assert crc_is_valid(buffer, 3, header)
    assert bytes(buffer[:3]) == b"abc" and bytes(buffer[3 + 16 :]) == BATCH[16:]


def test_log_append_time() -> None:
    buffer = bytearray(b"abc" + BATCH)
    patch_log_append_time(buffer, 3, 555)
    header = read_header(buffer, 3)
    assert header.is_log_append_time and header.max_timestamp == 555 and crc_is_valid(buffer, 3, header)
    assert [record.timestamp for record in iter_records(buffer, 3, header, MAX_BYTES)] == [555] * 3
    patch_timestamp(buffer, 3, header, is_log_append_time=False, max_timestamp=1_000_002)
    assert bytes(buffer[3:]) == BATCH
    assert header.crc == read_header(BATCH).crc and not header.is_log_append_time


def test_patch_timestamp_without_a_change_writes_nothing() -> None:
    header = read_header(BATCH)
    patch_timestamp(memoryview(BATCH), 0, header, is_log_append_time=False, max_timestamp=header.max_timestamp)


def test_walking_over_batches_leaves_out_a_cut_one() -> None:
    data = BATCH + encode_batch(many_records(1), base_offset=43)
    both = [(0, 40), (len(BATCH), 43)]
    assert [(position, header.base_offset) for position, header in iter_headers(data)] == both
    assert [(position, header.base_offset) for position, header in iter_headers(b"x" + data + BATCH[:70], 1)] == [
        (1, 40), (1 + len(BATCH), 43),
    ]  # fmt: skip
    for cut in range(1, len(data) - len(BATCH)):
        assert len(list(iter_headers(data[:-cut]))) == 1
    assert len(list(iter_headers(data, 0, len(BATCH)))) == 1
    assert list(iter_headers(b"")) == []


def test_walking_stops_at_what_is_no_batch() -> None:
    with pytest.raises(InvalidBatch):
        list(iter_headers(BATCH + bytes(100)))
    old = bytearray(BATCH[:40])
    old[16] = 1
    with pytest.raises(InvalidBatch) as caught:
        list(iter_headers(BATCH + old))
    assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_sequences_wrap() -> None:
    assert advance_sequence(2**31 - 1, 1) == 0
    assert advance_sequence(2**31 - 3, 5) == 2
    assert rewind_sequence(2, 5) == 2**31 - 3
    assert read_header(BATCH).last_sequence == -1


def test_negative_fields_are_read_signed() -> None:
    header = read_header(with_field(BATCH, ">q", 35, -5))
    assert header.max_timestamp == -5
    assert struct.calcsize(">qiibIhiqqqhii") == HEADER_BYTES
