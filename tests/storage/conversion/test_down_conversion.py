"""Records of a log for old consumers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode, KafkaError
from protocol.records.any_format import any_crc_is_valid, iter_any_headers, iter_any_records
from protocol.records.batch import read_header
from protocol.records.compression import Compression, CompressionStream
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.legacy import encode_message_set
from protocol.records.record import Record, empty_batch, encode_batch
from storage.conversion.down_conversion import STEP_RECORDS, DownConversion

MAX_BYTES = 1 << 22
CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)


def converted(content: bytes, magic: int, fetch_offset: int = 0) -> bytes:
    conversion = DownConversion(content, magic, fetch_offset)
    for _ in conversion.steps():
        pass
    return conversion.records


def records_in(content: bytes) -> list[Record]:
    found: list[Record] = []
    for position, header in iter_any_headers(content):
        assert any_crc_is_valid(content, position, header)
        found += iter_any_records(content, position, header, MAX_BYTES)
    return found


def sample(count: int, first_offset: int = 0, size: int = 300) -> list[Record]:
    return [
        Record(first_offset + at, 1000 + at, b"key" if at % 2 else None, b"%d" % at * size, [("h", b"x")])
        for at in range(count)
    ]


def as_old(records: list[Record], magic: int) -> list[Record]:
    return [Record(each.offset, each.timestamp if magic else -1, each.key, each.value) for each in records]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_records_stay_what_they_are_but_for_headers(magic: int, codec: Compression) -> None:
    records = sample(20, 100)
    content = encode_batch(records, base_offset=100, compression=codec)
    found = converted(content, magic)
    assert {header.magic for _, header in iter_any_headers(found)} == {magic}
    assert {header.compression for _, header in iter_any_headers(found)} == {codec}
    assert records_in(found) == as_old(records, magic)


def test_the_answer_is_as_large_as_what_was_read_or_its_first_batch() -> None:
    small = [
        encode_batch([Record(at, 5, None, b"x") for at in range(at, at + 10)], base_offset=at)
        for at in range(0, 60, 10)
    ]
    content = b"".join(small)
    found = converted(content, 1)
    assert len(found) == len(content)
    offsets = [record.offset for record in records_in(found)]
    assert offsets == list(range(len(offsets))) and 10 < len(offsets) < 60
    alone = converted(small[0], 1)
    assert len(records_in(alone)) == 10 and len(alone) > len(small[0])


def test_what_is_missing_is_the_beginning_of_a_large_message() -> None:
    content = encode_batch(sample(10), base_offset=0)
    found = converted(content, 0, fetch_offset=9)
    assert len(found) == len(content)
    assert [record.offset for record in records_in(found)] == [9]
    ((position, header),) = iter_any_headers(found)
    rest = found[position + header.size_bytes :]
    assert rest[:8] == b"\xff" * 8 and int.from_bytes(rest[8:12], "big") == len(rest) + 1


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_compressed_batch_stays_together(codec: Compression) -> None:
    content = encode_batch(sample(10), base_offset=0, compression=codec)
    assert [record.offset for record in records_in(converted(content, 1, fetch_offset=7))] == list(range(10))


def test_records_below_the_fetch_offset_go() -> None:
    content = encode_batch(sample(10), base_offset=0) + encode_batch(sample(5, 10), base_offset=10)
    assert [record.offset for record in records_in(converted(content, 1, fetch_offset=7))][:3] == [7, 8, 9]


def test_gaps_of_compaction_stay() -> None:
    records = [Record(offset, 1, None, b"v" * 200) for offset in (3, 7, 8)]
    for codec in CODECS:
        content = encode_batch(records, base_offset=2, compression=codec, keep_offsets=True)
        assert [record.offset for record in records_in(converted(content, 1))] == [3, 7, 8]


def test_stamped_batches() -> None:
    for codec in CODECS:
        content = encode_batch(sample(5), compression=codec, log_append_time_ms=777)
        found = converted(content, 1)
        assert all(header.is_log_append_time for _, header in iter_any_headers(found))
        assert {record.timestamp for record in records_in(found)} == {777}
        assert {record.timestamp for record in records_in(converted(content, 0))} == {-1}


def test_control_batches_and_empty_ones_go() -> None:
    marker = encode_marker(EndTxnMarker(ControlType.COMMIT, 1, 5), producer_id=1, producer_epoch=0, base_offset=3)
    first, last = encode_batch(sample(3), base_offset=0), encode_batch(sample(3, 4), base_offset=4)
    assert [record.offset for record in records_in(converted(marker + last, 1))] == [4, 5, 6]
    assert {record.offset for record in records_in(converted(first + marker + last, 1))} >= {0, 1, 2}
    for nothing in (marker, empty_batch(read_header(first))):
        alone = converted(nothing, 1)
        assert len(alone) == 12 and records_in(alone) == []
    assert converted(b"", 1) == b""
    assert converted(first[:-1], 1) == b""


def test_what_is_old_already_is_answered_as_it_is() -> None:
    records = [Record(at, 9, None, b"v" * 50) for at in range(4)]
    for magic in (0, 1):
        for codec in CODECS:
            content = encode_message_set(records, magic, compression=codec)
            assert converted(content, 1).startswith(content)
            found = converted(content, 0)
            assert [(each.offset, each.value) for each in records_in(found)] == [
                (each.offset, each.value) for each in records
            ][: len(records_in(found))]
            assert records_in(found) and all(header.magic == 0 for _, header in iter_any_headers(found))


def test_wrappers_of_v1_get_absolute_offsets_for_v0() -> None:
    records = [Record(at, 9, None, b"v" * 50) for at in (100, 103)]
    content = encode_message_set(records, 1, compression=Compression.GZIP)
    assert [record.offset for record in records_in(converted(content, 0))] == [100, 103]


def test_zstandard_ends_the_answer_or_refuses_it() -> None:
    plain, zstd = (
        encode_batch(sample(3), base_offset=0),
        encode_batch(sample(3, 3), base_offset=3, compression=Compression.ZSTD),
    )
    assert [record.offset for record in records_in(converted(plain + zstd + plain, 1))] == [0, 1, 2]
    with pytest.raises(KafkaError) as caught:
        converted(zstd + plain, 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_damaged_batch_ends_the_answer_or_refuses_it() -> None:
    plain = encode_batch(sample(3), base_offset=0)
    damaged = bytearray(encode_batch(sample(3, 3), base_offset=3))
    damaged[61] = 0xFF
    assert [record.offset for record in records_in(converted(plain + damaged, 1))] == [0, 1, 2]
    with pytest.raises(KafkaError):
        converted(bytes(damaged), 1)


def test_a_conversion_stops_often_enough() -> None:
    content = encode_batch([Record(at, 1, None, b"") for at in range(3000)], base_offset=0)
    conversion = DownConversion(content, 1, 0)
    assert sum(1 for _ in conversion.steps()) >= 3000 // STEP_RECORDS
    assert conversion.records_count == 3000


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_large_record_is_compressed_in_steps(monkeypatch: pytest.MonkeyPatch, magic: int, codec: Compression) -> None:
    written: list[int] = []
    write = CompressionStream.write

    def noted(stream: CompressionStream, data: bytes) -> None:
        written[-1] += len(data)
        write(stream, data)

    monkeypatch.setattr(CompressionStream, "write", noted)
    records = [
        Record(0, 1000, None, b"first"),
        Record(1, 1001, b"key", bytes(3_000_000)),
        Record(2, 1002, None, b"last"),
    ]
    conversion = DownConversion(encode_batch(records, compression=codec), magic, 0)
    steps = conversion.steps()
    written.append(0)
    written.extend(0 for _ in steps)
    assert sum(written) > 3_000_000
    assert max(written) <= 100_000
    monkeypatch.undo()
    assert records_in(conversion.records) == as_old(records, magic)


@given(
    counts=st.lists(st.tuples(st.integers(1, 8), st.sampled_from(CODECS)), min_size=1, max_size=6),
    magic=st.sampled_from([0, 1]),
    cut=st.integers(0, 100),
    data=st.data(),
)
@settings(max_examples=100, deadline=None)
def test_any_answer_begins_where_it_should_and_never_lies(
    counts: list[tuple[int, Compression]], magic: int, cut: int, data: st.DataObject
) -> None:
    content, offset = b"", 0
    known: list[Record] = []
    for count, codec in counts:
        records = sample(count, offset, size=data.draw(st.integers(1, 40)))
        content += encode_batch(records, base_offset=offset, compression=codec)
        known += as_old(records, magic)
        offset += count
    content = content[: len(content) - cut]
    fetch_offset = data.draw(st.integers(0, counts[0][0] - 1))
    found = records_in(converted(content, magic, fetch_offset))
    at = [each.offset for each in found]
    assert (
        at == list(range(at[0], at[0] + len(at)))
        if at
        else len(content) < 61 or len(list(iter_any_headers(content))) == 0
    )
    assert found == known[at[0] : at[0] + len(at)] if at else True
    assert not at or at[0] <= fetch_offset <= at[-1]
