"""Cutting a log: what is left of it, in memory and on the disk, whatever happens in the middle."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from storage.log.loading import LoadRequest, load_log
from storage.log.partition_log import PartitionLog
from storage.log.removal.log_truncation import truncate_fully_and_start_at, truncate_to
from storage.log.removal.segment_retention import delete_records
from tests.async_tests import played_by
from tests.doubles.file_system import ControlledFileSystem
from tests.storage.directories.test_log_manager import TOPIC_ID, broker
from tests.storage.logs import all_values, append, config, open_log, world
from tests.storage.machine import FOLDER, SMALL_SEGMENTS, Machine, copy, on_a_machine


async def filled(machine: Machine, count: int = 30) -> PartitionLog:
    """Some segments, all of it on the disk; a new epoch every ten records, producer 5."""
    log = await machine.start()
    for at in range(count):
        await append(log, f"{at:0100}", epoch=at // 10, producer_id=5, producer_epoch=0, base_sequence=at)
    await log.flush()
    assert len(log.segments) > 4
    assert log.offsets.recovery_point == count
    return log


CUTS: list[tuple[str, int]] = [
    ("truncate_to", 24),
    ("truncate_to", 11),
    ("truncate_to", 3),
    ("restart", 50),
    ("restart", 7),
]


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize(("kind", "offset"), CUTS)
def test_a_crash_at_any_moment_of_a_cut_leaves_a_log_without_holes(kind: str, offset: int, power: bool) -> None:
    calls = 1
    while not all(_is_over_after(kind, offset, calls, seed, power=power) for seed in range(5 if power else 1)):
        calls += 1
    assert calls > 5


def _is_over_after(kind: str, offset: int, calls: int, seed: int, *, power: bool) -> bool:
    """Crash in the call number `calls` of the cut; whether the cut needs no more calls than that."""
    over = False

    async def program(machine: Machine) -> None:
        nonlocal over
        log = await filled(machine)
        over = not await _is_killed_in_cut(machine, log, kind, offset, calls)
        if power:
            machine.storage.crash_power()
        after = await machine.start(30)
        records = await all_values(after)
        assert [at for at, _ in records] == list(range(after.log_start_offset, after.log_end_offset))
        assert all(value == f"{at:0100}" for at, value in records)
        if over:
            assert after.log_end_offset == offset
        if records:
            assert after.epochs.latest_epoch == records[-1][0] // 10
        assert after.high_watermark >= after.log_start_offset

    on_a_machine(seed, program)
    return over


@pytest.mark.parametrize(("kind", "offset"), CUTS)
def test_what_a_killed_broker_has_cut_off_does_not_come_back_with_a_loss_of_power(kind: str, offset: int) -> None:
    """The start after the kill sees the cut, which may be on no disk yet, and others see that start's log."""
    calls = 1
    while not all(_is_over_and_stays(kind, offset, calls, seed) for seed in range(6)):
        calls += 1
    assert calls > 5


def _is_over_and_stays(kind: str, offset: int, calls: int, seed: int) -> bool:
    """Kill in the call number `calls` of the cut, then lose power; whether the cut needs no more calls than that."""
    over = False

    async def program(machine: Machine) -> None:
        nonlocal over
        log = await filled(machine)
        over = not await _is_killed_in_cut(machine, log, kind, offset, calls)
        second = await machine.start(30)
        await copy(second, *(f"new {at}" for at in range(2 + 10 * (seed % 2))), epoch=3)  # those that roll are flushed
        seen, recovery_point = await all_values(second), second.offsets.recovery_point
        machine.storage.crash_power()
        third = await machine.start(recovery_point)
        records = await all_values(third)
        assert records == seen[: len(records)]
        assert third.log_start_offset == second.log_start_offset
        if records:
            assert third.epochs.latest_epoch == (records[-1][0] // 10 if records[-1][1].isdigit() else 3)

    on_a_machine(seed, program)
    return over


def test_what_a_recovery_that_was_killed_has_cut_off_does_not_come_back_either() -> None:
    calls = 1
    while not all(_is_over_and_cut_stays(calls, seed) for seed in range(6)):
        calls += 1
    assert calls > 5


def _is_over_and_cut_stays(calls: int, seed: int) -> bool:
    """Kill in the call number `calls` of a start that finds damage, then lose power."""
    over = False

    async def program(machine: Machine) -> None:
        nonlocal over
        await filled(machine)
        damaged = f"{FOLDER}/{10:020d}.log"
        file = machine.filesystem.open(damaged)
        file.write_at([b"?"], file.size() // 2)
        file.sync()
        machine.storage.crash_power()
        struck = False

        def strike() -> None:
            nonlocal struck
            struck = True

        environment = machine.boot()
        machine.storage.strike_after(calls, strike)
        request = LoadRequest(FOLDER, is_clean=False, index_interval_bytes=4096, now_ms=0, recovery_point=0)
        task = asyncio.ensure_future(environment.queue.run(partial(load_log, environment.filesystem, request)))
        while not struck and not task.done():  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.01)
        over = not struck
        task.cancel()
        second = await machine.start(0)
        await copy(second, *(f"new {at}" for at in range(2 + 10 * (seed % 2))), epoch=3)
        seen = await all_values(second)
        assert 10 < len([value for _, value in seen if value.isdigit()]) < 15
        machine.storage.crash_power()
        records = await all_values(await machine.start(0))
        assert records == seen[: len(records)]

    on_a_machine(seed, program)
    return over


async def _is_killed_in_cut(machine: Machine, log: PartitionLog, kind: str, offset: int, calls: int) -> bool:
    """False: the cut was through."""
    struck = False

    def strike() -> None:
        nonlocal struck
        struck = True

    machine.storage.strike_after(calls, strike)
    cut = truncate_to(log, offset) if kind == "truncate_to" else truncate_fully_and_start_at(log, offset)
    task = asyncio.ensure_future(cut)
    while not struck and not task.done():  # noqa: ASYNC110  virtual time
        await asyncio.sleep(0.01)
    if not struck:
        await task
    task.cancel()
    return struck


@played_by(lambda program: on_a_machine(0, program))
async def test_batches_below_a_cut_are_still_known_to_be_there(machine: Machine) -> None:
    """Five of a producer may be on their way when the leader dies. A snapshot holds only its last one, and a follower that
    had its log cut leads next."""
    log = await filled(machine, 27)
    end = log.segments.active.base_offset
    assert end == 25
    await truncate_to(log, end)
    for at in range(22, end):  # the last five, but for what was cut off
        again = await append(log, f"{at:0100}", epoch=9, producer_id=5, producer_epoch=0, base_sequence=at)
        assert (again.duplicate, again.base_offset) == (True, at)
    assert log.log_end_offset == end
    for at in range(end, 27):
        new = await append(log, "new", epoch=9, producer_id=5, producer_epoch=0, base_sequence=at)
        assert (new.duplicate, new.base_offset) == (False, at)


@pytest.mark.parametrize("seed", range(8))
@played_by(on_a_machine, "seed")
async def test_a_cut_that_was_done_is_not_undone_by_a_loss_of_power(machine: Machine) -> None:
    log = await filled(machine)
    await truncate_to(log, 14)
    await copy(log, *(f"new {at}" for at in range(20)), epoch=3)
    assert machine.checkpoints == [14]  # before the first append, so that all of these are looked at
    machine.storage.crash_power()
    after = await machine.start(14)
    records = await all_values(after)
    assert 14 <= after.log_end_offset <= 34
    assert records == [(at, f"{at:0100}" if at < 14 else f"new {at - 14}") for at in range(after.log_end_offset)]
    assert after.epochs.end_offset_for(1) == (1, 14)


@played_by(lambda program: on_a_machine(1, program))
async def test_recovery_points_are_kept_only_when_one_fell(machine: Machine) -> None:
    log = await filled(machine)
    await copy(log, "a", "b", epoch=3)
    await truncate_to(log, 31)
    await truncate_to(log, 40)
    assert machine.checkpoints == []
    await truncate_fully_and_start_at(log, 60)
    assert machine.checkpoints == []
    await copy(log, "c", epoch=3)
    await log.flush()
    await truncate_to(log, 60)
    assert machine.checkpoints == [60]


@pytest.mark.parametrize("is_clean", [True, False])
async def test_epochs_that_were_cut_off_do_not_come_back(tmp_path: Path, is_clean: bool) -> None:
    """Here they would claim the records of epoch 4 that were copied to their place."""
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path), SMALL_SEGMENTS)
        await copy(log, "a", "b", epoch=4)
        await copy(log, "c", "d", epoch=5)
        await truncate_to(log, 2)
        await copy(log, "e", "f", epoch=4)
        await log.flush()
        again = await open_log(doors, str(tmp_path), SMALL_SEGMENTS, is_clean=is_clean, recovery_point=4)
        assert again.epochs.latest_epoch == 4
        assert again.epochs.end_offset_for(4) == (4, 4)
        assert again.epochs.end_offset_for(5) == (-1, -1)
        await log.close()
        await again.close()


async def test_epochs_behind_the_end_that_a_crash_left_do_not_come_back(tmp_path: Path) -> None:
    """The records of epoch 5 were lost with the power, its entry was not; what follows is of epoch 4."""
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path))
        await copy(log, "a", "b", epoch=4)
        end = (tmp_path / "t-0" / f"{0:020d}.log").stat().st_size
        await copy(log, "c", epoch=5)
        await log.flush()
        with (tmp_path / "t-0" / f"{0:020d}.log").open("r+b") as file:
            file.truncate(end)
        for _ in range(2):
            log = await open_log(doors, str(tmp_path), recovery_point=0)
            assert log.epochs.latest_epoch == 4
            await copy(log, "d", epoch=4)
            await log.flush()
        assert log.epochs.end_offset_for(4) == (4, 4)
        await log.close()


async def test_a_cut_among_deleted_records_takes_the_start_along(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path))
        for value in "abcdef":
            await append(log, value)
        log.high_watermark = 6
        delete_records(log, 4)
        await truncate_to(log, 2)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 2, 2)
        await append(log, "x")
        assert await all_values(log) == [(2, "x")]
        await log.close()


async def test_a_cut_that_leaves_nothing_of_a_log_which_starts_within_its_first_batch(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path))
        await append(log, *"abcdefg")
        log.high_watermark = 7
        delete_records(log, 5)
        for value in "xy":
            await truncate_to(log, 5)
            assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (5, 5, 5)
            await append(log, value)
            assert await all_values(log) == [(5, value)]
        await log.close()
        again = await open_log(doors, str(tmp_path))
        assert (again.log_start_offset, await all_values(again)) == (5, [(5, "y")])
        await again.close()


async def test_a_log_that_begins_anew_is_committed_up_to_there(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path))
        await append(log, "a", "b", epoch=3)
        log.high_watermark = 1
        await truncate_fully_and_start_at(log, 40)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (40, 40, 40)
        assert log.epochs.latest_epoch == -1
        await log.await_appends()
        assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n0\n"
        await truncate_fully_and_start_at(log, 10)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (10, 10, 10)
        await log.close()


@pytest.mark.parametrize("end", [30, 24, 17, 4])
async def test_producers_are_as_they_were_at_the_cut(tmp_path: Path, end: int) -> None:
    """By snapshot and replay: what comes next is taken, what was cut off is no duplicate."""
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path), SMALL_SEGMENTS)
        for at in range(30):
            await append(log, f"{at:0100}", producer_id=at % 3, producer_epoch=0, base_sequence=at // 3)
        await truncate_to(log, end)
        for at in range(end, 36):
            result = await append(log, f"{at:0100}", producer_id=at % 3, producer_epoch=0, base_sequence=at // 3)
            assert not result.duplicate
            assert result.base_offset == at
        snapshots = [int(path.stem) for path in (tmp_path / "t-0").glob("*.snapshot")]
        bases = [segment.base_offset for segment in log.segments]
        assert sorted(snapshots) == bases[1:]
        await log.close()


@pytest.mark.parametrize("seed", range(12))
@played_by(on_a_machine, "seed")
async def test_a_flush_while_a_cut_looks_for_its_place_leaves_no_checkpoint_above_it(machine: Machine) -> None:
    """What is appended next would be taken for flushed by a start after a crash."""
    log = await machine.start()
    for at in range(30):
        await append(log, f"{at:0100}", epoch=0)
    machine.storage.cold_probability = 1.0
    cut = asyncio.ensure_future(truncate_to(log, 24))
    kept = 0
    while not cut.done():  # as a periodic checkpoint may at any moment
        if not machine.checkpoints:
            kept = max(kept, log.offsets.recovery_point)
        await asyncio.sleep(0.0005)
    await cut
    assert log.log_end_offset == 24
    assert (machine.checkpoints or [kept])[-1] <= 24


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("kind", "offset"), CUTS)
@played_by(on_a_machine, "seed")
async def test_a_cut_whose_caller_is_cancelled_is_carried_out(machine: Machine, kind: str, offset: int) -> None:
    """A stop in order ends the followers, whatever they are at, and closes the logs then."""
    log = await filled(machine)
    machine.storage.cold_probability = 0.5
    cut = truncate_to(log, offset) if kind == "truncate_to" else truncate_fully_and_start_at(log, offset)
    task = asyncio.ensure_future(cut)
    await asyncio.sleep(machine.loop.random.choice((0, 0.001, 0.005, 0.02)))
    task.cancel()
    await asyncio.wait([task])
    await log.close()
    if log.log_end_offset == 30 and kind == "truncate_to":
        return  # it had not begun
    assert log.log_end_offset == offset
    kept = offset if kind == "truncate_to" else 0
    assert [each.last_sequence for each in log.producers.states.describe()] == ([kept - 1] if kept else [])
    assert log.epochs.latest_epoch == ((kept - 1) // 10 if kept else -1)
    assert not machine.checkpoints or machine.checkpoints == [offset]
    if offset < 30:
        assert machine.checkpoints == [offset]


async def test_a_stop_waits_for_a_cut(tmp_path: Path) -> None:
    """Whose follower was ended first: the log is closed as it is on the disk."""
    filesystem = ControlledFileSystem()
    async with broker(tmp_path, filesystem=filesystem, kill=True) as here:
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        for at, value in enumerate("abc"):
            await append(log, value, epoch=at, producer_id=5, producer_epoch=0, base_sequence=at)
        cut = filesystem.shut_on("truncate", "*")
        follower = asyncio.ensure_future(truncate_to(log, 1))
        await cut.reached()
        follower.cancel()
        await asyncio.wait((follower,))
        stop = asyncio.ensure_future(here.logs.close(broker_epoch=7))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not stop.done()
        cut.open()
        await stop
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
    async with broker(tmp_path) as again:
        log = again.logs.logs["t", 0]
        assert await all_values(log) == [(0, "a")]
        assert [each.last_sequence for each in log.producers.states.describe()] == [0]
        assert log.epochs.latest_epoch == 0


def test_a_cut_of_a_compacted_log_tells_of_no_missing_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The cleaner may leave segments without records."""

    async def run() -> None:
        async with world(str(tmp_path)) as place:
            compacted = config(segment_bytes=300, cleanup_policy="compact")
            log = await open_log(place, str(tmp_path), compacted)
            for number in range(12):
                await append(log, f"v{number}")
            await log.close()
            (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(b"")
            log = await open_log(place, str(tmp_path), compacted, is_clean=True, recovery_point=12)
            await truncate_to(log, 10)
            assert log.log_end_offset == 10
            await log.close()

    asyncio.run(run())
    assert not caplog.records
