"""Where a partition is read next, by each answer to a fetch."""

from __future__ import annotations

import pytest

from client.committing import OffsetAndMetadata
from client.reading.positions import Positions, Reset
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData
from protocol.messages.list_offsets import ListOffsetsPartitionResponse
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.record import Record, encode_batch
from protocol.topic_partition import TopicPartition

KEY: TopicPartition = ("t", 0)
E = ErrorCode


def positions_at(offset: int | None, reset: Reset = Reset.EARLIEST, *, is_committed: bool = True) -> Positions:
    positions = Positions(reset, is_committed)
    positions.assign({KEY: None if offset is None else OffsetAndMetadata(offset, 2)})
    return positions


def batch(base_offset: int, values: str, *, producer_id: int = -1, epoch: int = 3) -> bytes:
    return encode_batch(
        [Record(0, 0, None, value.encode()) for value in values],
        base_offset=base_offset, partition_leader_epoch=epoch, producer_id=producer_id,
        is_transactional=producer_id >= 0,
    )  # fmt: skip


def row(code: ErrorCode = E.NONE, records: bytes = b"", **more: object) -> PartitionData:
    return PartitionData(partition_index=0, error_code=code, high_watermark=99, records=records, **more)  # type: ignore[arg-type]


def values_of(positions: Positions, offset: int, answer: PartitionData) -> str:
    fetched, must_find_leader = positions.fetched(KEY, offset, answer)
    assert not must_find_leader
    records = [] if fetched is None else fetched.records(1 << 20)
    return "".join((each.record.value or b"").decode() for each in records)


def test_records_from_the_position_on_and_the_position_behind_them() -> None:
    positions = positions_at(1)
    assert values_of(positions, 1, row(records=batch(0, "abc") + batch(3, "d", epoch=4) + b"half")) == "bcd"
    assert positions.offset(KEY) == OffsetAndMetadata(4, 4)
    request, asked = positions.fetch_request([KEY], {KEY: 7}, 100, 1_000)
    [fetch] = request.topics[0].partitions
    assert (fetch.fetch_offset, fetch.last_fetched_epoch, fetch.current_leader_epoch) == (4, 4, 7)
    assert asked == {KEY: 4} and request.isolation_level == 1


@pytest.mark.parametrize(("is_committed", "expected"), [(True, "cd"), (False, "abcd")])
def test_aborted_records_are_passed(is_committed: bool, expected: str) -> None:
    marker = EndTxnMarker(ControlType.ABORT, 0, 0)
    content = (
        batch(0, "ab", producer_id=7) + batch(2, "c")
        + encode_marker(marker, producer_id=7, producer_epoch=0, base_offset=3) + batch(4, "d", producer_id=7)
    )  # fmt: skip
    positions = positions_at(0, is_committed=is_committed)
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    assert values_of(positions, 0, row(records=content, aborted_transactions=aborted)) == expected
    found = positions.offset(KEY)
    assert found is not None and found.offset == 5


@pytest.mark.parametrize(
    "change", [lambda each: each.drop([KEY]), lambda each: each.assign({KEY: OffsetAndMetadata(9)})]
)
def test_an_answer_about_another_position_says_nothing(change: object) -> None:
    positions = positions_at(1)
    change(positions)  # type: ignore[operator]
    before = positions.offset(KEY)
    assert values_of(positions, 1, row(records=batch(1, "a"))) == ""
    assert positions.offset(KEY) == before


def test_a_position_that_is_gone_is_looked_up_where_the_reset_says() -> None:
    positions = positions_at(5, Reset.LATEST)
    assert values_of(positions, 5, row(E.OFFSET_OUT_OF_RANGE)) == ""
    assert positions.unknown() == [KEY] and positions.offset(KEY) is None
    assert positions.lookup_request([KEY], {}).topics[0].partitions[0].timestamp == -1
    assert positions.looked_up(KEY, ListOffsetsPartitionResponse(partition_index=0, error_code=6, offset=-1))
    assert not positions.looked_up(KEY, ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=8))
    assert positions.offset(KEY) == OffsetAndMetadata(8)


def test_a_log_that_was_truncated_is_read_from_where_it_parts() -> None:
    positions = positions_at(9)
    assert values_of(positions, 9, row(diverging_epoch=EpochEndOffset(epoch=1, end_offset=4))) == ""
    assert positions.offset(KEY) == OffsetAndMetadata(4, 1)


@pytest.mark.parametrize(
    "answer", [row(E.OFFSET_OUT_OF_RANGE), row(diverging_epoch=EpochEndOffset(epoch=1, end_offset=4))]
)
def test_without_a_reset_a_position_that_is_gone_is_an_error(answer: PartitionData) -> None:
    with pytest.raises(KafkaError):
        positions_at(9, Reset.NONE).fetched(KEY, 9, answer)
    with pytest.raises(KafkaError):
        positions_at(None, Reset.NONE)


@pytest.mark.parametrize(
    ("code", "must_find_leader"),
    [
        (E.NOT_LEADER_OR_FOLLOWER, True),
        (E.FENCED_LEADER_EPOCH, True),
        (E.UNKNOWN_LEADER_EPOCH, True),
        (E.OFFSET_NOT_AVAILABLE, False),
        (E.TOPIC_AUTHORIZATION_FAILED, None),
    ],
)
def test_other_errors(code: ErrorCode, must_find_leader: bool | None) -> None:
    positions = positions_at(1)
    if must_find_leader is None:
        with pytest.raises(KafkaError):
            positions.fetched(KEY, 1, row(code))
    else:
        assert positions.fetched(KEY, 1, row(code)) == (None, must_find_leader)
        assert positions.offset(KEY) == OffsetAndMetadata(1, 2)
