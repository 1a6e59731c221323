"""EndTxn in every state, markers, completion, timeouts, re-elections and loads."""

from __future__ import annotations

import pytest

from coordinator.transaction.events import MarkersFenced, TransactionNotStored, TransactionTimedOut
from coordinator.transaction.markers import MarkerOutcome, TransactionMarkers
from coordinator.transaction.transaction_partitions import TransactionalProducer
from protocol.errors import ErrorCode
from tests.coordinator.transaction.shard_driver import ORDERS, PARTITION, PAYMENTS, TransactionDriver

NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def in_state(name: str) -> tuple[TransactionDriver, TransactionalProducer]:
    driver = TransactionDriver()
    producer = driver.begin()
    if name != "Empty":
        driver.add(producer, [ORDERS, PAYMENTS])
    if name not in ("Empty", "Ongoing"):
        driver.end(producer, commit=name.endswith("Commit"))
    if name.startswith("Complete"):
        driver.write_markers()
    assert driver.state() == name
    return driver, producer


@pytest.mark.parametrize(
    ("state", "on_commit", "on_abort"),
    [
        ("Empty", INVALID, INVALID),
        ("Ongoing", NONE, NONE),
        ("PrepareCommit", CONCURRENT, CONCURRENT),
        ("PrepareAbort", CONCURRENT, CONCURRENT),
        ("CompleteCommit", NONE, INVALID),
        ("CompleteAbort", INVALID, NONE),
    ],
)
def test_every_state_and_outcome(state: str, on_commit: ErrorCode, on_abort: ErrorCode) -> None:
    for commit, expected in ((True, on_commit), (False, on_abort)):
        driver, producer = in_state(state)
        assert driver.end(producer, commit=commit) is expected
        if state != "Ongoing":
            assert driver.state() == state, "nothing changed"


@pytest.mark.parametrize("commit", [True, False])
def test_the_response_comes_before_the_markers_and_completion_after_them(commit: bool) -> None:
    driver, producer = in_state("Ongoing")
    driver.epoch = 0
    assert driver.end(producer, commit=commit) is NONE
    asked = TransactionMarkers("t", PARTITION, 0, producer.producer_id, 0, commit, (ORDERS, PAYMENTS))
    assert driver.markers == [asked]
    start_ms = driver.stored().start_timestamp_ms
    driver.advance(5)
    driver.write_markers()
    stored = driver.stored()
    assert stored.state.value == ("CompleteCommit" if commit else "CompleteAbort")
    assert stored.partitions == frozenset() and stored.start_timestamp_ms == start_ms
    assert stored.update_timestamp_ms == driver.now_ms


def test_a_transaction_without_partitions_is_complete_when_it_is_decided() -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.add(producer, [])
    assert driver.state() == "Ongoing"
    assert driver.end(producer) is NONE
    assert driver.state() == "CompleteCommit" and driver.markers == []


def test_while_the_end_is_written_nothing_else_begins() -> None:
    driver, producer = in_state("Ongoing")
    driver.is_holding = True
    assert driver.end(producer) is None
    waiter = driver.last_waiter
    assert driver.end(producer) is CONCURRENT
    assert driver.end(producer, commit=False) is CONCURRENT
    assert driver.markers == []
    driver.release()
    assert driver.response_of(waiter).error_code == NONE
    assert len(driver.markers) == 1


def test_an_end_that_is_refused_may_be_asked_again() -> None:
    driver, producer = in_state("Ongoing")
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.end(producer) is NOT_AVAILABLE
    assert driver.state() == "Ongoing" and driver.markers == []
    assert driver.events[-1] == TransactionNotStored("t", "commit", ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.refuse_with = None
    assert driver.end(producer, commit=False) is NONE


def test_an_end_whose_commit_takes_long_is_answered_once_and_takes_place() -> None:
    driver, producer = in_state("Ongoing")
    driver.is_holding = True
    driver.end(producer)
    waiter = driver.last_waiter
    driver.time_out()
    assert driver.response_of(waiter).error_code == NOT_AVAILABLE
    assert driver.end(producer, commit=False) is CONCURRENT, "the commit may still be stored"
    driver.release()
    assert driver.end(producer) is CONCURRENT
    driver.write_markers()
    assert driver.end(producer) is NONE
    assert driver.end(producer, commit=False) is INVALID


# --- completion ---


def test_a_completion_that_is_refused_is_tried_again() -> None:
    driver, producer = in_state("PrepareCommit")
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.write_markers()
    assert driver.shard.waiting_completions == 1
    assert driver.add(producer) is CONCURRENT
    driver.advance(driver.settings.completion_retry_ms)
    assert driver.shard.waiting_completions == 1
    driver.refuse_with = None
    driver.advance(driver.settings.completion_retry_ms)
    assert driver.state() == "CompleteCommit"
    assert driver.shard.waiting_completions == 0 and not driver.timers


def test_markers_are_not_asked_for_again_while_only_the_completion_is_missing() -> None:
    driver, _ = in_state("PrepareCommit")
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.write_markers()
    driver.reelect()
    assert driver.markers == []
    driver.refuse_with = None
    driver.advance(driver.settings.completion_retry_ms)
    assert driver.state() == "CompleteCommit"


def test_fenced_markers_leave_the_transaction_prepared_until_the_next_election() -> None:
    driver, producer = in_state("PrepareCommit")
    [markers] = driver.markers
    driver.write_markers(MarkerOutcome.FENCED)
    assert driver.events[-1] == MarkersFenced(markers)
    assert driver.state() == "PrepareCommit"
    assert driver.add(producer) is CONCURRENT
    driver.reelect()
    driver.write_markers()
    assert driver.state() == "CompleteCommit"


# --- stale outcomes ---


def test_the_outcome_of_markers_of_an_old_epoch_changes_nothing() -> None:
    driver, _ = in_state("PrepareCommit")
    [old] = driver.markers
    driver.reelect()
    [new] = driver.markers
    assert (old.coordinator_epoch, new.coordinator_epoch) == (0, 1)
    for outcome in MarkerOutcome:
        driver.carry_out(driver.shard.on_markers_written(old, outcome, driver.now_ms))
    assert driver.state() == "PrepareCommit" and driver.markers == [new]
    driver.write_markers()
    assert driver.state() == "CompleteCommit"


def test_the_outcome_of_an_earlier_transaction_does_not_complete_the_next_one() -> None:
    driver, producer = in_state("PrepareCommit")
    [first] = driver.markers
    driver.write_markers()
    driver.add(producer, [ORDERS, PAYMENTS])
    driver.end(producer)
    assert driver.markers == [first], "equal, and another one"
    driver.carry_out(driver.shard.on_markers_written(first, MarkerOutcome.COMPLETE, driver.now_ms))
    assert driver.state() == "PrepareCommit"


def test_an_outcome_that_comes_twice_completes_once() -> None:
    driver, _ = in_state("PrepareAbort")
    [markers] = driver.markers
    driver.write_markers()
    batches = len(driver.log)
    driver.carry_out(driver.shard.on_markers_written(markers, MarkerOutcome.COMPLETE, driver.now_ms))
    assert len(driver.log) == batches


# --- elections ---


@pytest.mark.parametrize("state", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
def test_a_new_epoch_asks_for_no_markers_of_what_is_not_decided(state: str) -> None:
    driver, _ = in_state(state)
    driver.reelect()
    assert driver.markers == []
    driver.reload()
    assert driver.markers == []
    assert driver.state() == state


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
def test_a_new_coordinator_carries_on(state: str) -> None:
    driver, producer = in_state(state)
    driver.reload()
    [markers] = driver.markers
    assert (markers.coordinator_epoch, markers.is_commit) == (1, state == "PrepareCommit")
    assert markers.partitions == (ORDERS, PAYMENTS)
    assert driver.add(producer) is CONCURRENT
    driver.write_markers()
    assert driver.state() == state.replace("Prepare", "Complete")


def test_an_end_that_is_committed_after_a_reelection_has_markers_of_the_new_epoch() -> None:
    driver, producer = in_state("Ongoing")
    driver.is_holding = True
    driver.end(producer)
    driver.reelect()
    assert driver.markers == []
    driver.release()
    assert [markers.coordinator_epoch for markers in driver.markers] == [1]


def test_a_reelection_while_the_completion_is_written_asks_for_nothing() -> None:
    driver, _ = in_state("PrepareCommit")
    driver.is_holding = True
    driver.write_markers()
    driver.reelect()
    assert driver.markers == []
    driver.release()
    assert driver.state() == "CompleteCommit"


def test_the_end_of_a_leadership_answers_who_waits_and_keeps_nothing() -> None:
    driver, producer = in_state("Ongoing")
    driver.is_holding = True
    driver.end(producer)
    waiter = driver.last_waiter
    driver.init("new")
    other = driver.last_waiter
    driver.reload()
    assert driver.response_of(waiter).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.response_of(other).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.shard.stored_keys() == ["t"]
    assert driver.state() == "Ongoing"
    driver.is_holding = False
    assert driver.end(producer, commit=False) is NONE


# --- timeouts ---


def test_a_transaction_that_outlives_its_timeout_is_aborted_and_its_producer_fenced() -> None:
    driver, producer = in_state("Ongoing")
    driver.advance(60_000)
    driver.abort_overdue()
    assert driver.state() == "Ongoing"
    driver.advance(1)
    driver.abort_overdue()
    stored = driver.stored()
    assert (stored.state.value, stored.producer_epoch) == ("PrepareAbort", 1)
    assert driver.events[-1] == TransactionTimedOut("t", producer.producer_id, 0, 60_000)
    assert driver.end(producer) is FENCED
    driver.write_markers()
    assert driver.state() == "CompleteAbort"
    assert driver.end(producer, commit=False) is FENCED
    assert driver.add(producer) is FENCED
    assert driver.init(expected=(producer.producer_id, 0)) == (FENCED, -1, -1)
    assert driver.init() == (NONE, producer.producer_id, 2)


def test_the_timeout_counts_from_the_first_partition() -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.advance(3_600_000)
    driver.add(producer)
    driver.advance(59_000)
    driver.add(producer, [PAYMENTS])
    driver.abort_overdue()
    assert driver.state() == "Ongoing"
    driver.advance(1_001)
    driver.abort_overdue()
    assert driver.state() == "PrepareAbort"


def test_a_timeout_while_the_end_is_written_changes_nothing() -> None:
    driver, producer = in_state("Ongoing")
    driver.advance(60_001)
    driver.is_holding = True
    driver.end(producer)
    driver.abort_overdue()
    driver.release()
    assert driver.state() == "PrepareCommit"
    assert driver.stored().producer_epoch == 0


def test_an_end_while_the_timeout_is_written_comes_too_late() -> None:
    driver, producer = in_state("Ongoing")
    driver.advance(60_001)
    driver.is_holding = True
    driver.abort_overdue()
    assert driver.end(producer) is CONCURRENT
    assert driver.add(producer) is CONCURRENT
    driver.release()
    assert driver.end(producer) is FENCED


def test_a_timeout_that_is_refused_has_another_turn_under_the_same_epoch() -> None:
    driver, _ = in_state("Ongoing")
    driver.advance(60_001)
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.abort_overdue()
    driver.abort_overdue()
    assert driver.state() == "Ongoing"
    driver.refuse_with = None
    driver.abort_overdue()
    assert driver.stored().producer_epoch == 1
    assert driver.shard.open_ids() == []


def test_timeouts_count_on_after_a_load() -> None:
    driver, _ = in_state("Ongoing")
    driver.reload()
    assert driver.shard.open_ids() == ["t"]
    driver.advance(60_001)
    driver.abort_overdue()
    assert driver.state() == "PrepareAbort"
