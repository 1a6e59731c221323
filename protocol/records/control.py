"""Control records: the commit and abort markers that end a transaction in a partition.

A control batch has one record. Its key is version int16, type int16 (0 abort, 1 commit). The value of a marker is version
int16, epoch int32 of the transaction coordinator that decided. Later versions may only append fields.

Rules: pure. Source: KIP-98; Kafka ControlRecordType, EndTransactionMarker.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from protocol.errors import ErrorCode
from protocol.primitives import Buffer
from protocol.records.batch import BatchHeader
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, encode_batch, iter_records

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0
MAX_CONTROL_BYTES = 64 * 1024
"""The limit for the records of a control batch; Kafka writes 20 bytes."""


class ControlType(IntEnum):
    """The types of markers; a KRaft log has other types."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class EndTxnMarker:
    """A marker. `timestamp` is that of the record."""

    type: ControlType
    coordinator_epoch: int
    timestamp: int


def encode_marker(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Encode the control batch that ends the transaction of `producer_id`."""
    record = Record(
        base_offset,
        marker.timestamp,
        _KEY.pack(_VERSION, marker.type),
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        partition_leader_epoch=partition_leader_epoch,
    )


def read_marker(buffer: Buffer, position: int, header: BatchHeader) -> EndTxnMarker | None:
    """Return the marker in a control batch; None without one: its records were removed by the cleaner, or it is of another
    type. Raises InvalidBatch."""
    assert header.is_control
    for record in iter_records(buffer, position, header, MAX_CONTROL_BYTES):
        return decode_marker(record)
    return None


def decode_marker(record: Record) -> EndTxnMarker | None:
    """Decode a marker; None for another type. Raises InvalidBatch when the record is not a control record."""
    if record.key is None or len(record.key) < _KEY.size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "A control record has no key that tells its type.")
    version, number = _KEY.unpack_from(record.key)
    if version < 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"A control record's key has version {version}.")
    if number not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "An end of transaction marker has no coordinator epoch.")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"An end of transaction marker has version {version}.")
    return EndTxnMarker(ControlType(number), coordinator_epoch, record.timestamp)
