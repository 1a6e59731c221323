"""Partitions become part of a transaction, and are asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.transaction.transaction_partitions import TransactionalProducer
from protocol.errors import ErrorCode
from tests.coordinator.driver import START_MS
from tests.coordinator.transaction.shard_driver import ORDERS, PAYMENTS, TransactionDriver

NONE = ErrorCode.NONE


def test_the_first_partition_begins_the_transaction_and_others_join_it() -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.advance(100)
    assert driver.add(producer) is NONE
    driver.advance(50)
    assert driver.add(producer, [ORDERS, PAYMENTS]) is NONE
    stored = driver.stored()
    assert stored.state.value == "Ongoing" and stored.partitions == {ORDERS, PAYMENTS}
    assert (stored.start_timestamp_ms, stored.update_timestamp_ms) == (START_MS + 100, START_MS + 150)


def test_partitions_that_are_known_are_not_written_again() -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.add(producer, [ORDERS, PAYMENTS])
    batches = len(driver.log)
    assert driver.add(producer) is NONE
    assert driver.add(producer, []) is NONE
    assert len(driver.log) == batches


@pytest.mark.parametrize("commit", [True, False])
def test_a_next_transaction_has_partitions_and_a_time_of_its_own(commit: bool) -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.add(producer)
    driver.end(producer, commit=commit)
    assert driver.add(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    driver.advance(10)
    assert driver.add(producer, [PAYMENTS]) is NONE
    assert driver.stored().partitions == {PAYMENTS}
    assert driver.stored().start_timestamp_ms == START_MS + 10


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"transactional_id": "unknown"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_id": 1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_id": 1, "producer_epoch": 9}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": 0}, ErrorCode.PRODUCER_FENCED),
        ({"producer_epoch": 2}, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_a_producer_that_is_not_the_current_one(changes: dict[str, object], error: ErrorCode) -> None:
    driver = TransactionDriver()
    driver.begin()
    current = driver.begin()
    assert current.producer_epoch == 1
    other = replace(current, **changes)  # type: ignore[arg-type]
    assert driver.add(other) is error
    assert driver.shard.verify_partitions(other, [ORDERS]) == {ORDERS: error}
    assert driver.end(other) is error


def test_while_a_change_is_written_the_client_tries_again() -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.is_holding = True
    assert driver.add(producer) is None
    first = driver.last_waiter
    assert driver.add(producer, [PAYMENTS]) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.end(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.state() == "Empty"
    driver.release()
    assert driver.response_of(first).error_code == NONE
    assert driver.stored().partitions == {ORDERS}


def test_nothing_can_be_added_to_an_id_whose_first_record_is_being_written() -> None:
    driver = TransactionDriver(is_holding=True)
    driver.init()
    producer = TransactionalProducer("t", 1000, 0)
    assert driver.add(producer) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.shard.verify_partitions(producer, [ORDERS]) == {ORDERS: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert driver.end(producer) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_partitions_that_were_refused_are_not_in_the_transaction() -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.add(producer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.refuse_with = None
    assert driver.state() == "Empty"
    assert driver.shard.open_ids() == []
    assert driver.add(producer) is NONE
    driver.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert driver.add(producer, [PAYMENTS]) is ErrorCode.NOT_COORDINATOR
    assert driver.stored().partitions == {ORDERS}


# --- verification ---


def test_verification_tells_which_partitions_are_in_the_open_transaction() -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    abortable = ErrorCode.TRANSACTION_ABORTABLE
    assert driver.shard.verify_partitions(producer, [ORDERS]) == {ORDERS: abortable}
    driver.add(producer)
    assert driver.shard.verify_partitions(producer, [ORDERS, PAYMENTS]) == {ORDERS: NONE, PAYMENTS: abortable}
    driver.is_holding = True
    driver.end(producer)
    assert driver.shard.verify_partitions(producer, [ORDERS]) == {ORDERS: NONE}, "the end is not stored yet"
    driver.release()
    assert driver.shard.verify_partitions(producer, [ORDERS]) == {ORDERS: ErrorCode.CONCURRENT_TRANSACTIONS}
    driver.write_markers()
    assert driver.shard.verify_partitions(producer, [ORDERS]) == {ORDERS: abortable}
