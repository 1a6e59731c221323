"""End-of-transaction markers."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from protocol.records.batch import InvalidBatch, crc_is_valid, read_header
from protocol.records.control import ControlType, EndTxnMarker, decode_marker, encode_marker, read_marker
from protocol.records.record import Record, empty_batch, encode_batch
from tests.protocol.records.python_clients import KafkaPythonRecords


@pytest.mark.parametrize("kind", ControlType)
def test_round_trip(kind: ControlType) -> None:
    marker = EndTxnMarker(kind, 12, 1_700_000_000_000)
    batch = encode_marker(marker, producer_id=9, producer_epoch=3, base_offset=88, partition_leader_epoch=4)
    header = read_header(batch)
    assert header.is_control and header.is_transactional and crc_is_valid(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_offset) == (9, 3, -1, 88)
    assert read_marker(batch, 0, header) == marker


@pytest.mark.parametrize("kind", ControlType)
def test_is_read_by_kafka_python(kind: ControlType) -> None:
    batch = KafkaPythonRecords(encode_marker(EndTxnMarker(kind, 12, 5), producer_id=9, producer_epoch=3)).next_batch()
    assert batch.is_control_batch and batch.is_transactional
    record = next(iter(batch))
    assert (record.abort, record.commit) == (kind is ControlType.ABORT, kind is ControlType.COMMIT)


def test_bytes_of_kafka() -> None:
    """Key: version 0, type 1. Value: version 0, coordinator epoch 12."""
    batch = encode_marker(EndTxnMarker(ControlType.COMMIT, 12, 5), producer_id=9, producer_epoch=3)
    assert batch.endswith(bytes.fromhex("08 00000001 0c 00000000000c 00".replace(" ", "")))


def test_later_versions_may_append() -> None:
    marker = decode_marker(Record(0, 5, b"\x00\x01\x00\x00more", b"\x00\x01\x00\x00\x00\x07more"))
    assert marker == EndTxnMarker(ControlType.ABORT, 7, 5)


def test_other_control_records_are_no_markers() -> None:
    assert decode_marker(Record(0, 5, b"\x00\x00\x00\x02", b"")) is None


def test_an_empty_control_batch_holds_none() -> None:
    batch = encode_marker(EndTxnMarker(ControlType.COMMIT, 12, 5), producer_id=9, producer_epoch=3)
    empty = empty_batch(read_header(batch))
    assert read_marker(empty, 0, read_header(empty)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\x00\x00\x00", b""),
        (b"\xff\xff\x00\x01", b"\x00\x00\x00\x00\x00\x01"),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x01"),
    ],
)
def test_broken_markers(key: bytes | None, value: bytes | None) -> None:
    batch = encode_batch([Record(0, 0, key, value)], is_control=True)
    with pytest.raises(InvalidBatch) as caught:
        read_marker(batch, 0, read_header(batch))
    assert caught.value.code == ErrorCode.INVALID_RECORD
