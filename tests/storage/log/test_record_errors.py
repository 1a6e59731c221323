"""What a refused batch is counted as, in Kafka's words."""

from __future__ import annotations

import pytest

from protocol.records.batch import InvalidBatch
from protocol.records.invalid import Fault
from protocol.records.record import encode_batch
from storage.log.record_errors import RecordsRejected, RecordsTooLarge
from tests.protocol.records.batches import many_records, with_field
from tests.storage.log.validating import BATCH, COMPACTED, refusal
from tests.storage.logs import config


@pytest.mark.parametrize(
    ("position", "form", "value", "fault"),
    [
        (16, ">b", 3, Fault.MAGIC),
        (23, ">i", -1, Fault.OFFSET_OR_SEQUENCE),  # last offset delta
        (23, ">i", 18, Fault.OFFSET_OR_SEQUENCE),
        (57, ">i", 0, Fault.OFFSET_OR_SEQUENCE),  # records count
        (0, ">q", 5, None),  # base offset
        (21, ">h", 0x20, None),  # a control batch
    ],
)
def test_faults_of_a_batch(position: int, form: str, value: int, fault: Fault | None) -> None:
    error = refusal(with_field(BATCH, form, position, value))
    assert isinstance(error, InvalidBatch)
    assert error.fault is fault


def test_damage() -> None:
    damaged = bytearray(BATCH)
    damaged[-1] ^= 1
    error = refusal(damaged)
    assert isinstance(error, InvalidBatch) and error.fault is Fault.CRC


def test_a_producer_without_a_sequence() -> None:
    error = refusal(encode_batch(many_records(1), producer_id=4, producer_epoch=0, base_sequence=-1))
    assert isinstance(error, InvalidBatch) and error.fault is Fault.OFFSET_OR_SEQUENCE


def test_the_size_of_what_is_too_large() -> None:
    error = refusal(BATCH, config(max_message_bytes=str(len(BATCH) - 1)))
    assert isinstance(error, RecordsTooLarge) and error.size_bytes == len(BATCH)
    again = error.again()
    assert (again.code, again.message) == (error.code, error.message)


def test_records_without_a_key() -> None:
    records = many_records(4)
    records[1].key = records[3].key = None
    error = refusal(encode_batch(records), COMPACTED)
    assert isinstance(error, RecordsRejected) and error.keyless_count == 2
