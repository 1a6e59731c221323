"""InitProducerId with a transactional id: the table of Kafka's prepareInitProducerIdTransit, and every race with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.transaction.events import ProducerInitialized, TransactionNotStored
from coordinator.transaction.producer_registration import ProducerInit
from coordinator.transaction.records import transaction_record
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.transaction import EPOCH_MAX, LAST_CLIENT_EPOCH, Transaction, TransactionState
from protocol.errors import ErrorCode
from tests.coordinator.driver import START_MS, Batch
from tests.coordinator.transaction.shard_driver import ORDERS, PARTITION, TransactionDriver

NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED


def at_epoch(epoch: int, state: TransactionState = TransactionState.EMPTY, name: str = "t") -> TransactionDriver:
    """A shard that was loaded with a producer (id 7) at `epoch`."""
    partitions = frozenset({ORDERS}) if state is TransactionState.ONGOING else frozenset()
    start_ms = START_MS if state is TransactionState.ONGOING else -1
    stored = Transaction(7, epoch, 60_000, state, partitions, start_ms, START_MS)
    driver = TransactionDriver(log=[Batch(0, (transaction_record(name, stored),))])
    driver.reload()
    return driver


def test_a_new_id_begins_at_epoch_0_and_each_further_producer_gets_the_next_epoch() -> None:
    driver = TransactionDriver()
    assert driver.init() == (NONE, 1000, 0)
    assert driver.init() == (NONE, 1000, 1)
    assert driver.init("other") == (NONE, 1001, 0)
    assert driver.stored() == Transaction(
        1000, 1, 60_000, TransactionState.EMPTY, frozenset(), start_timestamp_ms=-1, update_timestamp_ms=START_MS
    )
    assert driver.events[0] == ProducerInitialized("t", PARTITION, 1000, 0)


def test_beyond_the_limit_new_ids_are_refused_and_known_ones_are_served() -> None:
    driver = TransactionDriver(settings=TransactionSettings(ids_max=2))
    assert [driver.init(name)[0] for name in ("a", "b", "c", "a")] == [NONE, NONE, ErrorCode.POLICY_VIOLATION, NONE]


def test_an_epoch_that_a_producer_has_had_of_an_id_that_expired_is_forgotten() -> None:
    driver = TransactionDriver()
    assert driver.init(expected=(55, 3)) == (NONE, 1000, 0)


def test_the_timeout_is_that_of_the_last_producer() -> None:
    driver = TransactionDriver()
    driver.begin(timeout_ms=60_000)
    driver.begin(timeout_ms=5_000)
    assert driver.stored().timeout_ms == 5_000


@pytest.mark.parametrize("state", [TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT])
def test_after_a_transaction_a_producer_begins_without_it(state: TransactionState) -> None:
    driver = at_epoch(4, state)
    assert driver.init() == (NONE, 7, 5)
    assert driver.stored().state is TransactionState.EMPTY
    assert driver.stored().start_timestamp_ms == -1


# --- KIP-360: the producer says what it has had ---


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ((7, 4), (NONE, 7, 5)),
        ((7, 3), (FENCED, -1, -1)),
        ((7, 5), (FENCED, -1, -1)),
        ((8, 4), (FENCED, -1, -1)),
        ((8, LAST_CLIENT_EPOCH), (FENCED, -1, -1)),
    ],
)
def test_a_bump_needs_the_current_id_and_epoch(expected: tuple[int, int], answer: tuple[ErrorCode, int, int]) -> None:
    assert at_epoch(4).init(expected=expected) == answer


def test_a_bump_that_is_repeated_gets_the_same_epoch() -> None:
    driver = at_epoch(4)
    for _ in range(3):
        assert driver.init(expected=(7, 4)) == (NONE, 7, 5)
    assert driver.init(expected=(7, 5)) == (NONE, 7, 6)
    assert driver.init(expected=(7, 4)) == (FENCED, -1, -1)


def test_a_bump_is_not_repeated_behind_another_producer() -> None:
    driver = at_epoch(4)
    assert driver.init(expected=(7, 4)) == (NONE, 7, 5)
    assert driver.init() == (NONE, 7, 6)
    assert driver.init(expected=(7, 4)) == (FENCED, -1, -1)
    assert driver.init(expected=(7, 5)) == (FENCED, -1, -1)


def test_a_bump_is_not_recognised_as_repeated_by_the_next_coordinator() -> None:
    driver = at_epoch(4)
    assert driver.init(expected=(7, 4)) == (NONE, 7, 5)
    driver.reload()
    assert driver.init(expected=(7, 4)) == (FENCED, -1, -1)


# --- epochs that are used up ---


def test_the_last_epoch_of_a_client_leaves_one_to_fence_it_with() -> None:
    assert at_epoch(LAST_CLIENT_EPOCH - 1).init() == (NONE, 7, LAST_CLIENT_EPOCH)


@pytest.mark.parametrize("epoch", [LAST_CLIENT_EPOCH, EPOCH_MAX])
def test_a_new_producer_id_when_the_epochs_are_used_up(epoch: int) -> None:
    driver = at_epoch(epoch)
    assert driver.init() == (NONE, 1000, 0)
    assert driver.init(expected=(7, epoch)) == (FENCED, -1, -1)


def test_a_bump_from_the_last_epoch_gets_a_new_producer_id_and_again_when_it_is_repeated() -> None:
    driver = at_epoch(LAST_CLIENT_EPOCH)
    for _ in range(3):
        assert driver.init(expected=(7, LAST_CLIENT_EPOCH)) == (NONE, 1000, 0)
    assert driver.init(expected=(1000, 0)) == (NONE, 1000, 1)
    assert driver.init(expected=(7, LAST_CLIENT_EPOCH)) == (FENCED, -1, -1)


def test_an_old_epoch_gets_nothing_of_a_producer_id_that_is_used_up() -> None:
    driver = at_epoch(LAST_CLIENT_EPOCH - 1)
    assert driver.init(expected=(7, LAST_CLIENT_EPOCH - 1)) == (NONE, 7, LAST_CLIENT_EPOCH)
    assert driver.init(expected=(7, LAST_CLIENT_EPOCH - 1)) == (NONE, 7, LAST_CLIENT_EPOCH), "it is repeated"
    assert driver.init(expected=(7, 5)) == (FENCED, -1, -1)


def test_fencing_uses_the_very_last_epoch_and_then_a_new_id_begins() -> None:
    driver = at_epoch(LAST_CLIENT_EPOCH, TransactionState.ONGOING)
    assert driver.init() == (CONCURRENT, -1, -1)
    assert driver.stored().producer_epoch == EPOCH_MAX
    driver.write_markers()
    assert driver.init() == (NONE, 1000, 0)


# --- an open transaction ---


def test_an_open_transaction_is_aborted_first() -> None:
    driver = TransactionDriver()
    old = driver.begin()
    driver.add(old)
    assert driver.init() == (CONCURRENT, -1, -1)
    assert driver.state() == "PrepareAbort"
    [markers] = driver.markers
    assert (markers.producer_epoch, markers.is_commit, markers.partitions) == (1, False, (ORDERS,))
    assert driver.init() == (CONCURRENT, -1, -1)
    driver.write_markers()
    assert driver.state() == "CompleteAbort"
    assert driver.init() == (NONE, 1000, 2)
    assert driver.end(old, commit=False) is FENCED
    assert driver.add(old) is FENCED


def test_a_repeated_bump_of_a_fenced_producer_is_refused() -> None:
    driver = TransactionDriver()
    first = driver.begin()
    assert driver.init(expected=(first.producer_id, 0)) == (NONE, 1000, 1)
    driver.add(replace(first, producer_epoch=1))
    driver.init()
    driver.write_markers()
    assert driver.init(expected=(1000, 0)) == (FENCED, -1, -1)
    assert driver.init(expected=(1000, 1)) == (FENCED, -1, -1)


@pytest.mark.parametrize("commit", [True, False])
def test_while_markers_are_written_the_client_tries_again(commit: bool) -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.add(producer)
    driver.end(producer, commit=commit)
    assert driver.init() == (CONCURRENT, -1, -1)
    assert driver.init(expected=(999, 0)) == (CONCURRENT, -1, -1)
    assert driver.stored().producer_epoch == 0


# --- races ---


def test_a_second_producer_waits_until_the_first_ones_epoch_is_stored() -> None:
    driver = TransactionDriver(is_holding=True)
    assert driver.init() is None
    first = driver.last_waiter
    assert driver.init() == (CONCURRENT, -1, -1)
    assert not driver.shard.needs_producer_id("t", None)
    assert driver.shard.durable_state() == {}
    driver.release()
    assert driver.response_of(first).producer_epoch == 0
    assert driver.init() == (NONE, 1000, 1)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_an_append_that_is_refused_leaves_nothing_behind(error: ErrorCode, told: ErrorCode) -> None:
    driver = TransactionDriver(refuse_with=error)
    assert driver.init() == (told, -1, -1)
    assert driver.shard.stored_keys() == []
    assert driver.events == [TransactionNotStored("t", "new producer epoch", error)]
    driver.refuse_with = None
    assert driver.init() == (NONE, 1001, 0)
    driver.refuse_with = error
    assert driver.init() == (told, -1, -1)
    driver.refuse_with = None
    assert driver.init() == (NONE, 1001, 1), "the refused epoch was nobody's"


def test_a_commit_that_takes_too_long_stays_pending() -> None:
    driver = TransactionDriver(is_holding=True)
    driver.init()
    waiter = driver.last_waiter
    driver.time_out()
    assert driver.response_of(waiter).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.init() == (CONCURRENT, -1, -1)
    driver.release()
    assert driver.init() == (NONE, 1000, 1), "the epoch that nobody was told is not given again"


def test_a_fence_that_is_refused_leaves_the_transaction_open() -> None:
    driver = TransactionDriver()
    producer = driver.begin()
    driver.add(producer)
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.init() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
    driver.refuse_with = None
    assert driver.markers == []
    assert driver.end(producer) is NONE
    driver.write_markers()
    assert driver.state() == "CompleteCommit"


def test_an_id_that_expires_before_its_producer_id_is_there_is_asked_for_again() -> None:
    driver = TransactionDriver()
    driver.begin()
    request = ProducerInit("t", 60_000, None, fresh_producer_id=None)
    driver.advance(driver.settings.id_expiration_ms)
    assert not driver.shard.needs_producer_id("t", None)
    driver.expire()
    assert driver.shard.needs_producer_id("t", None)
    response = driver.ask(lambda shard, waiter, now_ms: shard.init_producer_id(request, waiter, now_ms))
    assert response.error_code == CONCURRENT
    assert driver.init() == (NONE, 1001, 0)
