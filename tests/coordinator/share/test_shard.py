"""What is stored of share partitions: requests, fences, snapshots and updates, failures, redundant records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coordinator.runtime.contract import BatchPosition, CoordinatorRecord
from coordinator.share.events import ShareRecordSkipped, StateNotStored
from coordinator.share.outcomes import ShareOutcome
from coordinator.share.records import SnapshotKey, read_key, read_snapshot, read_update
from coordinator.share.settings import ShareStateSettings
from coordinator.share.state import ShareKey
from protocol.errors import ErrorCode
from tests.coordinator.driver import Batch
from tests.coordinator.share.share_driver import KEY, ORDERS, PAYMENTS, ShareDriver, batch

OTHER = ShareKey("g", PAYMENTS, 0)
COLD_MS = ShareStateSettings().cold_snapshot_interval_ms


def kinds(driver: ShareDriver) -> list[str]:
    """What each record of the log is."""
    found = []
    for entry in driver.log:
        assert isinstance(entry, Batch)
        for record in entry.records:
            is_snapshot = isinstance(read_key(record.key), SnapshotKey)
            found.append("update" if not is_snapshot else "snapshot" if record.value else "tombstone")
    return found


def error(outcome: ShareOutcome | None) -> ErrorCode:
    assert outcome is not None
    return outcome.error


def values(outcome: ShareOutcome | None) -> Any:
    assert outcome is not None
    assert outcome.error is ErrorCode.NONE
    if outcome.snapshot is None:
        return None
    found = outcome.snapshot
    return found.state_epoch, found.start_offset, found.delivery_complete_count, list(found.batches)


def test_what_is_written_is_read() -> None:
    driver = ShareDriver()
    assert values(driver.summary()) is None
    assert error(driver.initialize(state_epoch=2, start_offset=10)) is ErrorCode.NONE
    assert values(driver.read()) == (2, 10, 0, [])
    driver.write(batch(12, 14), state_epoch=2, delivery_complete_count=3)
    driver.write(batch(10, 11), batch(15, 16, 2, 0), state_epoch=2, start_offset=12, delivery_complete_count=3)
    assert values(driver.read()) == (2, 12, 3, [batch(12, 14), batch(15, 16, 2, 0)])
    assert values(driver.summary()) == (2, 12, 3, [batch(12, 14), batch(15, 16, 2, 0)])
    driver.reload()
    assert values(driver.read()) == (2, 12, 3, [batch(12, 14), batch(15, 16, 2, 0)])
    assert error(driver.delete()) is ErrorCode.NONE
    assert values(driver.summary()) is None
    assert driver.loaded_again().durable_state() == {} == driver.shard.durable_state()
    assert driver.shard.share_partitions_count == 0


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda driver: driver.read(OTHER), "Read operation on uninitialized share partition not allowed."),
        (lambda driver: driver.write(key=OTHER), "Write operation on uninitialized share partition not allowed."),
        *(
            (ask, "The partition id cannot be a negative number.")
            for ask in (
                lambda driver: driver.initialize(ShareKey("g", ORDERS, -1)),
                lambda driver: driver.read(ShareKey("g", ORDERS, -1)),
                lambda driver: driver.summary(ShareKey("g", ORDERS, -1)),
                lambda driver: driver.write(key=ShareKey("g", ORDERS, -1)),
                lambda driver: driver.delete(ShareKey("g", ORDERS, -1)),
            )
        ),
        (lambda driver: driver.initialize(ShareKey("g", ORDERS, 2)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda driver: driver.summary(ShareKey("g", bytes(16), 0)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda driver: driver.delete(ShareKey("g", bytes(16), 0)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda driver: driver.initialize(state_epoch=1), ErrorCode.FENCED_STATE_EPOCH),
        (lambda driver: driver.write(state_epoch=1), ErrorCode.FENCED_STATE_EPOCH),
        (lambda driver: driver.write(state_epoch=2, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda driver: driver.read(leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda driver: driver.read(leader_epoch=-1), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda driver: driver.write(state_epoch=-1, leader_epoch=-1), ErrorCode.NONE),
        (lambda driver: driver.initialize(state_epoch=-1), ErrorCode.NONE),
        (lambda driver: driver.delete(OTHER), ErrorCode.NONE),
    ],
)
def test_refusals(ask: Any, expected: str | ErrorCode) -> None:
    driver = ShareDriver()
    driver.initialize(state_epoch=2)
    driver.read(leader_epoch=5)
    outcome = ask(driver)
    found = outcome.message if isinstance(expected, str) else outcome.error
    assert found == expected
    assert (outcome.message is None) == (outcome.error is ErrorCode.NONE)


def test_a_topic_that_is_gone_is_not_written_to() -> None:
    driver = ShareDriver()
    driver.initialize()
    driver.topics.clear()
    for outcome in (driver.read(), driver.write(), driver.summary(), driver.initialize()):
        assert error(outcome) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_snapshot_follows_the_updates() -> None:
    driver = ShareDriver()
    driver.initialize()
    for offset in range(8):
        driver.write(batch(offset * 2, offset * 2))
    assert kinds(driver) == ["snapshot", *["update"] * 3, "snapshot", *["update"] * 3, "snapshot"]
    entry = driver.log[-1]
    assert isinstance(entry, Batch)
    value = entry.records[0].value
    assert value is not None
    snapshot = read_snapshot(value)
    assert snapshot.snapshot_epoch == 2
    assert len(snapshot.batches) == 8


def test_a_read_fences_leaders_before_it_and_a_write_does_not() -> None:
    driver = ShareDriver()
    driver.initialize()
    driver.read(leader_epoch=5)
    driver.read(leader_epoch=5)
    assert kinds(driver) == ["snapshot", "update"]
    driver.write(leader_epoch=9)
    assert error(driver.write(leader_epoch=6)) is ErrorCode.NONE
    entry = driver.log[-1]
    assert isinstance(entry, Batch)
    value = entry.records[0].value
    assert value is not None
    assert read_update(value).leader_epoch == 5


def test_writes_build_on_those_that_are_not_committed() -> None:
    driver = ShareDriver()
    driver.initialize()
    driver.is_holding = True
    for offset in range(5):  # the fourth is a snapshot
        assert driver.write(batch(offset * 2, offset * 2)) is None
    assert driver.read(leader_epoch=0) is None  # tells what is not committed yet
    reader = driver.last_waiter
    driver.release()
    outcome = driver.outcome_of(reader)
    assert outcome is not None
    assert outcome.snapshot is not None
    assert [each.first_offset for each in outcome.snapshot.batches] == [0, 2, 4, 6, 8]
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


def test_a_refused_write_leaves_no_trace() -> None:
    driver = ShareDriver()
    driver.initialize()
    before = driver.shard.durable_state()
    driver.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    outcome = driver.write(batch(1, 2))
    assert outcome is not None
    assert outcome.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert outcome.message == f"Unable to write share group state: {ErrorCode.NOT_ENOUGH_REPLICAS.message}"
    assert error(driver.initialize(OTHER)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error(driver.delete()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.shard.durable_state() == before
    assert driver.shard.share_partitions_count == 1
    assert sum(isinstance(event, StateNotStored) for event in driver.events) == 3
    driver.refuse_with = None
    assert error(driver.write(batch(1, 2))) is ErrorCode.NONE


def test_a_write_that_is_lost_or_late_is_answered_once() -> None:
    driver = ShareDriver()
    driver.initialize()
    driver.is_holding = True
    driver.write(batch(1, 2))
    late = driver.last_waiter
    driver.read(leader_epoch=0)
    reader = driver.last_waiter
    driver.time_out()
    for waiter in (late, reader):
        assert error(driver.outcome_of(waiter)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.write(batch(3, 4))
    lost = driver.last_waiter
    driver.unload()
    assert error(driver.outcome_of(lost)) is ErrorCode.NOT_COORDINATOR


def test_redundant_records_are_those_before_all_snapshots() -> None:
    driver = ShareDriver()
    driver.initialize()
    driver.initialize(OTHER)
    assert driver.prune() == 0
    for offset in range(4):
        driver.write(batch(offset, offset))
    assert driver.prune() == 1  # the other one needs its first record
    for offset in range(4):
        driver.write(batch(offset, offset), key=OTHER)
    assert driver.prune() == 5  # the snapshot of the first
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()
    driver.delete()
    driver.delete(OTHER)
    assert driver.prune() == 11  # the last tombstone stays
    driver.reload()
    assert driver.prune() == 11


def test_an_idle_share_partition_does_not_keep_the_log() -> None:
    driver = ShareDriver()
    driver.initialize()
    driver.initialize(OTHER)
    driver.advance(COLD_MS - 1)
    assert driver.write_again() == 0
    driver.advance(1)
    assert driver.write_again() == 2
    assert driver.prune() == 2
    assert driver.write_again() == 0
    driver.advance(COLD_MS)
    assert driver.write_again() == 0  # nothing has changed anywhere
    for offset in range(4):
        driver.write(batch(offset, offset))
    driver.advance(COLD_MS)
    assert driver.write_again() == 2
    driver.reload()
    assert driver.loaded_again().durable_state() == driver.shard.durable_state()


def test_the_states_of_deleted_topics_are_removed() -> None:
    driver = ShareDriver()
    for key in (KEY, ShareKey("h", ORDERS, 1), OTHER):
        driver.initialize(key)
    del driver.topics[ORDERS]
    driver.remove_unknown()
    assert list(driver.shard.durable_state()) == [OTHER]
    assert list(driver.loaded_again().durable_state()) == [OTHER]


def test_records_that_do_not_decode_are_skipped() -> None:
    shard = ShareDriver().new_shard()
    driver = ShareDriver()
    driver.initialize()
    driver.write(batch(1, 2))
    first, second = (record for entry in driver.log if isinstance(entry, Batch) for record in entry.records)
    records = [
        CoordinatorRecord(b"", b"x"),
        CoordinatorRecord(b"\0\7", b"x"),
        CoordinatorRecord(first.key, b"\0"),
        CoordinatorRecord(second.key, None),
        second,  # an update whose snapshot the log has lost
    ]
    for offset, record in enumerate(records):
        shard.replay(record, BatchPosition(offset), 0)
    skipped = [event.offset for event in shard.on_loaded(0) if isinstance(event, ShareRecordSkipped)]
    assert skipped == [0, 1, 2, 3]
    [state] = shard.durable_state().values()
    assert state.snapshot.batches == (batch(1, 2),)


KEYS = st.sampled_from([KEY, ShareKey("g", ORDERS, 1), OTHER])
OFFSETS = st.integers(0, 20)


class Histories(RuleBasedStateMachine):
    """Any history: what is in memory is what the log holds with what is being committed."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ShareDriver()

    @rule(key=KEYS, epoch=st.integers(0, 3), start_offset=st.integers(-1, 5))
    def initialize(self, key: ShareKey, epoch: int, start_offset: int) -> None:
        self.driver.initialize(key, epoch, start_offset)

    @rule(key=KEYS, first=OFFSETS, length=st.integers(0, 5), count=st.integers(1, 3), start=st.integers(-1, 15))
    def write(self, key: ShareKey, first: int, length: int, count: int, start: int) -> None:
        self.driver.write(batch(first, first + length, count), key=key, state_epoch=3, start_offset=start)

    @rule(key=KEYS, epoch=st.integers(-1, 6))
    def read(self, key: ShareKey, epoch: int) -> None:
        self.driver.read(key, epoch)

    @rule(key=KEYS)
    def delete(self, key: ShareKey) -> None:
        self.driver.delete(key)

    @rule(is_holding=st.booleans(), refuse_with=st.sampled_from([None, None, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def log(self, is_holding: bool, refuse_with: ErrorCode | None) -> None:
        self.driver.is_holding, self.driver.refuse_with = is_holding, refuse_with
        if not is_holding:
            self.driver.release()

    @rule()
    def reload(self) -> None:
        self.driver.release()
        self.driver.reload()

    @rule(time_ms=st.sampled_from([0, COLD_MS]))
    def tidy(self, time_ms: int) -> None:
        self.driver.advance(time_ms)
        self.driver.write_again()
        self.driver.prune()

    @invariant()
    def memory_is_the_log(self) -> None:
        if self.driver.is_anything_in_flight:
            return
        found, expected = self.driver.loaded_again().durable_state(), self.driver.shard.durable_state()
        if self.driver.deleted_to:  # fences and counts of records that are gone do not come back
            assert {key: each.snapshot for key, each in found.items()} == {
                key: each.snapshot for key, each in expected.items()
            }
        else:
            assert found == expected


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
