"""What a reader of committed records makes of batches, markers and the aborted transactions of a response."""

from __future__ import annotations

from protocol.messages.fetch import AbortedTransaction
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.record import Record, encode_batch
from tests.simulation.transactions.records import committed_records, read_records


def data(base_offset: int, producer_id: int, *values: str) -> bytes:
    return encode_batch(
        [Record(0, 0, None, value.encode()) for value in values],
        base_offset=base_offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True,
    )  # fmt: skip


def marker(base_offset: int, producer_id: int, kind: ControlType) -> bytes:
    return encode_marker(EndTxnMarker(kind, 0, 0), producer_id=producer_id, producer_epoch=0, base_offset=base_offset)


CONTENT = (
    data(0, 1, "a", "b")
    + data(2, 2, "c")
    + marker(3, 1, ControlType.ABORT)
    + data(4, 1, "d")
    + marker(5, 2, ControlType.COMMIT)
    + marker(6, 1, ControlType.COMMIT)
)


def aborted(producer_id: int, first_offset: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id=producer_id, first_offset=first_offset)


def test_records_and_markers_are_read_in_order_up_to_the_last_whole_batch() -> None:
    records, next_offset = read_records(CONTENT[:-1])
    assert [record.value for record in records if record.marker is None] == ["a", "b", "c", "d"]
    assert [record.marker for record in records if record.marker is not None] == [ControlType.ABORT, ControlType.COMMIT]
    assert next_offset == 6
    assert read_records(b"") == ([], -1)


def test_an_aborted_transaction_ends_with_its_marker() -> None:
    records, _ = read_records(CONTENT)
    assert [each.value for each in committed_records(records, [])] == ["a", "b", "c", "d"]
    assert [each.value for each in committed_records(records, [aborted(1, 0)])] == ["c", "d"]
    assert [each.value for each in committed_records(records, [aborted(2, 2), aborted(1, 0)])] == ["d"]
    assert [each.value for each in committed_records(records, [aborted(1, 4)])] == ["a", "b", "c"]
