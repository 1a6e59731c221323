"""Records read and batches built, against themselves and against kafka-python's and aiokafka's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.records.batch import InvalidBatch, crc_is_valid, read_header
from protocol.records.compression import Compression, DecompressionTooLarge
from protocol.records.fields import check_full, walk_fields
from protocol.records.record import (
    Record,
    empty_batch,
    encode_batch,
    encode_record,
    iter_records,
    plain_records,
    recompress,
)
from protocol.records.structure import check_structure
from tests.protocol.records.batches import (
    ALL_CODECS,
    MAX_BYTES,
    aiokafka_batch,
    kafka_python_batch,
    many_records,
    numbered,
    record_lists,
    with_field,
    with_records,
)
from tests.protocol.records.python_clients import AiokafkaRecords, KafkaPythonRecords

SAMPLES = [
    Record(0, 1_700_000_000_000, b"key", b"value", [("trace", b"\x00\xff"), ("none", None), ("trace", b"")]),
    Record(0, 1_700_000_000_005, None, b"x" * 70_000, []),
    Record(0, 1_699_999_999_000, b"", None, []),
    Record(0, 1_700_000_000_005, "schlüssel".encode(), b"", [("ünïcode", b"1")]),
]


def everything(batch: bytes) -> list[Record]:
    header = read_header(batch)
    assert crc_is_valid(batch, 0, header)
    return list(iter_records(batch, 0, header, MAX_BYTES))


@settings(max_examples=60, deadline=None)
@given(record_lists(), st.sampled_from(ALL_CODECS), st.integers(min_value=0, max_value=2**62))
def test_round_trip(records: list[Record], codec: Compression, base_offset: int) -> None:
    batch = encode_batch(records, base_offset=base_offset, compression=codec)
    header = read_header(batch)
    assert everything(batch) == numbered(records, base_offset)
    check_structure(batch, 0, header, MAX_BYTES)
    check_full(batch, 0, header, MAX_BYTES)
    assert list(walk_fields(batch, 0, header, MAX_BYTES)) == [
        (each.timestamp, each.key is not None) for each in records
    ]
    assert header.max_timestamp == max(record.timestamp for record in records)


@pytest.mark.parametrize("codec", ALL_CODECS)
@pytest.mark.parametrize("records", [SAMPLES, many_records(1000), many_records(300, 9000)], ids=["odd", "many", "big"])
@pytest.mark.parametrize("build", [kafka_python_batch, aiokafka_batch])
def test_batches_of_other_clients_are_read(build: type, records: list[Record], codec: Compression) -> None:
    batch = build(records, codec)
    header = read_header(batch)
    assert crc_is_valid(batch, 0, header)
    check_structure(batch, 0, header, MAX_BYTES)
    check_full(batch, 0, header, MAX_BYTES)
    assert list(iter_records(batch, 0, header, MAX_BYTES)) == numbered(records)


@pytest.mark.parametrize("codec", ALL_CODECS)
@pytest.mark.parametrize("reader", [KafkaPythonRecords, AiokafkaRecords])
@pytest.mark.parametrize("records", [SAMPLES, many_records(1000)], ids=["odd", "many"])
def test_batches_are_read_by_other_clients(reader: type, codec: Compression, records: list[Record]) -> None:
    batch = encode_batch(records, base_offset=0, compression=codec)
    found = reader(batch).next_batch()
    assert found.validate_crc()
    read = [Record(each.offset, each.timestamp, each.key, each.value, list(each.headers)) for each in found]
    assert read == numbered(records)


def test_uncompressed_bytes_equal_those_of_kafka_python() -> None:
    assert encode_batch(SAMPLES, partition_leader_epoch=0)[16:] == kafka_python_batch(SAMPLES, Compression.NONE)[16:]


def test_log_append_time_is_every_records_timestamp() -> None:
    batch = encode_batch(SAMPLES, log_append_time_ms=42)
    assert {record.timestamp for record in everything(batch)} == {42}
    assert {timestamp for timestamp, _ in walk_fields(batch, 0, read_header(batch), MAX_BYTES)} == {42}


def test_timestamps_wrap_as_in_java() -> None:
    header = read_header(batch := bytes(with_field(encode_batch(many_records(2)), ">q", 27, 2**63 - 1)))
    assert [each.timestamp for each in iter_records(batch, 0, header, MAX_BYTES)] == [2**63 - 1, -(2**63)]


def test_kept_offsets_of_a_compacted_batch() -> None:
    records = [Record(12, 1, b"a", b"1"), Record(17, 2, b"b", b"2")]
    batch = encode_batch(records, base_offset=10, keep_offsets=True)
    header = read_header(batch)
    assert (header.last_offset, header.records_count) == (17, 2)
    assert everything(batch) == records


def test_a_batch_without_records_keeps_its_place() -> None:
    full = read_header(
        encode_batch(
            many_records(5),
            base_offset=10,
            compression=Compression.LZ4,
            producer_id=3,
            producer_epoch=1,
            base_sequence=8,
        )
    )
    batch = empty_batch(full)
    header = read_header(batch)
    assert everything(batch) == []
    assert (header.last_offset, header.records_count, header.last_sequence) == (14, 0, 12)
    assert header.max_timestamp == full.max_timestamp
    check_structure(batch, 0, header, MAX_BYTES)
    check_full(batch, 0, header, MAX_BYTES)


@pytest.mark.parametrize("source", ALL_CODECS)
@pytest.mark.parametrize("target", ALL_CODECS)
def test_recompression_changes_nothing_but_the_codec(source: Compression, target: Compression) -> None:
    batch = encode_batch(
        many_records(500), base_offset=5, compression=source, producer_id=3, producer_epoch=1, base_sequence=8
    )
    again = recompress(batch, 0, read_header(batch), target, None, MAX_BYTES)
    header = read_header(again)
    assert header.compression is target
    assert everything(again) == everything(batch)
    assert (header.base_sequence, header.last_offset, header.max_timestamp) == (8, 504, 1_000_499)


@pytest.mark.parametrize("codec", ALL_CODECS[1:])
def test_reading_stops_at_the_bound(codec: Compression) -> None:
    batch = encode_batch([Record(0, 0, None, bytes(3_000_000))], compression=codec)
    with pytest.raises(DecompressionTooLarge) as caught:
        list(iter_records(batch, 0, read_header(batch), 2_000_000))
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


ONE = encode_record(Record(0, 0, b"k", b"v"), 0, 0)
BROKEN = {
    "cut": ONE[:-1],
    "bytes behind": ONE + b"\x00",
    "length too small": bytes([ONE[0] - 2]) + ONE[1:],
    "length too large": bytes([ONE[0] + 2]) + ONE[1:],
    "negative length": b"\x01" + ONE[1:],
    "value beyond": ONE[:6] + b"\x7e" + ONE[7:],
    "headers that are not there": ONE[:-1] + b"\x06",
    "negative headers count": ONE[:-1] + b"\x01",
    "varint without an end": b"\xff" * 12,
    "nothing": b"",
}


@pytest.mark.parametrize("block", BROKEN.values(), ids=BROKEN)
def test_broken_records(block: bytes) -> None:
    batch = bytes(with_records(encode_batch([Record(0, 0, b"k", b"v")]), block))
    header = read_header(batch)
    for read in (iter_records, walk_fields):
        with pytest.raises(InvalidBatch) as caught:
            list(read(batch, 0, header, MAX_BYTES))
        assert caught.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("raw", "read"), [(b"\xff\xfe", "\N{REPLACEMENT CHARACTER}" * 2), (b"\xed\xa0", "\N{REPLACEMENT CHARACTER}")]
)
def test_a_header_key_that_is_no_text_is_read_as_java_does(raw: bytes, read: str) -> None:
    record = Record(0, 0, None, b"value", [("aa", b"")])
    block = encode_record(record, 0, 0).replace(b"aa", raw)
    batch = bytes(with_records(encode_batch([record]), block))
    assert everything(batch) == [Record(0, 0, None, b"value", [(read, b"")])]
    copied = recompress(batch, 0, read_header(batch), Compression.GZIP, None, MAX_BYTES)
    assert bytes(plain_records(copied, 0, read_header(copied), MAX_BYTES)) == block


def test_records_beyond_the_buffer() -> None:
    batch = encode_batch(many_records(2))
    for read in (iter_records, walk_fields):
        with pytest.raises(InvalidBatch) as caught:
            list(read(batch[:-1], 0, read_header(batch), MAX_BYTES))
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
