"""Idempotence and transactions of one partition: rules one by one, and one history as Apache Kafka 3.9.1 told it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import InvalidBatch, patch, read_header
from protocol.records.control import ControlType, EndTxnMarker, encode_marker, read_marker
from protocol.records.record import Record, empty_batch, encode_batch
from storage.log.producers.producer_state import (
    CompletedTransaction,
    CorruptSnapshot,
    Duplicate,
    ProducerDescription,
    ProducerStates,
)

TS = 1_700_000_000_000
DAY_MS = 86_400_000
LAST_SEQUENCE = 2**31 - 1
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


@dataclass
class Partition:
    """A log as far as producers see it. `append` and `end` answer what a client or coordinator would be told."""

    states: ProducerStates = field(default_factory=ProducerStates)
    offset: int = 0
    log: list[bytes] = field(default_factory=list)

    def append(
        self, producer: int, epoch: int, sequence: int, count: int = 1, timestamp: int = TS, *,
        transactional: bool = False, checked: bool = True,
    ) -> int | Duplicate | ErrorCode:  # fmt: skip
        batch = bytearray(
            encode_batch(
                [Record(0, timestamp + index, b"k", b"v") for index in range(count)],
                producer_id=producer, producer_epoch=epoch, base_sequence=sequence, is_transactional=transactional,
            )
        )  # fmt: skip
        header = read_header(batch)
        if checked:
            before = self.states.to_snapshot()
            try:
                duplicate = self.states.check(header)
            except KafkaError as error:
                assert self.states.to_snapshot() == before
                return error.code
            assert self.states.to_snapshot() == before
            if duplicate is not None:
                return duplicate
        self.states.apply(header, self.offset)
        return self._written(batch, count)

    def end(
        self, producer: int, epoch: int, kind: ControlType, coordinator_epoch: int, timestamp: int = TS
    ) -> CompletedTransaction | ErrorCode | None:
        marker = EndTxnMarker(kind, coordinator_epoch, timestamp)
        batch = bytearray(encode_marker(marker, producer_id=producer, producer_epoch=epoch))
        try:
            self.states.check_marker(read_header(batch), marker)
        except KafkaError as error:
            return error.code
        completed = self.states.apply_marker(read_header(batch), marker, self.offset)
        self._written(batch, 1)
        return completed

    def _written(self, batch: bytearray, count: int) -> int:
        patch(batch, 0, self.offset, 0)
        self.log.append(bytes(batch))
        base_offset, self.offset = self.offset, self.offset + count
        return base_offset

    def replayed(self) -> ProducerStates:
        states = ProducerStates()
        for batch in self.log:
            states.replay(batch, 0, read_header(batch))
        return states


def test_what_a_log_recalls_of_producers_whose_last_batches_are_gone() -> None:
    """Compaction leaves markers and, of some producers, earlier batches; only a snapshot has what came last."""
    log = Partition()
    log.append(1, 0, 0, 3, transactional=True)
    log.end(1, 0, ControlType.COMMIT, 7)
    log.append(2, 0, 0)
    log.append(2, 0, 1)
    log.append(3, 0, 0)
    log.append(4, 0, 0)
    log.append(5, 0, 0, transactional=True)
    log.end(5, 1, ControlType.ABORT, 7)
    end_offset = log.offset
    log.append(6, 0, 0)
    assert [len(log.log), end_offset] == [9, 10]
    left = ProducerStates()
    for number in (1, 2, 7):  # a marker, an earlier batch, and a marker of a later epoch
        left.replay(log.log[number], 0, read_header(log.log[number]))
    later = Partition()
    later.append(4, 3, 0)
    left.replay(later.log[0], 0, read_header(later.log[0]))
    assert left.recall(log.states, end_offset)
    found = {each.producer_id: (each.producer_epoch, each.last_sequence) for each in left.describe()}
    assert found == {1: (0, 2), 2: (0, 1), 3: (0, 0), 4: (3, 0), 5: (1, -1)}
    assert {each.coordinator_epoch for each in left.describe() if each.producer_id in (1, 5)} == {7}
    assert not left.recall(log.states, end_offset), "there is nothing more to be told"


KAFKAS_SNAPSHOT = bytes.fromhex(
    "0001f7070d3b00000004"
    "00000000000000070001000000010000000000000005000000010000018bcfe56815ffffffffffffffffffffffff"
    "00000000000000080000000000000000000000000008000000000000018bcfe56801ffffffffffffffffffffffff"
    "00000000000000090002000000000000000000000011000000000000018bcfe56809000000050000000000000010"
    "000000000000000a000000000000000000000000000b000000000000018bcfe56804ffffffff000000000000000b"
)


def kafkas_history() -> Partition:
    """The answers and the snapshot are those of Apache Kafka 3.9.1's own classes."""
    log = Partition()
    states = log.states
    assert log.append(7, 0, 5, 3) == 0
    assert log.append(7, 0, 5, 3) == Duplicate(0, 2, TS + 2)
    assert log.append(7, 0, 9) == OUT_OF_ORDER
    assert log.append(7, 0, 8, 1, TS + 10) == 3
    assert log.append(7, 1, 3) == OUT_OF_ORDER
    assert log.append(7, 1, 0, 2, TS + 20) == 4
    assert log.append(7, 0, 9) == FENCED
    assert log.append(8, 0, LAST_SEQUENCE - 1, 2) == 6
    assert log.append(8, 0, 0, 1, TS + 1) == 8
    assert log.append(8, 0, LAST_SEQUENCE - 1, 2) == Duplicate(6, 7, TS + 1)
    assert log.append(9, 2, 0, 2, TS + 2, transactional=True) == 9
    assert log.append(9, 2, 2, 1, TS + 3) == ErrorCode.INVALID_TXN_STATE
    assert log.append(10, 0, 0, 1, TS + 4, transactional=True) == 11
    assert (states.first_unstable_offset, states.first_undecided_offset) == (9, 9)

    completed = log.end(9, 2, ControlType.ABORT, 4, TS + 5)
    assert completed == CompletedTransaction(9, 9, 12, is_aborted=True)
    assert states.last_stable_offset(completed) == 11
    assert (states.first_unstable_offset, states.first_undecided_offset) == (9, 11)
    assert log.end(9, 2, ControlType.COMMIT, 4, TS + 6) is None
    assert log.end(9, 2, ControlType.COMMIT, 3, TS + 6) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.end(9, 1, ControlType.COMMIT, 5, TS + 6) == FENCED
    assert log.append(9, 2, 2, 1, TS + 7, transactional=True) == 14
    completed = log.end(9, 3, ControlType.ABORT, 5, TS + 8)
    assert completed == CompletedTransaction(9, 14, 15, is_aborted=True)
    assert states.last_stable_offset(completed) == 11
    assert log.append(9, 3, 1, 1, TS + 9, transactional=True) == OUT_OF_ORDER
    assert log.append(9, 3, 0, 1, TS + 9, transactional=True) == 16
    assert log.append(9, 2, 0, 1, TS + 9, transactional=True, checked=False) == 17
    states.on_high_watermark(log.offset)
    assert states.first_unstable_offset == 11
    return log


def test_a_history_of_apache_kafka() -> None:
    assert kafkas_history().states.to_snapshot() == KAFKAS_SNAPSHOT


def test_a_snapshot_of_apache_kafka() -> None:
    states = ProducerStates.from_snapshot(KAFKAS_SNAPSHOT)
    assert states.to_snapshot() == KAFKAS_SNAPSHOT
    assert len(states) == 4 and 9 in states and 5 not in states
    assert (states.first_unstable_offset, states.first_undecided_offset) == (11, 11)
    assert list(states.describe())[2] == ProducerDescription(9, 2, 0, TS + 9, 5, 16)
    log = Partition(states, 18)
    assert log.append(7, 1, 0, 2, TS + 20) == Duplicate(4, 5, TS + 21)
    assert log.append(7, 1, 2) == 18


def test_producers_are_described_one_by_one_while_they_come_and_go() -> None:
    """A hundred thousand of them at once would hold up everybody else."""
    states = ProducerStates.from_snapshot(KAFKAS_SNAPSHOT)
    described = iter(states.describe())
    first = next(described)
    assert states.remove_expired(TS + (1 << 40), 1)
    assert len([first, *described]) == 4


def test_replay_leads_to_the_same_state() -> None:
    log = kafkas_history()
    replayed = log.replayed()
    replayed.on_high_watermark(log.offset)
    assert replayed.to_snapshot() == KAFKAS_SNAPSHOT
    assert replayed.first_unstable_offset == 11


def test_the_last_five_batches_are_remembered() -> None:
    log = Partition()
    for sequence in range(0, 20, 2):
        assert log.append(1, 0, sequence, 2) == sequence
    for sequence in range(10, 20, 2):
        assert log.append(1, 0, sequence, 2) == Duplicate(sequence, sequence + 1, TS + 1)
    assert log.append(1, 0, 8, 2) == OUT_OF_ORDER
    assert log.append(1, 0, 18, 1) == OUT_OF_ORDER, "part of a batch is no duplicate of it"
    assert log.append(1, 0, 19, 1) == OUT_OF_ORDER
    assert log.append(1, 0, 16, 4) == OUT_OF_ORDER
    assert log.append(1, 0, 20, 2) == 20


def test_batches_without_a_producer_leave_no_trace() -> None:
    log = Partition()
    assert log.append(-1, -1, -1) == 0
    assert log.append(-1, -1, -1) == 1
    assert len(log.states) == 0
    assert log.states.replay(log.log[0], 0, read_header(log.log[0])) is None


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    log = Partition()
    assert log.append(1, 0, 0) == 0
    assert log.append(1, 1, 0) == 1
    assert log.append(1, 1, 0) == Duplicate(1, 1, TS)
    assert log.append(1, 0, 0) == FENCED


def test_without_an_epoch_any_sequence_goes() -> None:
    log = Partition()
    assert log.append(1, -1, 5) == 0
    assert log.append(1, -1, 5) == Duplicate(0, 0, TS)
    assert log.append(1, -1, 9) == 1
    assert log.append(1, 0, 9) == 2
    assert log.append(1, 0, 11) == OUT_OF_ORDER


def test_a_coordinators_batch_needs_no_sequence() -> None:
    log = Partition()
    assert log.append(1, 3, 0) == 0
    header = read_header(encode_batch([Record(0, TS, b"", b"")], producer_id=1, producer_epoch=3, base_sequence=0))
    assert log.states.check(header, is_client=False) is None
    assert log.states.check(header) == Duplicate(0, 0, TS)
    header.producer_epoch = 2
    with pytest.raises(KafkaError) as caught:
        log.states.check(header, is_client=False)
    assert caught.value.code == FENCED


def test_a_marker_for_an_unknown_producer() -> None:
    log = Partition()
    assert log.end(5, 1, ControlType.COMMIT, 2) is None
    assert list(log.states.describe()) == [ProducerDescription(5, 1, -1, TS, 2, -1)]
    assert log.append(5, 1, 3) == OUT_OF_ORDER, "its epoch is known: it begins at 0"
    assert log.append(5, 1, 0) == 1


@pytest.mark.parametrize(
    ("epoch", "is_open", "marker_epoch", "error"),
    [
        (3, True, 4, None),
        (3, True, 3, FENCED),  # late: it would end the next transaction
        (3, True, 2, FENCED),
        (3, False, 3, None),  # the same marker again
        (3, False, 2, FENCED),
        (3, False, 4, None),
        (32767, True, 32767, None),
        (32767, True, 32766, FENCED),
    ],
)
def test_a_marker_whose_transaction_raises_the_epoch(
    epoch: int, is_open: bool, marker_epoch: int, error: ErrorCode | None
) -> None:
    log = Partition()
    log.append(5, epoch, 0, transactional=True)
    if not is_open:
        log.end(5, epoch, ControlType.COMMIT, 0)
    log.states.check_marker_epoch(6, 0)  # an unknown producer
    if error is None:
        log.states.check_marker_epoch(5, marker_epoch)
        return
    with pytest.raises(KafkaError) as caught:
        log.states.check_marker_epoch(5, marker_epoch)
    assert caught.value.code is error


def test_expiry() -> None:
    log = Partition()
    log.append(1, 0, 0, 1, TS)
    log.append(2, 0, 0, 1, TS + 5)
    log.append(3, 0, 0, 1, TS, transactional=True)
    assert log.states.remove_expired(TS + DAY_MS - 1, DAY_MS) == 0
    assert log.states.remove_expired(TS + DAY_MS, DAY_MS) == 1
    assert 1 not in log.states and 2 in log.states
    assert log.states.remove_expired(TS + 10 * DAY_MS, DAY_MS) == 1
    assert 3 in log.states, "an open transaction keeps its producer"
    assert log.append(1, 0, 77) == 3, "forgotten, so it may go on where it is"


def test_a_snapshot_is_loaded_without_the_expired() -> None:
    log = Partition()
    log.append(1, 0, 0, 1, TS)
    log.append(2, 0, 0, 1, TS, transactional=True)
    content = log.states.to_snapshot()
    loaded = ProducerStates.from_snapshot(content, now_ms=TS + DAY_MS, expiration_ms=DAY_MS)
    assert 1 not in loaded and 2 in loaded and loaded.first_unstable_offset == 1
    assert len(ProducerStates.from_snapshot(content, now_ms=TS, expiration_ms=DAY_MS)) == 2


def test_unstable_until_the_marker_is_replicated() -> None:
    log = Partition()
    log.append(1, 0, 0, 4, transactional=True)
    log.end(1, 0, ControlType.COMMIT, 0)
    assert (log.states.first_unstable_offset, log.states.first_undecided_offset) == (0, None)
    log.states.on_high_watermark(4)
    assert log.states.first_unstable_offset == 0
    log.states.on_high_watermark(5)
    assert log.states.first_unstable_offset is None


def test_cleaned_batches_replay() -> None:
    """Compaction leaves batches without records, of data and of markers."""
    data = encode_batch(
        [Record(0, TS, b"k", b"v")] * 3, base_offset=10, producer_id=1, producer_epoch=2, base_sequence=7
    )
    marker = encode_marker(EndTxnMarker(ControlType.COMMIT, 1, TS), producer_id=1, producer_epoch=2, base_offset=13)
    states = ProducerStates()
    for batch in (empty_batch(read_header(data)), empty_batch(read_header(marker))):
        assert states.replay(batch, 0, read_header(batch)) is None
    assert list(states.describe()) == [ProducerDescription(1, 2, 9, TS, -1, -1)]
    assert read_marker(marker, 0, read_header(marker)) is not None


def test_a_broken_marker_is_told() -> None:
    batch = encode_batch([Record(0, TS, b"", b"")], producer_id=1, producer_epoch=0, is_control=True)
    with pytest.raises(InvalidBatch):
        ProducerStates().replay(batch, 0, read_header(batch))


@pytest.mark.parametrize("cut", range(0, len(KAFKAS_SNAPSHOT), 7))
def test_a_cut_snapshot(cut: int) -> None:
    with pytest.raises(CorruptSnapshot):
        ProducerStates.from_snapshot(KAFKAS_SNAPSHOT[:cut])


def test_a_damaged_snapshot() -> None:
    for position in range(len(KAFKAS_SNAPSHOT)):
        damaged = bytearray(KAFKAS_SNAPSHOT)
        damaged[position] ^= 0x40
        with pytest.raises(CorruptSnapshot):
            ProducerStates.from_snapshot(bytes(damaged))
    with pytest.raises(CorruptSnapshot):
        ProducerStates.from_snapshot(KAFKAS_SNAPSHOT + b"\x00")


def test_a_snapshot_whose_count_lies() -> None:
    states = Partition()
    states.append(1, 0, 0)
    content = bytearray(states.states.to_snapshot())
    for count in (0, 2, -1):
        struct.pack_into(">i", content, 6, count)
        struct.pack_into(">I", content, 2, crc32c(bytes(content[6:])))
        with pytest.raises(CorruptSnapshot):
            ProducerStates.from_snapshot(bytes(content))


STEPS = st.lists(
    st.tuples(
        st.integers(1, 3),  # producer
        st.integers(0, 2),  # epoch
        st.integers(0, 6),  # sequence
        st.integers(1, 3),  # records
        st.sampled_from(("data", "data", "transaction", "commit", "abort")),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_any_history_equals_its_replay_and_its_snapshot(steps: list[tuple[int, int, int, int, str]]) -> None:
    log = Partition()
    for producer, epoch, sequence, count, kind in steps:
        if kind in ("commit", "abort"):
            log.end(producer, epoch, ControlType[kind.upper()], epoch)
        else:
            log.append(producer, epoch, sequence, count, transactional=kind == "transaction")
    content = log.states.to_snapshot()
    replayed = log.replayed()
    assert replayed.to_snapshot() == content
    assert replayed.first_unstable_offset == log.states.first_unstable_offset
    loaded = ProducerStates.from_snapshot(content)
    assert loaded.to_snapshot() == content
    assert loaded.first_undecided_offset == log.states.first_undecided_offset


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_what_one_epoch_stored_has_no_gap_and_nothing_twice(steps: list[tuple[int, int, int, int, str]]) -> None:
    log = Partition()
    for producer, epoch, sequence, count, _ in steps:
        log.append(producer, epoch, sequence, count)
    expected: dict[tuple[int, int], int] = {}
    latest: dict[int, int] = {}
    for batch in log.log:
        header = read_header(batch)
        key = (header.producer_id, header.producer_epoch)
        assert header.producer_epoch >= latest.get(header.producer_id, 0)
        assert header.base_sequence == expected.get(key, 0 if header.producer_id in latest else header.base_sequence)
        latest[header.producer_id] = header.producer_epoch
        expected[key] = header.last_sequence + 1


def test_a_transaction_is_open_until_its_marker() -> None:
    log = Partition()
    assert log.append(7, 1, 0) == 0
    assert not log.states.has_open_transaction(7, 1), "no transaction"
    assert log.append(8, 1, 0, transactional=True) == 1
    assert log.states.has_open_transaction(8, 1)
    assert not log.states.has_open_transaction(8, 2), "of another epoch"
    assert not log.states.has_open_transaction(9, 1)
    log.end(8, 1, ControlType.COMMIT, 0)
    assert not log.states.has_open_transaction(8, 1)


def test_a_transaction_is_late_five_minutes_after_it_should_have_ended() -> None:
    log = Partition()
    late_ms = TS + 60_000 + 300_000
    assert not log.states.has_late_transaction(late_ms + 1, 60_000)
    log.append(1, 0, 0, transactional=True)
    log.append(2, 0, 0, transactional=True, timestamp=TS - 1_000_000)
    assert not log.states.has_late_transaction(late_ms, 60_000), "the earliest one counts"
    assert log.states.has_late_transaction(late_ms + 1, 60_000)
    restored = ProducerStates.from_snapshot(log.states.to_snapshot())
    assert restored.has_late_transaction(late_ms + 1, 60_000)
    log.end(1, 0, ControlType.ABORT, 0)
    assert log.states.has_late_transaction(TS, 60_000)
    log.end(2, 0, ControlType.ABORT, 0)
    assert not log.states.has_late_transaction(late_ms * 2, 60_000)


def test_open_transactions_of_a_snapshot_stand_in_their_order() -> None:
    """Producers stand in a snapshot in any order."""
    log = Partition()
    log.append(1, 0, 0)
    log.append(2, 0, 0, transactional=True)
    log.append(1, 0, 1, transactional=True)
    assert log.states.first_undecided_offset == 1
    restored = ProducerStates.from_snapshot(log.states.to_snapshot())
    assert restored.first_undecided_offset == 1


def test_beyond_the_limit_those_are_forgotten_that_have_been_silent_for_the_longest() -> None:
    partition = Partition(ProducerStates(keep_at_most=16))
    for producer in range(16):
        assert partition.append(producer, 0, 0, transactional=producer == 1) == producer
    partition.append(0, 0, 1)
    partition.append(16, 0, 0)
    assert len(partition.states) == 15
    assert [producer in partition.states for producer in (0, 1, 2, 3, 4, 16)] == [True, True, False, False, True, True]
    for producer in range(100, 1_000):
        partition.append(producer, 0, 0)
        assert len(partition.states) <= 16
    assert 1 in partition.states, "its transaction is open"


def test_open_transactions_are_kept_beyond_the_limit() -> None:
    partition = Partition(ProducerStates(keep_at_most=2))
    for producer in range(4):
        partition.append(producer, 0, 0, transactional=True)
    assert len(partition.states) == 4
