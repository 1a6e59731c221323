"""Messages of format v0 and v1, against an independent library and against what brokers of old are known to have done."""

from __future__ import annotations

import warnings
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.records import legacy
from protocol.records.any_format import any_crc_is_valid, iter_any_headers, iter_any_records, read_any_header
from protocol.records.batch import NO_TIMESTAMP, InvalidBatch
from protocol.records.compression import Compression, DecompressionTooLarge
from protocol.records.legacy import (
    encode_message,
    encode_message_set,
    inner_messages,
    inner_messages_in_steps,
    legacy_crc_is_valid,
    read_legacy_header,
    read_message,
)
from protocol.records.record import Record, encode_batch
from tests.protocol.records.batches import in_pieces

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the library reads its schemas in a way that is deprecated
    from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

MAX_BYTES = 1 << 20
CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
# The other library writes and reads the wrong header of lz4 in v0 with one more library only.
THEIRS = [(magic, codec) for magic in (0, 1) for codec in CODECS if magic or codec is not Compression.LZ4]
MARCH = 1_700_000_000_000

records_strategy = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=300),
        st.integers(0, 1 << 42),
        st.integers(1, 5),
    ),
    min_size=1,
    max_size=30,
)


def records_of(rows: list[tuple[bytes | None, bytes | None, int, int]], first_offset: int = 0) -> list[Record]:
    found, offset = [], first_offset
    for key, value, timestamp, step in rows:
        found.append(Record(offset, timestamp, key, value))
        offset += step
    return found


def read_all(content: bytes) -> list[Record]:
    found: list[Record] = []
    for position, header in iter_any_headers(content):
        assert any_crc_is_valid(content, position, header)
        found += iter_any_records(content, position, header, MAX_BYTES)
    return found


def timeless(records: list[Record]) -> list[Record]:
    return [Record(each.offset, NO_TIMESTAMP, each.key, each.value) for each in records]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@given(rows=records_strategy, first_offset=st.integers(0, 1 << 40))
@settings(max_examples=25, deadline=None)
def test_what_is_written_is_read(
    magic: int, codec: Compression, rows: list[tuple[bytes | None, bytes | None, int, int]], first_offset: int
) -> None:
    records = records_of(rows, first_offset)
    written = encode_message_set(records, magic, compression=codec)
    assert read_all(written) == (records if magic else timeless(records))
    headers = [header for _, header in iter_any_headers(written)]
    assert headers[-1].last_offset == records[-1].offset
    assert headers[-1].next_offset == records[-1].offset + 1
    if magic and codec:
        assert headers[0].max_timestamp == max(record.timestamp for record in records)


@pytest.mark.parametrize(("magic", "codec"), THEIRS)
@given(rows=records_strategy)
@settings(max_examples=25, deadline=None)
def test_another_library_reads_what_is_written(
    magic: int, codec: Compression, rows: list[tuple[bytes | None, bytes | None, int, int]]
) -> None:
    records = records_of(rows)
    written = encode_message_set(records, magic, compression=codec)
    found: list[tuple[int, int | None, bytes | None, bytes | None]] = []
    for position, header in iter_any_headers(written):
        their_batch = LegacyRecordBatch(memoryview(written)[position : position + header.size_bytes], magic)
        assert their_batch.validate_crc()
        found += [(each.offset, each.timestamp, each.key, each.value) for each in their_batch]
    assert found == [(each.offset, each.timestamp if magic else None, each.key, each.value) for each in records]


@pytest.mark.parametrize(("magic", "codec"), THEIRS)
@given(rows=records_strategy)
@settings(max_examples=25, deadline=None)
def test_what_another_library_writes_is_read(
    magic: int, codec: Compression, rows: list[tuple[bytes | None, bytes | None, int, int]]
) -> None:
    records = records_of(rows)
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=int(codec), batch_size=1 << 20)
    for offset, each in enumerate(records):
        each.offset = offset
        assert builder.append(offset, each.timestamp, each.key, each.value) is not None
    written = bytearray(builder.build())
    if codec:  # it leaves the wrapper's offset to the broker
        written[:8] = (len(records) - 1).to_bytes(8, "big")
    assert read_all(bytes(written)) == (records if magic else timeless(records))


def test_relative_offsets_count_up_to_the_wrapper_s() -> None:
    inner = b"".join(encode_message(1, offset, MARCH, None, b"%d" % offset) for offset in (0, 2, 5))
    for outer, offsets in ((105, [100, 102, 105]), (5, [0, 2, 5]), (0, [0, 2, 5])):
        wrapper = encode_message(1, outer, MARCH, None, _gzip(inner), attributes=1)
        assert [record.offset for record in read_all(wrapper)] == offsets


def test_a_wrapper_of_v0_does_not_change_the_offsets_inside() -> None:
    inner = b"".join(encode_message(0, offset, 0, None, b"x") for offset in (100, 102))
    wrapper = encode_message(0, 102, 0, None, _gzip(inner), attributes=1)
    assert [record.offset for record in read_all(wrapper)] == [100, 102]


def test_a_wrapper_offset_below_the_last_one_inside() -> None:
    inner = b"".join(encode_message(1, offset, MARCH, None, b"x") for offset in (0, 5))
    wrapper = encode_message(1, 3, MARCH, None, _gzip(inner), attributes=1)
    with pytest.raises(InvalidBatch, match="wrapper offset '3'"):
        read_all(wrapper)


def test_a_stamped_wrapper_stamps_what_is_inside() -> None:
    records = [Record(0, 5, None, b"a"), Record(1, 6, None, b"b")]
    stamped = encode_message_set(records, 1, compression=Compression.GZIP, log_append_time_ms=MARCH)
    header = read_any_header(stamped)
    assert header.is_log_append_time and header.max_timestamp == MARCH
    assert [record.timestamp for record in read_all(stamped)] == [MARCH, MARCH]
    by_hand = encode_message(1, 1, MARCH, None, _gzip(encode_message_set(records, 1)), attributes=1 | 8)
    assert [record.timestamp for record in read_all(by_hand)] == [MARCH, MARCH]
    assert [record.timestamp for record in read_all(encode_message_set(records, 1, log_append_time_ms=7))] == [7, 7]


def test_lz4_headers_of_v0_are_written_wrong_and_read_either_way() -> None:
    records = [Record(0, MARCH, None, b"a" * 100)]
    for magic, checksum in ((0, 0x1A), (1, 0x82)):
        value = read_message(encode_message_set(records, magic, compression=Compression.LZ4)).value
        assert value is not None
        assert value[:7] == bytes((0x04, 0x22, 0x4D, 0x18, 0x60, 0x40, checksum))
    right = read_message(encode_message_set(records, 1, compression=Compression.LZ4)).value
    assert right is not None
    for each in (right, right[:6] + b"\x1a" + right[7:]):
        assert len(read_all(encode_message(0, 0, 0, None, each, attributes=3))) == 1
    with pytest.raises(InvalidBatch):
        read_all(encode_message(1, 0, 0, None, right[:6] + b"\x1a" + right[7:], attributes=3))


def test_headers_say_what_messages_are() -> None:
    first, second = encode_message(0, 7, 0, None, None), encode_message(1, 9, MARCH, b"k", b"v", attributes=8)
    assert len(first) == 26
    v0, v1 = read_legacy_header(first), read_legacy_header(second)
    assert (v0.magic, v0.base_offset, v0.last_offset, v0.max_timestamp, v0.size_bytes) == (0, 7, 7, NO_TIMESTAMP, 26)
    assert (v1.magic, v1.next_offset, v1.max_timestamp, v1.is_log_append_time) == (1, 10, MARCH, True)
    assert v1.producer_id == v1.partition_leader_epoch == -1
    assert not (v1.is_control or v1.is_transactional or v1.has_delete_horizon or v1.is_compressed)


def test_control_bits_of_a_message_are_no_control_bits() -> None:
    header = read_legacy_header(encode_message(1, 0, MARCH, None, b"x", attributes=0x70))
    assert not header.is_control and not header.is_transactional


def test_old_and_new_behind_each_other() -> None:
    content = (
        encode_message(0, 0, 0, None, b"a")
        + encode_message_set([Record(1, 1, None, b"b"), Record(2, 2, None, b"c")], 1, compression=Compression.SNAPPY)
        + encode_batch([Record(3, 3, None, b"d")], base_offset=3)
        + encode_message(1, 4, 4, None, None)
    )
    assert [(record.offset, record.value) for record in read_all(content)] == [
        (0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, None),
    ]  # fmt: skip
    positions = [position for position, _ in iter_any_headers(content)] + [len(content)]
    for start, end in pairwise(positions):
        for cut in range(start, end):
            assert [position for position, _ in iter_any_headers(content[:cut])] == [
                position for position in positions if position < start
            ]
            assert all(position < start for position, _ in iter_any_headers(content, 0, cut))


def test_a_cut_message_at_the_end_of_a_wrapped_set_is_not_there() -> None:
    inner = encode_message(1, 0, MARCH, None, b"a") + encode_message(1, 1, MARCH, None, b"b")
    for cut in (1, 10, 20, 34):
        wrapper = encode_message(1, 0, MARCH, None, _gzip(inner[:-cut]), attributes=1)
        assert [record.value for record in read_all(wrapper)] == [b"a"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (encode_message(1, 0, 0, None, None, attributes=1), ErrorCode.INVALID_RECORD),
        (encode_message(1, 0, 0, None, b"", attributes=1), ErrorCode.INVALID_RECORD),
        (encode_message(1, 0, 0, None, b"rubbish", attributes=2), ErrorCode.INVALID_RECORD),
        (encode_message(1, 0, 0, None, b"x", attributes=4), ErrorCode.INVALID_RECORD),
        (encode_message(1, 0, 0, None, b"x", attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)  # fmt: skip
def test_wrappers_that_wrap_nothing(content: bytes, code: ErrorCode) -> None:
    with pytest.raises(InvalidBatch) as caught:
        read_all(content)
    assert caught.value.code is code


def test_a_wrapper_in_a_wrapper_and_rubbish_in_one() -> None:
    inner = encode_message_set([Record(0, 0, None, b"a")], 1, compression=Compression.GZIP)
    for block in (inner, encode_batch([Record(0, 0, None, b"a")]), bytes(40)):
        with pytest.raises(InvalidBatch):
            read_all(encode_message(1, 0, 0, None, _gzip(block), attributes=1))


def test_fields_that_go_beyond_the_message() -> None:
    message = bytearray(encode_message(1, 0, 0, b"key", b"value"))
    for position in (26, 33):
        broken = bytearray(message)
        broken[position : position + 4] = (1000).to_bytes(4, "big")
        with pytest.raises(InvalidBatch):
            read_message(broken)
    with pytest.raises(InvalidBatch):
        read_message(message[:-1])


def test_lengths_that_no_message_has() -> None:
    for magic, length in ((0, 13), (1, 21), (1, -1), (0, 0)):
        message = bytearray(encode_message(magic, 0, 0, None, None) + bytes(20))
        message[8:12] = length.to_bytes(4, "big", signed=True)
        with pytest.raises(InvalidBatch) as caught:
            list(iter_any_headers(message))
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_flipped_bit_is_seen() -> None:
    message = encode_message(1, 3, MARCH, b"k", b"v")
    for position in range(12, len(message)):
        damaged = bytearray(message)
        damaged[position] ^= 1
        if position != 16:
            assert not legacy_crc_is_valid(damaged, 0, read_legacy_header(damaged))


def test_a_bomb_is_stopped() -> None:
    bomb = encode_message_set([Record(0, 0, None, bytes(1 << 22))], 1, compression=Compression.GZIP)
    with pytest.raises(DecompressionTooLarge):
        list(inner_messages(bomb, 0, read_any_header(bomb), MAX_BYTES))


@given(st.binary(max_size=200), st.sampled_from([0, 1]))
@settings(max_examples=300, deadline=None)
def test_rubbish_ends_in_an_error_or_in_records(content: bytes, magic: int) -> None:
    content = content[:16] + bytes((magic,)) + content[17:]
    try:
        for position, header in iter_any_headers(content):
            list(iter_any_records(content, position, header, MAX_BYTES))
    except InvalidBatch:
        pass


def _gzip(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data, mtime=0)


class CountedPiece(bytes):
    """Counts how often anybody asks for its length."""

    looks = 0

    def __len__(self) -> int:
        CountedPiece.looks += 1
        return super().__len__()


def test_a_message_in_many_pieces_costs_no_more_than_its_pieces() -> None:
    """Whoever adds all of them up again with each one has the event loop for minutes."""
    message = encode_message(1, 0, MARCH, None, bytes(4000))
    CountedPiece.looks = 0
    pieces = [CountedPiece(message[at : at + 1]) for at in range(len(message))]
    found = [each for each in legacy._messages(pieces, MAX_BYTES) if each is not None]
    assert [each.value for each in found] == [bytes(4000)]
    assert CountedPiece.looks < 4 * len(pieces)
    with pytest.raises(DecompressionTooLarge):
        list(legacy._messages(pieces, 3000))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY])
@pytest.mark.parametrize("piece", [b"y", b""])
def test_pieces_that_make_no_message_are_told_of(codec: Compression, piece: bytes) -> None:
    """Those who may not keep the loop for long stop there."""
    message, cut = encode_message(1, 0, MARCH, None, b"abc"), encode_message(1, 0, MARCH, None, bytes(9000))[:30]
    value = in_pieces(codec, [message, cut, *[piece] * 5000])
    wrapper = encode_message(1, 0, MARCH, None, value, attributes=codec)
    header = read_legacy_header(wrapper)
    steps = list(inner_messages_in_steps(wrapper, 0, header, MAX_BYTES))
    assert [each.value for each in steps if each is not None] == [b"abc"]
    assert 5000 // 200 < steps.count(None) < 5000 // 20
    assert [each.value for each in inner_messages(wrapper, 0, header, MAX_BYTES)] == [b"abc"]
