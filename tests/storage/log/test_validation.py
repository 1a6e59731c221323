"""What may enter a log, refusal by refusal. What the topic makes of it: `test_rewritten_batches.py`."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import HEADER, InvalidBatch, crc_of, patch, read_header
from protocol.records.compression import PIECE_STEPS, Compression, compress
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.record import Record, encode_batch, encode_record, plain_records
from storage.log import validation
from storage.log.recompression import INLINE_COSTLY_BYTES, INLINE_RECOMPRESSED_BYTES, INLINE_RECOMPRESSED_PLAIN_BYTES
from storage.log.record_errors import MAX_RECORD_ERRORS, RecordsRejected
from storage.log.validation import (
    INLINE_RECORDS,
    INLINE_STEPS,
    AppendOrigin,
    LongValidation,
    PlainBatchRules,
    ValidatedRecords,
    ValidationLevel,
    plain_batch,
    validate,
)
from tests.protocol.records.batches import ALL_CODECS, in_pieces, many_records, with_field, with_records
from tests.storage.log.validating import (
    APPEND_TIME,
    BATCH,
    COMPACTED,
    HOUR_MS,
    LEVELS,
    LIMITED,
    PLAIN,
    produced,
    refusal,
    swapped,
)
from tests.storage.logs import NOW_MS, config

# --- what is taken ---


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("codec", ALL_CODECS)
def test_a_good_batch_is_taken_in_place(level: ValidationLevel, codec: Compression) -> None:
    buffer = bytearray(encode_batch(many_records(20), compression=codec))
    checked = produced(memoryview(buffer), level=level)
    assert checked.log_append_time_ms == -1
    assert [header.records_count for header in checked.headers] == [20]
    patch(checked.records, 0, 500, 3)
    assert read_header(buffer).base_offset == 500, "the caller's buffer, not a copy"


def test_a_buffer_that_cannot_be_written_is_copied() -> None:
    checked = produced(BATCH)
    patch(checked.records, 0, 500, 3)
    assert read_header(BATCH).base_offset == 0
    assert checked.records[16:] == BATCH[16:]


def test_a_cut_batch_behind_the_first_is_left_out() -> None:
    checked = produced(BATCH + BATCH[:-1])
    assert bytes(checked.records) == BATCH


@pytest.mark.parametrize("version", [0, 2])
def test_old_produce_takes_nothing_and_v2_batches(version: int) -> None:
    assert produced(b"", version=version).headers == []
    assert produced(BATCH[:-1], version=version).headers == []
    assert len(produced(encode_batch(many_records(1), compression=Compression.ZSTD), version=version).headers) == 1


# --- the short way ---


@pytest.mark.parametrize("level", [ValidationLevel.HEADER, ValidationLevel.STRUCTURE])
@pytest.mark.parametrize("codec", [codec for codec in ALL_CODECS if codec is not Compression.ZSTD])
def test_what_producers_usually_send_is_plain(level: ValidationLevel, codec: Compression) -> None:
    rules = PlainBatchRules(PLAIN, level)
    for count in (1, 20):
        assert plain_batch(bytearray(encode_batch(many_records(count), compression=codec)), rules) is not None


@pytest.mark.parametrize(
    ("topic", "level"),
    [
        (APPEND_TIME, ValidationLevel.HEADER),
        (COMPACTED, ValidationLevel.HEADER),
        (LIMITED, ValidationLevel.HEADER),
        (config(compression_type="gzip"), ValidationLevel.STRUCTURE),
        (config(compression_type="uncompressed"), ValidationLevel.STRUCTURE),
        (config(max_message_bytes=str(len(BATCH) - 1)), ValidationLevel.STRUCTURE),
        (config(segment_bytes=str(len(BATCH) - 1)), ValidationLevel.STRUCTURE),
        (PLAIN, ValidationLevel.FULL),
    ],
)
def test_topics_that_ask_for_more_have_no_plain_batches(topic: LogConfig, level: ValidationLevel) -> None:
    assert plain_batch(bytearray(BATCH), PlainBatchRules(topic, level)) is None


HEADER_FIELDS = 13
ODD_VALUES = st.one_of(st.sampled_from((-1, 0, 1, 2, 3, 4, 5, 8, 16, 32, 64, 49, 61)), st.integers(-(2**15), 2**15 - 1))


@given(
    count=st.integers(1, 4),
    codec=st.sampled_from(ALL_CODECS),
    changes=st.lists(st.tuples(st.integers(0, HEADER_FIELDS - 1), ODD_VALUES), max_size=3),
    damage=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=2),
    cut=st.integers(-2, 2),
    has_right_crc=st.booleans(),
    level=st.sampled_from((ValidationLevel.HEADER, ValidationLevel.STRUCTURE)),
)
def test_the_short_way_takes_and_refuses_as_the_long_one(
    count: int,
    codec: Compression,
    changes: list[tuple[int, int]],
    damage: list[tuple[int, int]],
    cut: int,
    has_right_crc: bool,
    level: ValidationLevel,
) -> None:
    batch = bytearray(encode_batch(many_records(count), compression=codec))
    for position, byte in damage:
        batch[position % len(batch)] = byte
    fields = list(HEADER.unpack_from(batch))
    for field, value in changes:
        if field == 3:  # magic: one byte
            value %= 3
        fields[field] = value & 0xFFFFFFFF if field == 4 else value
    HEADER.pack_into(batch, 0, *fields)
    batch = batch[:cut] if cut < 0 else batch + bytes(cut)
    if has_right_crc:
        fields[4] = crc_of(batch, 0, len(batch))
        HEADER.pack_into(batch, 0, *fields)
    before = bytes(batch)

    short: object
    try:
        short = plain_batch(batch, PlainBatchRules(PLAIN, level))
    except KafkaError as error:
        short = error
    assert bytes(batch) == before
    if short is None:
        return
    if isinstance(short, KafkaError):
        long = refusal(bytes(batch), level=level)
        assert (type(short), short.code, short.message) == (type(long), long.code, long.message)
        return
    checked = produced(batch, level=level)
    assert bytes(checked.records) == before
    assert checked.log_append_time_ms == -1
    (header,) = checked.headers
    assert all(getattr(header, name) == getattr(short, name) for name in header.__slots__)


# --- refusals by the header ---


def test_no_batch() -> None:
    for records in (b"", BATCH[:11], BATCH[:16], BATCH[:-1]):
        assert refusal(records).code == ErrorCode.INVALID_RECORD


def test_two_batches() -> None:
    for version in (2, 3, 9, 11):
        assert refusal(BATCH + BATCH, version=version).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats(magic: int) -> None:
    old = bytearray(BATCH)
    old[16] = magic
    assert refusal(old, version=2).code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert refusal(old, version=3).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("position", "form", "value"), [(16, ">b", 3), (16, ">B", 255), (8, ">i", 13), (8, ">i", -1)])
def test_no_batch_at_all(position: int, form: str, value: int) -> None:
    for version in (2, 9):
        assert refusal(with_field(BATCH, form, position, value), version=version).code == ErrorCode.CORRUPT_MESSAGE


def test_a_length_below_a_header() -> None:
    assert refusal(with_field(BATCH, ">i", 8, 48)).code == ErrorCode.CORRUPT_MESSAGE


def test_zstd_before_version_7() -> None:
    batch = encode_batch(many_records(2), compression=Compression.ZSTD)
    for version in (3, 6):
        assert refusal(batch, version=version).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    for version in (2, 7, None):
        assert produced(batch, version=version).headers


@pytest.mark.parametrize("level", LEVELS)
def test_unknown_codec(level: ValidationLevel) -> None:
    assert refusal(with_field(BATCH, ">h", 21, 6), level=level).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_batch_that_is_too_large() -> None:
    assert produced(BATCH, config(max_message_bytes=str(len(BATCH)))).headers
    too_small = config(max_message_bytes=str(len(BATCH) - 1))
    assert refusal(BATCH, too_small).code == ErrorCode.MESSAGE_TOO_LARGE
    damaged = bytearray(BATCH)
    damaged[-1] ^= 1
    assert refusal(damaged, too_small).code == ErrorCode.MESSAGE_TOO_LARGE, "before its CRC, as in Kafka"


def test_a_batch_larger_than_a_segment() -> None:
    assert produced(BATCH, config(segment_bytes=str(len(BATCH)))).headers
    assert refusal(BATCH, config(segment_bytes=str(len(BATCH) - 1))).code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_damage() -> None:
    for position in (17, 22, 61, len(BATCH) - 1):
        damaged = bytearray(BATCH)
        damaged[position] ^= 1
        assert refusal(damaged, level=ValidationLevel.HEADER).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("position", "form", "value"),
    [
        (0, ">q", 5),  # base offset
        (23, ">i", -1),  # last offset delta
        (23, ">i", 18),
        (23, ">i", 20),
        (57, ">i", 0),  # records count
        (57, ">i", -1),
        (57, ">i", 21),
        (21, ">h", 0x20),  # a control batch
    ],
)
@pytest.mark.parametrize("level", LEVELS)
def test_a_header_that_is_not_a_clients(position: int, form: str, value: int, level: ValidationLevel) -> None:
    assert refusal(with_field(BATCH, form, position, value), level=level).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("level", LEVELS)
def test_a_producer_without_a_sequence(level: ValidationLevel) -> None:
    for sequence in (-1, -5):
        batch = encode_batch(many_records(1), producer_id=4, producer_epoch=0, base_sequence=sequence)
        assert refusal(batch, level=level).code == ErrorCode.INVALID_RECORD


def test_what_kafka_takes_of_odd_producers() -> None:
    assert produced(encode_batch(many_records(1), producer_id=4, producer_epoch=-1, base_sequence=0)).headers
    assert produced(encode_batch(many_records(1), producer_id=-2, producer_epoch=0, base_sequence=-1)).headers
    assert produced(encode_batch(many_records(1), is_transactional=True)).headers


def test_damage_is_found_before_what_it_damaged() -> None:
    damaged = bytearray(BATCH)
    damaged[22] |= 7
    assert refusal(damaged).code == ErrorCode.CORRUPT_MESSAGE, "not an unknown codec"


def test_a_transactional_batch() -> None:
    batch = encode_batch(many_records(1), producer_id=4, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert produced(batch).headers[0].is_transactional


# --- refusals by the records ---


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_the_levels_look_further_and_further(codec: Compression) -> None:
    batch = encode_batch(many_records(20), compression=codec)
    cut = bytes(with_records(batch, compress(codec, b"".join(encode_record(each, 0, 0) for each in many_records(19)))))
    header_only = ValidationLevel.HEADER
    assert produced(cut, level=header_only).headers
    assert produced(swapped(codec), level=header_only).headers
    assert produced(swapped(codec), level=ValidationLevel.STRUCTURE).headers
    assert refusal(cut, level=ValidationLevel.STRUCTURE).code == ErrorCode.INVALID_RECORD
    assert refusal(cut, level=ValidationLevel.FULL).code == ErrorCode.INVALID_RECORD
    assert refusal(swapped(codec), level=ValidationLevel.FULL).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", ALL_CODECS[1:])
def test_a_bomb(codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_DECOMPRESSED_BYTES", 2_000_000)
    bomb = encode_batch([Record(0, 0, None, bytes(3_000_000))], compression=codec)
    for level in (ValidationLevel.STRUCTURE, ValidationLevel.FULL):
        assert refusal(bomb, level=level).code == ErrorCode.MESSAGE_TOO_LARGE


def in_many_pieces(codec: Compression) -> bytes:
    """A batch whose records come out byte by byte."""
    batch = encode_batch([Record(0, 0, b"k", bytes(INLINE_STEPS // PIECE_STEPS))], compression=codec)
    block = bytes(plain_records(batch, 0, read_header(batch), 1 << 20))
    return bytes(with_records(batch, in_pieces(codec, [bytes([byte]) for byte in block])))


COSTLY = config(compression_type="zstd", compression_zstd_level="12")


@pytest.mark.parametrize(
    ("batch", "topic"),
    [
        (encode_batch([Record(0, 0, None, bytes(5 << 20))], compression=Compression.GZIP), PLAIN),
        (encode_batch(many_records(INLINE_RECORDS + 1), compression=Compression.LZ4), APPEND_TIME),
        (encode_batch([Record(0, 0, None, b"x" * INLINE_RECOMPRESSED_BYTES)]), config(compression_type="zstd")),
        (
            encode_batch([Record(0, 0, None, b"x" * INLINE_RECOMPRESSED_PLAIN_BYTES)], compression=Compression.GZIP),
            config(compression_type="lz4"),
        ),
        (encode_batch([Record(0, 0, b"k", b"", [("", None)] * (INLINE_STEPS + 1))]), COMPACTED),
        (encode_batch([Record(0, 0, b"k", b"", [("", None)] * (INLINE_STEPS // 4 + 1))] * 4), COMPACTED),
        (in_many_pieces(Compression.GZIP), PLAIN),
        (in_many_pieces(Compression.SNAPPY), PLAIN),
        (in_many_pieces(Compression.SNAPPY), COMPACTED),
        (encode_batch([Record(0, 0, None, b"x" * INLINE_COSTLY_BYTES)]), COSTLY),
        (encode_batch([Record(0, 0, None, b"x" * INLINE_COSTLY_BYTES)], compression=Compression.GZIP), COSTLY),
    ],
)
def test_what_takes_long_is_not_done_on_the_event_loop(batch: bytes, topic: LogConfig) -> None:
    content = bytearray(batch)
    for level in LEVELS[1:]:
        with pytest.raises(LongValidation):
            validate(
                content, config=topic, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, produce_version=9, level=level,
                is_inline=True,
            )  # fmt: skip
    assert plain_batch(memoryview(content), PlainBatchRules(topic, ValidationLevel.STRUCTURE)) is None
    assert content == batch
    assert produced(content, topic).headers


def test_what_does_not_take_long_is_done_there() -> None:
    def inline(size_bytes: int, codec: Compression, topic: LogConfig) -> bool:
        batch = bytearray(encode_batch([Record(0, 0, None, b"x" * size_bytes)], compression=codec))
        checked = validate(
            batch, config=topic, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, produce_version=9, is_inline=True
        )
        return bool(checked.headers)

    assert inline(INLINE_COSTLY_BYTES - 100, Compression.NONE, COSTLY)
    cheap = config(compression_type="zstd", compression_zstd_level="11")
    assert inline(INLINE_COSTLY_BYTES, Compression.NONE, cheap)
    assert inline(INLINE_RECOMPRESSED_PLAIN_BYTES - 100, Compression.GZIP, cheap)
    assert inline(INLINE_RECOMPRESSED_PLAIN_BYTES, Compression.GZIP, config(compression_type="uncompressed"))
    assert inline(INLINE_RECOMPRESSED_PLAIN_BYTES, Compression.ZSTD, COSTLY), "it is in that codec already"
    usual = bytearray(encode_batch([Record(0, 0, b"k", bytes(1000), [("name", b"value")] * 5)] * 950))
    assert validate(
        usual, config=COMPACTED, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, produce_version=9, is_inline=True
    ).headers


def test_compacted_topics_need_keys() -> None:
    records = many_records(4)
    records[1].key = records[3].key = None
    error = refusal(encode_batch(records), COMPACTED, level=ValidationLevel.HEADER)
    assert error.code == ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordsRejected)
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert produced(encode_batch(many_records(4)), COMPACTED).headers
    assert refusal(encode_batch(records), config(cleanup_policy="compact,delete")).code == ErrorCode.INVALID_RECORD
    records[1].key = records[3].key = b""
    assert produced(encode_batch(records), COMPACTED).headers


def test_of_many_bad_records_some_are_named_and_all_counted() -> None:
    batch = encode_batch(many_records(3 * MAX_RECORD_ERRORS, 1, key=None))
    error = refusal(batch, COMPACTED)
    assert isinstance(error, RecordsRejected)
    assert [index for index, _ in error.record_errors] == list(range(MAX_RECORD_ERRORS))
    assert f"due to {3 * MAX_RECORD_ERRORS} record errors in total, and only showing the first three" in error.message
    assert [text[0] for text in error.message.split("batchIndex=")[1:]] == ["0", "1", "2"]
    late = refusal(batch, config(message_timestamp_before_max_ms="1"))
    assert isinstance(late, RecordsRejected)
    assert (late.code, len(late.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, MAX_RECORD_ERRORS)


def test_a_bad_timestamp_behind_those_that_are_named_makes_the_code() -> None:
    both = config(cleanup_policy="compact", message_timestamp_before_max_ms=str(HOUR_MS))
    records = [Record(0, NOW_MS, None, b"v") for _ in range(MAX_RECORD_ERRORS)]
    error = refusal(encode_batch([*records, Record(0, 5, b"k", b"v")]), both)
    assert isinstance(error, RecordsRejected)
    assert (error.code, len(error.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, MAX_RECORD_ERRORS)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_timestamp_limits(codec: Compression) -> None:
    def batch(*times: int) -> bytes:
        return encode_batch([Record(0, time, b"k", b"v") for time in times], compression=codec)

    assert produced(batch(NOW_MS - HOUR_MS, NOW_MS + HOUR_MS, -1), LIMITED).headers
    error = refusal(batch(NOW_MS - HOUR_MS - 1, NOW_MS, NOW_MS + HOUR_MS + 1), LIMITED, level=ValidationLevel.HEADER)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordsRejected)
    assert [index for index, _ in error.record_errors] == [0, 2]
    assert str(NOW_MS - HOUR_MS) in error.record_errors[0][1]


def test_one_limit_alone_and_the_deprecated_setting() -> None:
    def at(time: int) -> bytes:
        return encode_batch([Record(0, time, b"k", b"v")])

    before = config(message_timestamp_before_max_ms=str(HOUR_MS))
    assert produced(at(NOW_MS + 1000 * HOUR_MS), before).headers
    assert refusal(at(NOW_MS - HOUR_MS - 1), before).code == ErrorCode.INVALID_TIMESTAMP
    difference = config(message_timestamp_difference_max_ms=str(HOUR_MS))
    assert refusal(at(NOW_MS - HOUR_MS - 1), difference).code == ErrorCode.INVALID_TIMESTAMP
    assert refusal(at(NOW_MS + HOUR_MS + 1), difference).code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("time", [-5, 0, 100_000_000_000_000])
def test_without_limits_any_timestamp_goes(time: int) -> None:
    for level in LEVELS:
        assert produced(encode_batch([Record(0, time, None, None)]), level=level).headers


def test_a_keyless_record_with_a_bad_timestamp_is_named_once() -> None:
    both = config(cleanup_policy="compact", message_timestamp_before_max_ms=str(HOUR_MS))
    error = refusal(encode_batch([Record(0, 5, None, b"v"), Record(0, 5, b"k", b"v")]), both)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordsRejected)
    assert [index for index, _ in error.record_errors] == [0, 1]


# --- other origins ---


def test_a_coordinator_writes_control_batches() -> None:
    marker = encode_marker(EndTxnMarker(ControlType.ABORT, 3, NOW_MS), producer_id=4, producer_epoch=1)
    for topic in (PLAIN, COMPACTED, config(compression_type="lz4")):
        checked = validate(marker, config=topic, origin=AppendOrigin.COORDINATOR, now_ms=NOW_MS)
        assert bytes(checked.records) == marker
    stamped = validate(marker, config=APPEND_TIME, origin=AppendOrigin.COORDINATOR, now_ms=NOW_MS)
    assert stamped.headers[0].is_log_append_time


def test_a_coordinators_batch_has_a_size_limit_too() -> None:
    with pytest.raises(KafkaError) as caught:
        validate(BATCH, config=config(max_message_bytes="100"), origin=AppendOrigin.COORDINATOR, now_ms=NOW_MS)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


def copied(records: bytes) -> ValidatedRecords:
    return validate(records, config=config(max_message_bytes="10"), origin=AppendOrigin.REPLICA, now_ms=NOW_MS)


def test_a_replica_takes_what_the_leader_has() -> None:
    batches = [
        encode_batch(many_records(3), base_offset=10, partition_leader_epoch=2, log_append_time_ms=4),
        encode_marker(EndTxnMarker(ControlType.ABORT, 3, NOW_MS), producer_id=4, producer_epoch=1, base_offset=13),
        encode_batch([Record(20, 0, None, None)], base_offset=18, keep_offsets=True),
    ]
    checked = copied(b"".join(batches) + BATCH[:50])
    assert bytes(checked.records) == b"".join(batches)
    assert [header.base_offset for header in checked.headers] == [10, 13, 18]
    assert copied(b"").headers == []


@pytest.mark.parametrize("second_base_offset", [0, 2])
def test_a_replica_refuses_offsets_that_do_not_rise(second_base_offset: int) -> None:
    data = encode_batch(many_records(3)) + encode_batch(many_records(3), base_offset=second_base_offset)
    with pytest.raises(InvalidBatch) as caught:
        copied(data)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_replica_refuses_damage() -> None:
    damaged = bytearray(BATCH + encode_batch(many_records(3), base_offset=20))
    damaged[-1] ^= 1
    with pytest.raises(InvalidBatch) as caught:
        copied(bytes(damaged))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(InvalidBatch):
        copied(bytes(with_field(BATCH, ">i", 23, -1)))


def test_sizes_are_read_signed() -> None:
    assert refusal(struct.pack(">qi", 0, -(2**31)) + bytes(60)).code == ErrorCode.CORRUPT_MESSAGE
