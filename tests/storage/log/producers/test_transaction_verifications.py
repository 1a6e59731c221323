"""Guards of transactions that are about to begin: alone, in a log, and in any history of batches, markers and late answers."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode, KafkaError
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from storage.log.append_result import AppendResult
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.producers.transaction_verifications import (
    GUARDS_MAX,
    ONGOING,
    TransactionVerifications,
    VerificationGuard,
)
from tests.storage.logs import NOW_MS, ManualClock, append_records, batch, open_log, world

PRODUCER = 7


def test_a_producer_has_one_guard_until_its_transaction_begins() -> None:
    states = TransactionVerifications()
    first = states.begin(PRODUCER, 0, 5, NOW_MS)
    assert states.begin(PRODUCER, 0, 5, NOW_MS) is first and states.is_current(PRODUCER, first)
    assert states.begin(8, 0, 5, NOW_MS) is not first
    states.end(PRODUCER)
    assert not states.is_current(PRODUCER, first)
    assert states.begin(PRODUCER, 0, 5, NOW_MS) is not first


@pytest.mark.parametrize(
    ("asked", "lowest", "epoch"),
    [
        ([(0, 5)], 5, 0),
        ([(0, 5), (0, 6)], 5, 0),
        ([(0, 5), (0, 4)], 4, 0),
        ([(0, 5), (1, 9)], 9, 1),
        ([(1, 9), (0, 0)], 9, 1),
        ([(1, 9), (1, 8), (0, 0), (1, 10)], 8, 1),
    ],
)
def test_a_guard_knows_the_lowest_sequence_of_the_newest_epoch(
    asked: list[tuple[int, int]], lowest: int, epoch: int
) -> None:
    states = TransactionVerifications()
    for number, (of_epoch, sequence) in enumerate(asked):
        guard = states.begin(PRODUCER, of_epoch, sequence, NOW_MS + number)
    assert (guard.lowest_sequence, guard.epoch, guard.since_ms) == (lowest, epoch, NOW_MS)


def test_guards_have_a_bound_and_an_age() -> None:
    states = TransactionVerifications()
    guards = [states.begin(producer_id, 0, 0, NOW_MS + producer_id) for producer_id in range(GUARDS_MAX + 1)]
    assert len(states) == GUARDS_MAX
    assert not states.is_current(0, guards[0]) and states.is_current(1, guards[1])
    states.remove_expired(NOW_MS + 10 + 1000, 1000)
    assert not states.is_current(10, guards[10]) and states.is_current(11, guards[11])


def records(*, sequence: int = 0, epoch: int = 0, producer_id: int = PRODUCER) -> bytearray:
    return batch("value", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)


async def end(log: PartitionLog, *, epoch: int = 0, origin: AppendOrigin = AppendOrigin.COORDINATOR) -> None:
    marker = encode_marker(EndTxnMarker(ControlType.ABORT, 0, NOW_MS), producer_id=PRODUCER, producer_epoch=epoch)
    await append_records(log, bytearray(marker), origin=origin)


async def outcome(log: PartitionLog, guard: VerificationGuard | None, **of: int) -> AppendResult | ErrorCode:
    try:
        return await append_records(log, records(**of), guard=guard)
    except KafkaError as error:
        return error.code


async def test_the_first_batch_brings_its_guard_and_the_next_ones_need_none(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path / "t-0"))
        guard = log.producers.begin_verification(PRODUCER, 0, 0)
        assert await outcome(log, ONGOING) is ErrorCode.INVALID_TXN_STATE
        assert await outcome(log, VerificationGuard(0, 0, 0)) is ErrorCode.INVALID_TXN_STATE
        assert isinstance(await outcome(log, guard), AppendResult)
        assert log.producers.begin_verification(PRODUCER, 0, 1) is ONGOING
        assert isinstance(await outcome(log, ONGOING, sequence=1), AppendResult)
        assert isinstance(await outcome(log, guard, sequence=2), AppendResult)


async def test_a_late_confirmation_begins_no_transaction_behind_the_marker(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path / "t-0"))
        late = log.producers.begin_verification(PRODUCER, 0, 0)
        await end(log)
        assert await outcome(log, late) is ErrorCode.INVALID_TXN_STATE
        # The producer's next transaction asks anew; the late answer is still about the one before.
        current = log.producers.begin_verification(PRODUCER, 0, 0)
        assert await outcome(log, late) is ErrorCode.INVALID_TXN_STATE
        assert isinstance(await outcome(log, current), AppendResult)


async def test_a_transaction_that_ends_while_the_others_are_asked_about_does_not_go_on(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path / "t-0"))
        await append_records(log, records())
        guard = log.producers.begin_verification(PRODUCER, 0, 1)
        assert guard is ONGOING
        await end(log)
        assert await outcome(log, guard, sequence=1) is ErrorCode.INVALID_TXN_STATE


async def test_a_batch_does_not_overtake_an_earlier_one_that_waits(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path / "t-0"))
        guard = log.producers.begin_verification(PRODUCER, 0, 3)
        assert log.producers.begin_verification(PRODUCER, 0, 4) is guard
        assert await outcome(log, guard, sequence=4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert isinstance(await outcome(log, guard, sequence=3), AppendResult)
        assert isinstance(await outcome(log, guard, sequence=4), AppendResult)


async def test_a_duplicate_is_answered_whatever_became_of_its_transaction(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path / "t-0"))
        assert isinstance(await outcome(log, log.producers.begin_verification(PRODUCER, 0, 0)), AppendResult)
        await end(log)
        again = await outcome(log, ONGOING)
        assert isinstance(again, AppendResult) and again.duplicate and again.base_offset == 0


async def test_an_older_epoch_is_fenced_and_a_newer_one_is_asked_about(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path / "t-0"))
        await append_records(log, records(epoch=4))
        older = log.producers.begin_verification(PRODUCER, 3, 0)
        assert older is ONGOING
        assert await outcome(log, older, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await outcome(log, ONGOING, epoch=5) is ErrorCode.INVALID_TXN_STATE
        assert isinstance(await outcome(log, log.producers.begin_verification(PRODUCER, 5, 0), epoch=5), AppendResult)


async def test_a_coordinator_s_batch_is_verified_as_well(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path / "t-0"))
        of = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": -1, "is_transactional": True}
        with pytest.raises(KafkaError, match="not part of an ongoing transaction"):
            await append_records(log, batch("x", **of), origin=AppendOrigin.COORDINATOR, guard=ONGOING)
        guard = log.producers.begin_verification(PRODUCER, 0, -1)
        await append_records(log, batch("x", **of), origin=AppendOrigin.COORDINATOR, guard=guard)
        assert log.producers.begin_verification(PRODUCER, 0, -1) is ONGOING


async def test_guards_go_with_the_state_of_silent_producers_and_stay_when_the_log_is_replaced(tmp_path: Path) -> None:
    clock = ManualClock()
    async with world(str(tmp_path), clock=clock) as doors:
        log = await open_log(doors, str(tmp_path / "t-0"))
        guard = log.producers.begin_verification(PRODUCER, 0, 0)
        other = await open_log(doors, str(tmp_path / "t-1"))
        other.producers.take_over_verifications(log.producers)
        assert isinstance(await outcome(other, guard), AppendResult)
        expired = log.producers.begin_verification(PRODUCER + 1, 0, 0)
        clock.now_ms += 500
        log.producers.remove_expired(clock.now_ms, 1000)
        assert log.producers.begin_verification(PRODUCER + 1, 0, 0) is expired
        clock.now_ms += 500
        log.producers.remove_expired(clock.now_ms, 1000)
        assert log.producers.begin_verification(PRODUCER + 1, 0, 0) is not expired


STEPS = st.lists(st.sampled_from(["begin", "append", "append stale", "marker"]), max_size=14)


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_in_any_history_only_a_transaction_that_was_asked_about_begins(steps: list[str]) -> None:
    """A model of the partition: whether the transaction is open, and which guards were made since the last batch or marker."""

    async def program(directory: str) -> None:
        async with world(directory) as doors:
            log = await open_log(doors, f"{directory}/t-0")
            is_open, current, stale, sequence = False, list[VerificationGuard](), list[VerificationGuard](), 0
            for step in steps:
                if step == "begin":
                    guard = log.producers.begin_verification(PRODUCER, 0, sequence)
                    assert (guard is ONGOING) == is_open
                    if not is_open:
                        assert guard not in stale
                        current.append(guard)
                elif step == "marker":
                    await end(log)
                    is_open = False
                    stale, current = stale + current, []
                else:
                    source = current if step == "append" else stale
                    guard = source[-1] if source else ONGOING
                    found = await outcome(log, guard, sequence=sequence)
                    if is_open or (step == "append" and current):
                        assert isinstance(found, AppendResult)
                        is_open, sequence = True, sequence + 1
                        stale, current = stale + current, []
                    else:
                        assert found is ErrorCode.INVALID_TXN_STATE
                assert log.producers.states.has_open_transaction(PRODUCER, 0) == is_open

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(program(directory))
