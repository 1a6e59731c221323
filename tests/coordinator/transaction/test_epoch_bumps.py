"""EndTxn that raises the epoch: states, repetitions, used-up epochs, fencing, clients of both versions, loads."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from coordinator.transaction.records import transaction_record
from coordinator.transaction.transaction import EPOCH_MAX, LAST_CLIENT_EPOCH, TransactionResponse
from coordinator.transaction.transaction_partitions import TransactionalProducer
from protocol.errors import ErrorCode
from protocol.stored.transaction_log import TransactionLogValue
from protocol.transaction_version import EPOCH_BUMPS, ONE_EPOCH
from tests.coordinator.transaction.shard_driver import ORDERS, PAYMENTS, TransactionDriver

NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED
OTHER_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING
FIRST_ID = 1000
"""The producer id that a driver gives first."""


class End(NamedTuple):
    error: ErrorCode
    producer_id: int = -1
    epoch: int = -1


def end(driver: TransactionDriver, producer: TransactionalProducer, *, commit: bool = True) -> End:
    response = driver.end_in_full(producer, commit=commit)
    assert response is not None
    return End(response.error_code, response.producer_id, response.producer_epoch)


def after(response: TransactionResponse | None) -> TransactionalProducer:
    """The producer as it goes on after the end of a transaction."""
    assert response is not None and response.error_code is NONE
    return TransactionalProducer("t", response.producer_id, response.producer_epoch)


def in_state(name: str, epoch: int = 0) -> tuple[TransactionDriver, TransactionalProducer]:
    """A driver, and the producer with the epoch with which it got there."""
    driver = TransactionDriver()
    driver.level = 2
    producer = driver.begin()
    if epoch:
        assert driver.store(transaction_record("t", replace(driver.stored(), producer_epoch=epoch), 2))
        producer = replace(producer, producer_epoch=epoch)
    if name != "Empty":
        driver.add(producer, [ORDERS, PAYMENTS], EPOCH_BUMPS)
    if name not in ("Empty", "Ongoing"):
        driver.end_in_full(producer, commit=name.endswith("Commit"))
    if name.startswith("Complete"):
        driver.write_markers()
    assert driver.state() == name
    return driver, producer


@pytest.mark.parametrize(
    ("state", "bumped", "on_commit", "on_abort"),
    [
        ("Empty", 0, End(INVALID), End(NONE, FIRST_ID, 1)),
        ("Empty", -1, End(FENCED), End(FENCED)),
        ("Empty", 1, End(FENCED), End(FENCED)),
        ("Ongoing", 0, End(NONE, FIRST_ID, 1), End(NONE, FIRST_ID, 1)),
        ("Ongoing", 1, End(FENCED), End(FENCED)),
        ("PrepareCommit", 0, End(CONCURRENT), End(CONCURRENT)),
        ("PrepareAbort", 1, End(CONCURRENT), End(CONCURRENT)),
        # 0: the request before again; 1: one of the next transaction, in which nothing was done
        ("CompleteCommit", 0, End(NONE, FIRST_ID, 1), End(INVALID)),
        ("CompleteCommit", 1, End(INVALID), End(NONE, FIRST_ID, 2)),
        ("CompleteCommit", 2, End(FENCED), End(FENCED)),
        ("CompleteAbort", 0, End(INVALID), End(NONE, FIRST_ID, 1)),
        ("CompleteAbort", 1, End(INVALID), End(NONE, FIRST_ID, 2)),
    ],
)
def test_every_state_and_outcome(state: str, bumped: int, on_commit: End, on_abort: End) -> None:
    for commit, expected in ((True, on_commit), (False, on_abort)):
        driver, producer = in_state(state)
        answer = end(driver, replace(producer, producer_epoch=producer.producer_epoch + bumped), commit=commit)
        assert answer == expected, f"commit={commit}"
        if expected.error is not NONE:
            assert driver.state() == state, "nothing changed"


def test_each_transaction_has_an_epoch_of_its_own_and_its_markers_the_next() -> None:
    driver, producer = in_state("Ongoing")
    for epoch in range(3):
        assert producer.producer_epoch == epoch
        producer = after(driver.end_in_full(producer, commit=True))
        [markers] = driver.markers
        assert (markers.producer_epoch, markers.transaction_version) == (epoch + 1, EPOCH_BUMPS)
        assert driver.add(producer, version=EPOCH_BUMPS) is CONCURRENT
        driver.write_markers()
        assert driver.add(replace(producer, producer_epoch=epoch), version=EPOCH_BUMPS) is FENCED
        assert driver.add(producer, version=EPOCH_BUMPS) is NONE


def test_an_empty_abort_is_complete_at_once() -> None:
    driver, producer = in_state("Empty")
    driver.advance(5)
    assert end(driver, producer, commit=False) == End(NONE, FIRST_ID, 1)
    stored = driver.stored()
    assert stored.state.value == "CompleteAbort" and stored.start_timestamp_ms == driver.now_ms
    assert driver.markers == []


@pytest.mark.parametrize("commit", [True, False])
def test_used_up_epochs_lead_to_another_producer_id(commit: bool) -> None:
    driver, producer = in_state("Ongoing", LAST_CLIENT_EPOCH)
    answer = end(driver, producer, commit=commit)
    assert answer == End(NONE, FIRST_ID + 1, 0)
    [markers] = driver.markers
    assert (markers.producer_id, markers.producer_epoch) == (FIRST_ID, EPOCH_MAX)
    stored = driver.stored()
    assert (stored.producer_id, stored.producer_epoch, stored.next_producer_id) == (FIRST_ID, EPOCH_MAX, FIRST_ID + 1)
    driver.reload()  # the next coordinator gives the same id
    driver.write_markers()
    stored = driver.stored()
    assert (stored.producer_id, stored.producer_epoch, stored.previous_producer_id) == (FIRST_ID + 1, 0, FIRST_ID)
    assert end(driver, producer, commit=commit) == answer, "the request again"
    assert end(driver, producer, commit=not commit) == End(INVALID)
    assert driver.end(replace(producer, producer_id=7), version=EPOCH_BUMPS) is OTHER_ID
    assert driver.init(expected=(FIRST_ID, LAST_CLIENT_EPOCH)) == (FENCED, -1, -1), "its coordinator has moved"


def test_a_producer_without_the_response_may_ask_for_its_epoch() -> None:
    driver, producer = in_state("CompleteCommit")
    assert driver.init(expected=(FIRST_ID, producer.producer_epoch)) == (NONE, FIRST_ID, 1)
    driver, _ = in_state("CompleteCommit", LAST_CLIENT_EPOCH)
    assert driver.init(expected=(FIRST_ID, LAST_CLIENT_EPOCH)) == (NONE, FIRST_ID + 1, 0)


@pytest.mark.parametrize("epoch", [0, LAST_CLIENT_EPOCH])
def test_an_open_transaction_is_aborted_under_the_next_epoch(epoch: int) -> None:
    driver, producer = in_state("Ongoing", epoch)
    assert driver.init() == (CONCURRENT, -1, -1)
    [markers] = driver.markers
    assert not markers.is_commit and markers.producer_epoch == epoch + 1
    driver.write_markers()
    answer = driver.init()
    assert answer == ((NONE, FIRST_ID, 2) if epoch == 0 else (NONE, FIRST_ID + 1, 1))
    assert end(driver, producer, commit=True).error is (FENCED if epoch == 0 else OTHER_ID)


@pytest.mark.parametrize("epoch", [0, LAST_CLIENT_EPOCH])
def test_a_transaction_that_times_out_is_aborted_under_the_next_epoch(epoch: int) -> None:
    driver, producer = in_state("Ongoing", epoch)
    driver.advance(60_001)
    driver.abort_overdue()
    driver.write_markers()
    stored = driver.stored()
    following = (FIRST_ID, 1) if epoch == 0 else (FIRST_ID + 1, 0)
    assert stored.state.value == "CompleteAbort" and (stored.producer_id, stored.producer_epoch) == following
    assert end(driver, producer, commit=True).error is INVALID
    assert end(driver, producer, commit=False) == End(NONE, *following), "as if it had aborted itself"


def test_clients_of_both_versions_in_turn() -> None:
    driver, producer = in_state("CompleteCommit")
    producer = replace(producer, producer_epoch=1)
    assert driver.add(producer) is NONE and driver.stored().client_version == ONE_EPOCH
    assert driver.end(producer) is NONE
    assert driver.markers[0].producer_epoch == 1 and driver.markers[0].transaction_version == ONE_EPOCH
    driver.write_markers()
    assert driver.add(producer) is NONE
    assert end(driver, producer) == End(NONE, FIRST_ID, 2), "the version of the end counts"
    assert driver.markers[0].transaction_version == EPOCH_BUMPS
    driver.write_markers()
    producer = replace(producer, producer_epoch=2)
    assert driver.add(producer, version=EPOCH_BUMPS) is NONE
    assert driver.end(producer) is NONE and driver.markers[0].producer_epoch == 2


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("version", [ONE_EPOCH, EPOCH_BUMPS])
def test_what_is_stored_of_a_version(level: int, version: int) -> None:
    driver = TransactionDriver()
    driver.level = level
    producer = driver.begin()
    driver.add(producer, version=version)
    driver.end(producer, version=version)
    driver.write_markers()
    for number, batch in enumerate(driver.log):
        [record] = batch.records  # type: ignore[union-attr]
        assert record.value is not None
        is_newer = level > 0 or (version == EPOCH_BUMPS and number > 0)
        assert int.from_bytes(record.value[:2], "big") == is_newer
        value = TransactionLogValue.decode_stored(record.value)
        if is_newer:
            assert value.previous_producer_id == FIRST_ID and value.next_producer_id == -1
            assert value.client_transaction_version == (version if number else ONE_EPOCH)
