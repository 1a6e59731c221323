"""Message sets of old producers on their way into the log."""

from __future__ import annotations

import gzip
import tracemalloc
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import read_header
from protocol.records.compression import Compression, CompressionStream
from protocol.records.invalid import InvalidBatch
from protocol.records.legacy import encode_message, encode_message_set
from protocol.records.record import Record, encode_batch, iter_records
from storage.conversion.up_conversion import MAX_INNER_BYTES, STEP_RECORDS, UpConversion, needs_up_conversion
from storage.log.validation import AppendOrigin, ValidationLevel, validate
from tests.protocol.records.batches import in_pieces
from tests.storage.logs import NOW_MS, config

MAX_BYTES = 1 << 24
CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)


def converted(content: bytes, **settings: Any) -> bytes | None:
    conversion = UpConversion(content, config(**settings), "t-0")
    for _ in conversion.steps():
        pass
    return None if conversion.batch is None else bytes(conversion.batch)


def stored(content: bytes, **settings: Any) -> list[Record]:
    """What the log would hold, checked as what any client sends."""
    batch = converted(content, **settings)
    assert batch is not None
    checked = validate(
        bytearray(batch),
        config=config(**settings),
        origin=AppendOrigin.CLIENT,
        now_ms=NOW_MS,
        produce_version=2,
        level=ValidationLevel.FULL,
    )
    return list(iter_records(checked.records, 0, checked.headers[0], MAX_BYTES))


def refusal(content: bytes, **settings: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        stored(content, **settings)
    return caught.value.code


def sample(count: int, size: int = 10) -> list[Record]:
    return [Record(at, NOW_MS + at % 7, None if at % 3 else b"k%d" % at, b"%d" % at * size) for at in range(count)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_records_stay_what_they_are(magic: int, codec: Compression) -> None:
    records = sample(1000)
    content = encode_message_set(records, magic, compression=codec)
    batch = converted(content)
    assert batch is not None
    header = read_header(batch)
    assert (header.compression, header.records_count, header.base_offset) == (codec, 1000, 0)
    assert header.max_timestamp == (NOW_MS + 6 if magic else -1)
    expected = records if magic else [Record(each.offset, -1, each.key, each.value) for each in records]
    assert stored(content) == expected


@pytest.mark.parametrize("topic_codec", ["producer", "zstd"])
@pytest.mark.parametrize("codec", CODECS)
def test_a_large_record_is_compressed_in_steps(
    monkeypatch: pytest.MonkeyPatch, codec: Compression, topic_codec: str
) -> None:
    written: list[int] = []
    write = CompressionStream.write

    def noted(stream: CompressionStream, data: bytes) -> None:
        written[-1] += len(data)
        write(stream, data)

    records = [
        Record(0, NOW_MS, None, b"first"),
        Record(1, NOW_MS, b"key", bytes(3_000_000)),
        Record(2, NOW_MS, None, b""),
    ]
    content = encode_message_set(records, 1, compression=codec)
    limits = config(max_message_bytes="4000000", compression_type=topic_codec)
    monkeypatch.setattr(CompressionStream, "write", noted)
    conversion = UpConversion(content, limits, "t-0")
    steps = conversion.steps()
    written.append(0)
    written.extend(0 for _ in steps)
    assert sum(written) > 3_000_000
    assert max(written) <= 200_000
    monkeypatch.undo()
    assert conversion.batch is not None
    assert list(iter_records(conversion.batch, 0, read_header(conversion.batch), MAX_BYTES)) == records


@given(
    rows=st.lists(
        st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=80), st.integers(-1, 1 << 42)),
        min_size=1,
        max_size=20,
    ),
    magic=st.sampled_from([0, 1]),
    codec=st.sampled_from(CODECS),
    target=st.sampled_from(["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]),
)
@settings(max_examples=100, deadline=None)
def test_any_records_into_any_codec(
    rows: list[tuple[bytes | None, bytes | None, int]], magic: int, codec: Compression, target: str
) -> None:
    records = [Record(at, time, key, value) for at, (key, value, time) in enumerate(rows)]
    content = encode_message_set(records, magic, compression=codec)
    found = stored(content, compression_type=target)
    assert [(each.offset, each.key, each.value) for each in found] == [
        (each.offset, each.key, each.value) for each in records
    ]
    assert [each.timestamp for each in found] == [each.timestamp if magic else -1 for each in records]


def test_offsets_that_producers_made_up_do_not_matter() -> None:
    for offsets in ((5, 6), (0, 0), (9, 2), (-1, -1)):
        content = b"".join(encode_message(1, offset, NOW_MS, None, b"x") for offset in offsets)
        assert [each.offset for each in stored(content)] == [0, 1]


def test_a_conversion_stops_often_enough() -> None:
    content = encode_message_set(sample(5000), 1)
    conversion = UpConversion(content, config(), "t-0")
    assert sum(1 for _ in conversion.steps()) >= 2 * (5000 // STEP_RECORDS)
    assert conversion.records_count == 5000
    few_but_large = encode_message_set(sample(20, size=20_000), 1)
    conversion = UpConversion(few_but_large, config(), "t-0")
    assert sum(1 for _ in conversion.steps()) >= 5


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY])
def test_a_conversion_stops_in_a_message_that_comes_in_many_pieces(codec: Compression) -> None:
    inner = encode_message(1, 0, NOW_MS, None, b"x" * 5000)
    cut = inner[:8] + (8_000_000).to_bytes(4, "big") + inner[12:]
    pieces = [bytes([byte]) for byte in cut]
    wrapper = encode_message(1, 0, NOW_MS, None, in_pieces(codec, pieces), attributes=codec)
    steps: list[None] = []
    with pytest.raises(InvalidBatch):
        deque(map(steps.append, UpConversion(wrapper, config(), "t-0").steps()), maxlen=0)
    assert len(steps) >= 5000 // 200


def test_cut_messages_are_not_there() -> None:
    content = encode_message_set(sample(3), 1)
    one = len(encode_message_set(sample(1), 1))
    assert [each.offset for each in stored(content[:-1])] == [0, 1]
    assert [each.offset for each in stored(content[: one + 5])] == [0]
    assert converted(content[:20]) is None


def test_what_is_a_message_set() -> None:
    assert needs_up_conversion(encode_message(0, 0, 0, None, None))
    assert not needs_up_conversion(encode_batch([Record(0, 0, None, b"")]))
    assert not needs_up_conversion(None)
    assert not needs_up_conversion(b"")


@pytest.mark.parametrize("magic", [0, 1])
def test_refusals(magic: int) -> None:
    message = encode_message(magic, 0, NOW_MS, None, b"a")
    other = encode_message(1 - magic, 0, NOW_MS, None, b"a")
    damaged = message[:-1] + b"b"

    def wrapped(inner: bytes, offset: int = 0, codec: int = 1) -> bytes:
        return encode_message(magic, offset, NOW_MS, None, gzip.compress(inner), attributes=codec)

    wrapper = wrapped(message)
    assert stored(wrapper)
    assert refusal(damaged) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(message + damaged) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(wrapped(damaged)) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(wrapper + wrapper) is ErrorCode.INVALID_RECORD
    assert refusal(message + wrapper) is ErrorCode.INVALID_RECORD
    assert refusal(message + other) is ErrorCode.INVALID_RECORD
    assert refusal(message + encode_batch([Record(0, 0, None, b"")])) is ErrorCode.INVALID_RECORD
    assert refusal(wrapped(other)) is ErrorCode.INVALID_RECORD
    assert refusal(wrapped(wrapper)) is ErrorCode.INVALID_RECORD
    assert refusal(wrapped(b"")) is ErrorCode.INVALID_RECORD
    assert refusal(wrapped(message, codec=4)) is ErrorCode.INVALID_RECORD
    assert refusal(message[:8] + (13).to_bytes(4, "big") + message[12:]) is ErrorCode.CORRUPT_MESSAGE
    if magic:  # v0 has no timestamps
        early = encode_message(1, 0, -2, None, b"a")
        assert refusal(early) is refusal(wrapped(early)) is ErrorCode.INVALID_RECORD
    assert refusal(message, cleanup_policy="compact") is ErrorCode.INVALID_RECORD


def test_a_wrapper_offset_must_fit() -> None:
    inner = encode_message(1, 0, NOW_MS, None, b"a") + encode_message(1, 5, NOW_MS, None, b"a")
    for offset, fits in ((0, True), (3, False), (5, True), (77, True)):
        content = encode_message(1, offset, NOW_MS, None, gzip.compress(inner), attributes=1)
        assert (len(stored(content)) == 2) if fits else (refusal(content) is ErrorCode.INVALID_RECORD)


def test_sizes() -> None:
    large = encode_message(1, 0, NOW_MS, None, b"a" * 300)
    assert refusal(large, max_message_bytes="200") is ErrorCode.MESSAGE_TOO_LARGE
    small = encode_message_set(sample(20), 1)
    assert refusal(small, max_message_bytes="200") is ErrorCode.MESSAGE_TOO_LARGE
    shrinks = encode_message_set([Record(0, 0, None, bytes(10_000))], 1, compression=Compression.GZIP)
    assert len(shrinks) < 200
    assert len(stored(shrinks, max_message_bytes="200")) == 1
    assert refusal(shrinks, max_message_bytes="200", compression_type="uncompressed") is ErrorCode.MESSAGE_TOO_LARGE


def test_a_bomb_is_refused_before_it_fills_the_memory() -> None:
    bomb = encode_message_set([Record(0, 0, None, bytes(70 << 20))], 1, compression=Compression.GZIP)
    assert len(bomb) < 100_000
    assert refusal(bomb) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_bomb_of_one_message_is_refused_before_it_is_made_into_a_record() -> None:
    bomb = encode_message_set([Record(0, NOW_MS, None, bytes(4 * MAX_INNER_BYTES))], 1, compression=Compression.GZIP)
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError) as caught:
            converted(bomb)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_INNER_BYTES
    finally:
        tracemalloc.stop()


def test_timestamps() -> None:
    stamped = encode_message(1, 0, NOW_MS, None, b"a", attributes=8)
    assert [each.timestamp for each in stored(stamped)] == [NOW_MS]
    assert refusal(stamped, message_timestamp_type="LogAppendTime") is ErrorCode.INVALID_TIMESTAMP
    unknown = encode_message(1, 0, -1, None, b"a", attributes=8)
    assert refusal(unknown) is ErrorCode.INVALID_TIMESTAMP
    old = encode_message(1, 0, NOW_MS - 5000, None, b"a")
    assert refusal(old, message_timestamp_before_max_ms="1000") is ErrorCode.INVALID_TIMESTAMP
    assert stored(encode_message(0, 0, 0, None, b"a"), message_timestamp_before_max_ms="1000")
    assert [each.timestamp for each in stored(old, message_timestamp_type="LogAppendTime")] == [NOW_MS]


def test_the_topic_s_level_counts() -> None:
    content = encode_message_set(sample(3000), 1, compression=Compression.GZIP)
    sizes = [
        len(converted(content, compression_type="gzip", compression_gzip_level=level) or b"") for level in ("1", "9")
    ]
    assert sizes[1] < sizes[0]


@given(data=st.data(), magic=st.sampled_from([0, 1]), codec=st.sampled_from(CODECS), wrapped=st.booleans())
@settings(max_examples=200, deadline=None)
def test_damage_is_refused_in_words_that_a_client_understands(
    data: st.DataObject, magic: int, codec: Compression, wrapped: bool
) -> None:
    content = bytearray(encode_message_set(sample(6), magic, compression=Compression.NONE if wrapped else codec))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if wrapped:  # damage behind a right checksum
        content = bytearray(encode_message(magic, 5, 0, None, gzip.compress(content), attributes=1))
    if not needs_up_conversion(content):
        return
    assert outcome(bytes(content)) in (
        None,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    )


def outcome(content: bytes) -> ErrorCode | None:
    try:
        converted(content)
    except KafkaError as error:
        return error.code
    return None


def test_many_small_messages_take_little_memory() -> None:
    content = encode_message(0, 0, 0, None, None) * 50_000
    assert len(content) == 50_000 * 26
    conversion = UpConversion(content, config(compression_type="gzip"), "t-0")
    tracemalloc.start()
    try:
        for _ in conversion.steps():
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert conversion.records_count == 50_000
    assert peak < 1 << 20
