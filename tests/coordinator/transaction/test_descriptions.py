"""What DescribeTransactions and ListTransactions show."""

from __future__ import annotations

import pytest

from coordinator.transaction.descriptions import TransactionFilter, unknown_states
from protocol.errors import ErrorCode
from tests.coordinator.driver import START_MS
from tests.coordinator.transaction.shard_driver import ORDERS, PAYMENTS, TransactionDriver


def listed(driver: TransactionDriver, *states: str, ids: tuple[int, ...] = (), longer_than_ms: int = -1) -> list[str]:
    wanted = TransactionFilter(frozenset(states), frozenset(ids), longer_than_ms)
    rows = [driver.shard.list_row(name, wanted, driver.now_ms) for name in driver.shard.stored_keys()]
    return [f"{row.transactional_id} {row.producer_id} {row.transaction_state}" for row in rows if row is not None]


@pytest.fixture
def driver() -> TransactionDriver:
    """One id that is empty, one open since a second, one that is being committed."""
    driver = TransactionDriver()
    driver.begin("empty")
    driver.add(driver.begin("open"), [PAYMENTS, ORDERS, ("orders", 2)])
    driver.advance(1_000)
    committing = driver.begin("committing")
    driver.add(committing)
    driver.end(committing)
    return driver


def test_all_are_listed_without_a_filter(driver: TransactionDriver) -> None:
    assert listed(driver) == ["empty 1000 Empty", "open 1001 Ongoing", "committing 1002 PrepareCommit"]


def test_filters_by_state_producer_and_duration(driver: TransactionDriver) -> None:
    assert listed(driver, "Ongoing", "Dead") == ["open 1001 Ongoing"]
    assert listed(driver, "nonsense") == []
    assert listed(driver, ids=(1000, 5)) == ["empty 1000 Empty"]
    assert listed(driver, "Ongoing", ids=(1000,)) == []
    assert listed(driver, longer_than_ms=999) == ["empty 1000 Empty", "open 1001 Ongoing"]
    assert listed(driver, longer_than_ms=1_000) == ["empty 1000 Empty"]
    assert listed(driver, longer_than_ms=0) == ["empty 1000 Empty", "open 1001 Ongoing"]


def test_states_that_do_not_exist_are_named() -> None:
    states = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"]
    assert unknown_states([*states, "PrepareEpochFence", "ongoing", "x", "x"]) == ["ongoing", "x"]


def test_a_transaction_is_described_with_its_partitions(driver: TransactionDriver) -> None:
    row = driver.shard.describe("open")
    assert (row.error_code, row.producer_id, row.producer_epoch, row.transaction_state) == (0, 1001, 0, "Ongoing")
    assert (row.transaction_timeout_ms, row.transaction_start_time_ms) == (60_000, START_MS)
    assert [(topic.topic, topic.partitions) for topic in row.topics] == [("orders", [0, 2]), ("payments", [1])]


def test_what_is_not_stored_is_not_found(driver: TransactionDriver) -> None:
    driver.is_holding = True
    driver.init("new")
    for name in ("new", "other"):
        assert driver.shard.describe(name).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert len(listed(driver)) == 3
