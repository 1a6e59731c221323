"""What the topic does to records on their way into a log: the log's time, its compression, fields that are put right."""

from __future__ import annotations

import pytest

from config.topic import LogConfig
from protocol.errors import ErrorCode
from protocol.records.batch import crc_is_valid, read_header
from protocol.records.compression import Compression
from protocol.records.record import Record, encode_batch, iter_records
from storage.log.record_errors import RecordsRejected
from storage.log.validation import ValidatedRecords, ValidationLevel
from tests.protocol.records.batches import ALL_CODECS, MAX_BYTES, many_records, with_field
from tests.storage.log.validating import APPEND_TIME, BATCH, LEVELS, PLAIN, produced, refusal, swapped
from tests.storage.logs import NOW_MS, config


def timestamps(checked: ValidatedRecords) -> list[int]:
    header = checked.headers[0]
    return [record.timestamp for record in iter_records(checked.records, 0, header, MAX_BYTES)]


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_log_append_time(codec: Compression) -> None:
    buffer = bytearray(encode_batch(many_records(3), compression=codec))
    checked = produced(memoryview(buffer), APPEND_TIME)
    header = checked.headers[0]
    assert checked.log_append_time_ms == NOW_MS == header.max_timestamp
    assert crc_is_valid(buffer, 0, read_header(buffer)) and read_header(buffer).crc == header.crc
    assert timestamps(checked) == [NOW_MS] * 3


def test_log_append_time_ignores_limits() -> None:
    topic = config(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1")
    assert produced(encode_batch([Record(0, 5, b"k", b"v")]), topic).headers


def test_a_producer_must_not_claim_append_time() -> None:
    claimed = encode_batch(many_records(2), log_append_time_ms=NOW_MS)
    error = refusal(claimed, APPEND_TIME)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordsRejected)
    assert len(error.record_errors) == 2


def test_a_claim_of_append_time_is_taken_back_in_other_topics() -> None:
    checked = produced(encode_batch(many_records(2), log_append_time_ms=NOW_MS - 5))
    header = read_header(checked.records)
    assert not header.is_log_append_time and header.max_timestamp == NOW_MS - 5
    assert crc_is_valid(checked.records, 0, header)


def test_a_wrong_max_timestamp_is_put_right_where_fields_are_read() -> None:
    wrong = bytes(with_field(BATCH, ">q", 35, 99))
    checked = produced(wrong, level=ValidationLevel.FULL)
    assert read_header(checked.records).max_timestamp == 1_000_019 == checked.headers[0].max_timestamp
    assert crc_is_valid(checked.records, 0, checked.headers[0])


CODEC_NAMES = {codec: codec.name.lower() for codec in ALL_CODECS} | {Compression.NONE: "uncompressed"}


@pytest.mark.parametrize("source", ALL_CODECS)
@pytest.mark.parametrize("target", ALL_CODECS)
def test_compression_type(source: Compression, target: Compression) -> None:
    batch = encode_batch(many_records(50), compression=source, producer_id=4, producer_epoch=0, base_sequence=7)
    checked = produced(batch, config(compression_type=CODEC_NAMES[target]))
    header = checked.headers[0]
    assert read_header(checked.records).compression is header.compression is target
    assert (len(checked.records), header.base_sequence, header.records_count) == (header.size_bytes, 7, 50)
    assert crc_is_valid(checked.records, 0, header)
    assert list(iter_records(checked.records, 0, header, MAX_BYTES)) == list(
        iter_records(batch, 0, read_header(batch), MAX_BYTES)
    )
    if source is target:
        assert bytes(checked.records) == batch


def test_recompression_keeps_the_brokers_time_and_the_size_limit() -> None:
    topic = config(compression_type="uncompressed", message_timestamp_type="LogAppendTime", max_message_bytes="5000")
    small = encode_batch(many_records(10), compression=Compression.LZ4)
    assert set(timestamps(produced(small, topic))) == {NOW_MS}
    grown = encode_batch(many_records(100), compression=Compression.ZSTD)
    assert len(grown) < 5000
    assert refusal(grown, topic).code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", ALL_CODECS[1:])
@pytest.mark.parametrize("level", LEVELS)
def test_what_is_recompressed_is_looked_at_in_full(codec: Compression, level: ValidationLevel) -> None:
    topic = config(compression_type="uncompressed")
    assert refusal(swapped(codec), topic, level=level).code == ErrorCode.INVALID_RECORD
    late = bytes(with_field(encode_batch(many_records(5), compression=codec), ">q", 35, 99))
    assert produced(late, topic, level=level).headers[0].max_timestamp == 1_000_004


UNSTORABLE = {
    "a timestamp below -1": encode_batch([Record(0, -5, b"k", b"v")]),
    "a timestamp below -1 behind others": encode_batch([Record(0, 7, b"k", b"v"), Record(0, -2, b"k", b"v")]),
    "a timestamp that overflows": bytes(with_field(encode_batch(many_records(2)), ">q", 27, (1 << 63) - 1)),
    "a transaction of nobody": encode_batch(many_records(1), is_transactional=True),
    "a producer without an epoch": encode_batch(many_records(1), producer_id=4, producer_epoch=-1, base_sequence=0),
    "no producer that exists": encode_batch(many_records(1), producer_id=-7, producer_epoch=-7, base_sequence=-7),
}


@pytest.mark.parametrize(
    "topic", [config(compression_type="lz4"), config(compression_type="lz4", message_timestamp_type="LogAppendTime")]
)
@pytest.mark.parametrize("batch", UNSTORABLE.values(), ids=UNSTORABLE)
def test_what_kafka_cannot_write_is_not_recompressed(batch: bytes, topic: LogConfig) -> None:
    assert produced(batch).headers, "it may stay as it came"
    assert refusal(batch, topic).code == ErrorCode.INVALID_RECORD


def test_a_producer_id_below_none_is_recompressed_when_the_rest_is_right() -> None:
    batch = encode_batch(many_records(1), producer_id=-7, producer_epoch=0, base_sequence=0)
    assert produced(batch, config(compression_type="lz4")).headers


@pytest.mark.parametrize("attributes", [0x80, 0x100, 0x4000, -0x8000])
def test_unknown_attributes_are_gone_from_what_the_broker_writes(attributes: int) -> None:
    batch = bytes(with_field(BATCH, ">h", 21, attributes | 0x40))
    for topic, expected in ((PLAIN, attributes | 0x40), (APPEND_TIME, 0x48), (config(compression_type="lz4"), 3)):
        checked = produced(batch, topic)
        assert checked.headers[0].attributes == read_header(checked.records).attributes == expected
        assert crc_is_valid(checked.records, 0, checked.headers[0])


def test_records_that_were_validated_before_are_given_the_time_at_which_they_are_appended() -> None:
    buffer = bytearray(BATCH)
    checked = produced(memoryview(buffer), APPEND_TIME)
    checked.stamp_again(NOW_MS + 700)
    assert checked.log_append_time_ms == NOW_MS + 700
    assert timestamps(checked) == [NOW_MS + 700] * 20
    assert crc_is_valid(buffer, 0, read_header(buffer)) and read_header(buffer).crc == checked.headers[0].crc


def test_a_topic_that_keeps_the_producers_time_is_not_stamped() -> None:
    checked = produced(BATCH)
    checked.stamp_again(NOW_MS)
    assert (bytes(checked.records), checked.log_append_time_ms) == (BATCH, -1)
