"""Transactional ids that nobody uses are forgotten."""

from __future__ import annotations

import pytest

from coordinator.transaction.events import TransactionalIdsExpired, TransactionNotStored
from coordinator.transaction.expiry import IDS_AT_ONCE
from protocol.errors import ErrorCode
from tests.coordinator.transaction.shard_driver import PARTITION, TransactionDriver


def test_an_id_expires_when_its_last_change_is_long_ago() -> None:
    driver = TransactionDriver()
    driver.begin()
    driver.advance(driver.settings.id_expiration_ms - 1)
    driver.expire()
    assert driver.shard.stored_keys() == ["t"]
    driver.advance(1)
    driver.expire()
    assert driver.shard.stored_keys() == []
    assert driver.events[-1] == TransactionalIdsExpired(PARTITION, ("t",))
    assert driver.log[-1].records[0].value is None
    driver.reload()
    assert driver.shard.stored_keys() == []


@pytest.mark.parametrize("commit", [True, False])
def test_an_id_with_a_complete_transaction_expires_and_one_with_an_open_one_does_not(commit: bool) -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.add(producer)
    driver.advance(driver.settings.id_expiration_ms)
    driver.expire()
    assert driver.state() == "Ongoing"
    driver.end(producer, commit=commit)
    driver.advance(driver.settings.id_expiration_ms)
    driver.expire()
    assert driver.state().startswith("Prepare")
    driver.write_markers()
    driver.advance(driver.settings.id_expiration_ms)
    driver.expire()
    assert driver.shard.stored_keys() == []
    assert driver.add(producer) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_while_the_tombstone_is_written_nothing_begins() -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.advance(driver.settings.id_expiration_ms)
    driver.is_holding = True
    driver.expire()
    driver.expire()
    assert driver.add(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.init() == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    driver.release()
    assert len(driver.log) == 2, "one tombstone"
    assert driver.init() == (ErrorCode.NONE, 1001, 0)


def test_an_expiry_that_is_refused_leaves_the_id_as_it_was() -> None:
    driver = TransactionDriver()
    driver.begin()
    driver.advance(driver.settings.id_expiration_ms)
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.expire()
    assert driver.events[-1] == TransactionNotStored("t", "expiry", ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.refuse_with = None
    assert driver.init() == (ErrorCode.NONE, 1000, 1)


def test_many_ids_expire_in_batches() -> None:
    driver = TransactionDriver()
    for number in range(IDS_AT_ONCE + 1):
        driver.begin(f"t{number}")
    driver.advance(driver.settings.id_expiration_ms)
    batches = len(driver.log)
    driver.expire()
    assert [len(batch.records) for batch in driver.log[batches:]] == [IDS_AT_ONCE, 1]
