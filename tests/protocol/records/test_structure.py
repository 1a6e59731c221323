"""The walk over lengths, against a plain one, and what it refuses."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.primitives import DecodeError
from protocol.records import structure
from protocol.records.batch import BatchHeader, InvalidBatch, read_header
from protocol.records.compression import (
    PIECE_STEPS,
    Compression,
    DecompressionTooLarge,
    TooManySteps,
    compress,
    decompress,
)
from protocol.records.fields import MIN_RECORD_BYTES, check_full
from protocol.records.record import Record, encode_batch, encode_record
from protocol.records.structure import check_structure
from protocol.varint import decode_varint, decode_varlong, encode_varint
from tests.protocol.records.batches import ALL_CODECS, MAX_BYTES, in_pieces, many_records, with_field, with_records

TEMPLATE = encode_batch(many_records(1))


def plain_walk_takes(block: bytes, count: int, last_offset_delta: int) -> bool:
    """What `check_structure` is to find, said plainly."""
    at, offset_delta = 0, None
    try:
        for _ in range(count):
            length, at = decode_varint(block, at)
            end = at + length
            if length < MIN_RECORD_BYTES or end > len(block):
                return False
            _, at = decode_varlong(block, at + 1)
            offset_delta, at = decode_varint(block, at)
            for _ in range(2):  # key and value
                size, at = decode_varint(block, at)
                at += max(size, 0)
            headers, at = decode_varint(block, at)
            if not 0 <= headers <= end - at:
                return False
            for _ in range(headers):
                size, at = decode_varint(block, at)
                if size < 0:
                    return False
                size, at = decode_varint(block, at + size)
                at += max(size, 0)
            if at != end:
                return False
    except DecodeError:
        return False
    return at == len(block) and offset_delta == last_offset_delta


def takes(batch: bytes) -> bool:
    try:
        check_structure(batch, 0, read_header(batch), MAX_BYTES)
    except InvalidBatch as error:
        if error.code != ErrorCode.INVALID_RECORD:
            raise
        return False
    return True


def blocks(
    sizes: list[int], key: bytes | None = None, headers: Sequence[tuple[str, bytes | None]] = (), delta_ms: int = 1
) -> list[bytes]:
    return [
        encode_record(Record(0, 0, key, bytes(size), list(headers)), index, index * delta_ms)
        for index, size in enumerate(sizes)
    ]


# Values of one size make runs; those around 58, 8185 and 2**20 make lengths of one, two, three and four bytes.
SIZES = st.one_of(
    st.integers(0, 200).flatmap(lambda size: st.lists(st.just(size), min_size=1, max_size=400)),
    st.lists(st.sampled_from((0, 50, 56, 57, 58, 59, 100, 8180, 8190, 9000)), min_size=1, max_size=40),
    st.tuples(st.integers(0, 150), st.integers(0, 150)).flatmap(
        lambda pair: st.lists(st.sampled_from(pair), min_size=60, max_size=300)
    ),
)
ODD_LENGTHS = (
    b"\x00",
    b"\x01",
    b"\x0a",
    b"\x0c",
    b"\x80\x01",
    b"\x8c\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x80" * 6,
    b"\x80",
)


@settings(max_examples=150, deadline=None)
@given(SIZES, st.data())
def test_equals_the_plain_walk(sizes: list[int], data: st.DataObject) -> None:
    parts = blocks(
        sizes,
        data.draw(st.sampled_from((None, b"", b"key", bytes(63), bytes(64), bytes(9000)))),
        data.draw(st.sampled_from(((), (("h", b"v"),), (("trace", bytes(70)), ("", None)), (("h", b""),) * 40))),
        data.draw(st.sampled_from((0, 1, -1, 40, 9000, 1 << 40))),
    )
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(parts) - 1))
        kind = data.draw(st.integers(0, 4))
        if kind == 4:  # any byte: most of those at the start and at the end are lengths
            place = data.draw(st.one_of(st.integers(0, 12), st.integers(-40, -1)))
            changed = bytearray(parts[at])
            changed[max(min(place, len(changed) - 1), -len(changed))] = data.draw(
                st.sampled_from((0, 1, 2, 3, 4, 0x7F, 0x80, 0x81, 0xFF))
            )
            parts[at] = bytes(changed)
            continue
        if kind == 0:
            parts[at] = data.draw(st.sampled_from(ODD_LENGTHS)) + parts[at][1:]
        elif kind == 1:
            parts[at] = parts[at][:-1]
        elif kind == 2:
            parts[at] += b"\x00"
        else:
            parts.insert(at, parts[at])
    block, count = b"".join(parts), len(sizes) + data.draw(st.sampled_from((0, 0, 0, 0, -1, 1)))
    batch = bytes(with_records(TEMPLATE, block, count))
    if count > 0:
        assert takes(batch) == plain_walk_takes(block, count, count - 1)


def test_every_broken_place_in_a_run() -> None:
    """Long runs are checked by columns: a length that differs must be found wherever it stands."""
    for value_bytes in (20, 100):
        parts = blocks([value_bytes] * 500)
        assert takes(bytes(with_records(TEMPLATE, b"".join(parts), 500)))
        for index in (0, 63, 64, 65, 66, 100, 128, 129, 200, 447, 498, 499):
            broken = list(parts)
            broken[index] = bytes([broken[index][0] ^ 2]) + broken[index][1:]
            block = b"".join(broken)
            assert takes(bytes(with_records(TEMPLATE, block, 500))) == plain_walk_takes(block, 500, 499)
            assert not takes(bytes(with_records(TEMPLATE, block, 500)))


@pytest.mark.parametrize("headers", [(), (("trace", b"abc"), ("n", None))])
def test_every_broken_field_in_a_run(headers: Sequence[tuple[str, bytes | None]]) -> None:
    parts = blocks([20] * 300, b"key", headers, delta_ms=0)
    for index in (70, 150, 298, 299):
        for place in range(len(parts[index])):
            for byte in (0, 1, 2, 0x7E, 0x80, 0xFF):
                changed = bytearray(parts[index])
                changed[place] = byte
                block = b"".join((*parts[:index], bytes(changed), *parts[index + 1 :]))
                assert takes(bytes(with_records(TEMPLATE, block, 300))) == plain_walk_takes(block, 300, 299), place


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_a_length_that_would_break_its_readers(codec: Compression) -> None:
    """Of a value, key or header that does not fit into its record: as acknowledged records nobody could read them."""
    good = encode_record(Record(0, 0, b"key", b"a value of 20 bytes.", [("h", b"v")]), 0, 0)
    for wanted, place in ((b"\x06key", 0), (b"\x28a v", 0), (b"\x02\x02h", 0), (b"\x02h", 0), (b"\x02v", 0)):
        for wrong in (b"\x88\x0e", b"\x7e", b"\x04", b"\xfe\xff\xff\xff\x0f"):
            at = good.index(wanted) + place
            body = good[1:at] + wrong + good[at + 1 :]
            for record in (encode_varint(len(body)) + body, encode_varint(len(good) - 1) + body[: len(good) - 1]):
                for count in (1, 3):
                    block = b"".join([*blocks([5] * count)[: count - 1], record])
                    batch = encode_batch(many_records(1), compression=codec)
                    assert not takes(bytes(with_records(batch, compress(codec, block), count))), (wanted, wrong)


@pytest.mark.parametrize("codec", ALL_CODECS)
@pytest.mark.parametrize("value_bytes", [5, 100, 9000, 200_000])
def test_chunks_that_end_anywhere(codec: Compression, value_bytes: int) -> None:
    """About 3 MiB, so that compressed data comes in several chunks."""
    source = random.Random(value_bytes)
    sizes = [source.randint(value_bytes // 2, value_bytes) for _ in range(max(3_000_000 // value_bytes // 40, 20))]
    block = b"".join(blocks(sizes))
    batch = encode_batch([Record(0, index, None, bytes(size)) for index, size in enumerate(sizes)], compression=codec)
    header = read_header(batch)
    assert header.records_count == len(sizes)
    check_structure(batch, 0, header, MAX_BYTES)
    assert takes(bytes(with_records(batch, compress(codec, block), len(sizes))))
    for wrong in (block + b"\x00", block[:-1], block + blocks([3])[0]):
        assert not takes(bytes(with_records(batch, compress(codec, wrong), len(sizes))))
    assert not takes(bytes(with_records(batch, compress(codec, block), len(sizes) - 1)))
    assert not takes(bytes(with_records(batch, compress(codec, block), len(sizes) + 1)))


def test_chunks_of_every_length(monkeypatch: pytest.MonkeyPatch) -> None:
    block = b"".join(blocks([3, 70, 70, 9000, 0, 58, 57, 200, 1], b"k" * 70, [("h", b"v"), ("trace", None)]))
    batch = with_records(TEMPLATE, compress(Compression.LZ4, block), 9)
    batch = bytes(with_field(bytes(batch), ">h", 21, Compression.LZ4))
    for chunk_bytes in (*range(1, 80), 1000, 9100):
        monkeypatch.setattr("protocol.records.compression.CHUNK_BYTES", chunk_bytes)
        assert takes(batch), chunk_bytes


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_the_last_offset_delta_is_that_of_the_last_record(codec: Compression) -> None:
    records = many_records(10)
    batch = encode_batch(records, compression=codec)
    block = b"".join(encode_record(record, delta, 0) for delta, record in zip([*range(9), 11], records, strict=True))
    changed = bytes(with_records(batch, compress(codec, block)))
    assert not takes(changed)
    with pytest.raises(InvalidBatch):
        check_full(changed, 0, read_header(changed), MAX_BYTES)


def test_only_the_full_check_reads_the_deltas_between() -> None:
    records = many_records(4)
    block = b"".join(encode_record(record, delta, 0) for delta, record in zip([0, 2, 1, 3], records, strict=True))
    batch = bytes(with_records(encode_batch(records), block))
    assert takes(batch)
    with pytest.raises(InvalidBatch) as caught:
        check_full(batch, 0, read_header(batch), MAX_BYTES)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_counts_of_no_records() -> None:
    assert not takes(bytes(with_field(TEMPLATE, ">i", 57, -1)))
    assert not takes(bytes(with_field(TEMPLATE, ">i", 57, 0)))
    assert takes(bytes(with_records(TEMPLATE, b"", 0)))


@pytest.mark.parametrize("check", [check_structure, check_full])
def test_a_batch_that_is_not_there_as_a_whole(check: type) -> None:
    with pytest.raises(InvalidBatch) as caught:
        check(TEMPLATE[:-1], 0, read_header(TEMPLATE), MAX_BYTES)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("check", [check_structure, check_full])
def test_an_unknown_codec(check: type) -> None:
    batch = bytes(with_field(TEMPLATE, ">h", 21, 6))
    with pytest.raises(InvalidBatch) as caught:
        check(batch, 0, read_header(batch), MAX_BYTES)
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", ALL_CODECS[1:])
def test_a_large_batch_is_checked_in_little_memory(codec: Compression) -> None:
    batch = encode_batch([Record(0, 0, None, bytes(30_000_000)), Record(0, 1, None, b"")], compression=codec)
    header = read_header(batch)
    tracemalloc.start()
    try:
        check_structure(batch, 0, header, MAX_BYTES)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(DecompressionTooLarge):
        check_structure(batch, 0, header, 10_000_000)


def test_works_at_a_position_of_any_buffer() -> None:
    batch = encode_batch(many_records(100))
    padded = b"abc" + batch + b"more"
    for buffer in (padded, bytearray(padded), memoryview(padded), memoryview(bytearray(padded))):
        header = read_header(buffer, 3)
        assert isinstance(header, BatchHeader)
        check_structure(buffer, 3, header, MAX_BYTES)
        check_full(buffer, 3, header, MAX_BYTES)


def test_long_lengths() -> None:
    for size in (70_000, 2_200_000):
        batch = encode_batch([Record(0, index, None, bytes(size)) for index in range(3)])
        assert takes(batch)
    overlong = b"\x8c\x80\x80\x80\x00" + bytes(6)
    assert encode_varint(6) == b"\x0c"
    assert takes(bytes(with_records(TEMPLATE, overlong, 1)))
    assert not takes(bytes(with_records(TEMPLATE, b"\x8c\x80\x80\x80\x80\x00" + bytes(6), 1)))


def test_plain_data_is_what_decompress_answers() -> None:
    assert decompress(Compression.NONE, b"abc", 3) == b"abc"


# A record's first bytes decide: its length, its attributes, the two deltas.
@given(
    size=st.one_of(st.integers(0, 80), st.sampled_from((8180, 8186, 9000))),
    starts=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from((0, 1, 2, 10, 12, 0x7F, 0x80, 0x81, 0xFF))), max_size=3
    ),
    cut=st.integers(-2, 2),
)
def test_one_record_is_judged_as_any_other(size: int, starts: list[tuple[int, int]], cut: int) -> None:
    block = bytearray(encode_record(Record(0, 0, None, bytes(size)), 0, 0))
    for position, byte in starts:
        block[position] = byte
    block = block[:cut] if cut < 0 else block + bytes(cut)
    assert takes(bytes(with_records(TEMPLATE, bytes(block), 1))) == plain_walk_takes(bytes(block), 1, 0)


def test_the_usual_record_of_a_batch_of_one_is_known_at_a_glance() -> None:
    for size in (50, 58, 100, 1000, 8000):
        batch = encode_batch([Record(0, 5, None, bytes(size))])
        assert structure._is_usual_single_record(batch, 0, read_header(batch))


@pytest.mark.parametrize("check", [check_structure, check_full])
@pytest.mark.parametrize("codec", ALL_CODECS[1:])
def test_a_batch_takes_no_more_steps_than_it_may(check: type, codec: Compression) -> None:
    """Of each codec there is data of which hardly anything comes, however much of it there is."""
    batch = encode_batch([Record(0, 0, b"k", b"v")], compression=codec)
    block = encode_record(Record(0, 0, b"k", b"v"), 0, 0)
    few = with_records(batch, bytes(compress(codec, block)))
    check(few, 0, read_header(few), MAX_BYTES, 10 * PIECE_STEPS)
    if codec is Compression.LZ4:  # whose library does all of it in one step
        return
    many = with_records(batch, _nothing(codec) + compress(codec, block))
    check(many, 0, read_header(many), MAX_BYTES)
    with pytest.raises(TooManySteps):
        check(many, 0, read_header(many), MAX_BYTES, 10 * PIECE_STEPS)


def _nothing(codec: Compression) -> bytes:
    if codec is Compression.ZSTD:  # a frame of 1,000 blocks without content
        return b"\x28\xb5\x2f\xfd\x00\x58" + b"\x00\x00\x00" * 999 + b"\x01\x00\x00"
    return in_pieces(codec, [b""] * 1000)


def test_headers_are_steps() -> None:
    def steps(*counts: int) -> bytes:
        return encode_batch([Record(0, 0, b"k", b"v", [("h", None)] * count) for count in counts])

    for counts in ((100,), (50, 50), (0, 100, 0)):
        batch = steps(*counts)
        check_full(batch, 0, read_header(batch), MAX_BYTES, 100)
        check_structure(batch, 0, read_header(batch), MAX_BYTES, 100)
        for check in (check_full, check_structure):
            with pytest.raises(TooManySteps):
                check(batch, 0, read_header(batch), MAX_BYTES, 99)
