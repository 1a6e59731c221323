"""Retention and the cleaner at one log: they take turns, and neither keeps the other from its work."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.records.invalid import InvalidBatch
from storage.log.partition_log import PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import delete_records
from tests.doubles.file_system import ControlledFileSystem, Gate, Rule, fails
from tests.storage.cleaner.cleaning import TOPIC, Cleanery, batches_in, cleanery, fill, left_in

T = TypeVar("T")

HOUR_MS = 3_600_000
# What is filled in at a time is a segment: small ones that a cleaning leaves nothing of are as old as their files.
COMPACTED: dict[str, Any] = {"cleanup_policy": "compact", "segment_bytes": 100_000}
BOTH = COMPACTED | {"cleanup_policy": "compact,delete", "retention_ms": HOUR_MS}
RECORDS = 12
"""Of `fill(broker, 6)`."""


@asynccontextmanager
async def stopped_at(
    filesystem: ControlledFileSystem, ending: str, work: Coroutine[Any, Any, T]
) -> AsyncIterator[tuple[asyncio.Task[T], Gate]]:
    """Begin the work, and stop it at a file of this ending; it is stopped until the gate is opened."""
    gate = filesystem.shut_on("open rename exists", f"*{ending}")
    working = asyncio.create_task(work)
    try:
        await gate.reached()
        yield working, gate
    finally:
        gate.open()
        await working


@dataclass
class Stopped:
    """A log with records that have expired, and its cleaning, which is under way until `end`."""

    broker: Cleanery
    cleaning: asyncio.Task[bool]
    filesystem: ControlledFileSystem
    gate: Gate
    no_room: Rule

    @property
    def log(self) -> PartitionLog:
        return self.broker.log

    async def look(self) -> None:
        await self.broker.logs.retention.delete_old_segments()

    async def end(self) -> bool:
        """Whether it went through."""
        self.gate.open()
        return await self.cleaning


@asynccontextmanager
async def stopped_cleaning(folder: Path, **topic: Any) -> AsyncIterator[Stopped]:
    filesystem = ControlledFileSystem()
    no_room = filesystem.on("open", "*.cleaned", fails(errno.ENOSPC))
    no_room.is_on = False
    async with cleanery(folder, filesystem=filesystem, **(topic or BOTH)) as broker:
        await fill(broker, 6)
        async with stopped_at(filesystem, ".cleaned", broker.clean()) as (cleaning, gate):
            broker.clock.now_ms += 2 * HOUR_MS
            yield Stopped(broker, cleaning, filesystem, gate, no_room)


def went(log: PartitionLog) -> bool:
    """Whether all that `fill` has written has gone."""
    return log.log_start_offset == RECORDS and log.segments_count == 1


# --- retention while a log is cleaned ---


async def test_retention_passes_over_a_log_that_is_cleaned_and_comes_back_to_it(tmp_path: Path) -> None:
    async with stopped_cleaning(tmp_path) as stopped:
        for _ in range(2):
            await stopped.look()
        assert stopped.log.log_start_offset == 0
        assert await stopped.end()
        assert stopped.log.offsets.first_dirty_offset == RECORDS
        assert went(stopped.log)


async def test_what_lies_below_the_start_of_a_compacted_log_goes_behind_its_cleaning(tmp_path: Path) -> None:
    """It has gone for readers at once."""
    async with stopped_cleaning(tmp_path, **COMPACTED) as stopped:
        assert delete_records(stopped.log, RECORDS) == RECORDS
        await stopped.look()
        assert stopped.log.log_start_offset == RECORDS and stopped.log.segments_count == 2
        assert await stopped.end()
        assert went(stopped.log) and left_in(stopped.broker.folder) == []


async def test_no_other_log_waits_for_the_cleaning(tmp_path: Path) -> None:
    async with stopped_cleaning(tmp_path) as stopped:
        broker, cleaned = stopped.broker, stopped.log
        broker.log = await broker.logs.log_for("other", 0)
        await fill(broker, 6)
        broker.clock.now_ms += 2 * HOUR_MS
        await stopped.look()
        assert went(broker.log) and not went(cleaned)
        assert await stopped.end()
        assert went(cleaned)


@pytest.mark.parametrize("how", ["aborted", "no room", "broken batch"])
async def test_a_cleaning_that_fails_leaves_nothing_waiting(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stopped_cleaning(tmp_path) as stopped:
        await stopped.look()
        match how:
            case "aborted":
                aborting = asyncio.ensure_future(stopped.broker.logs.cleaner.abort(stopped.log))
                await asyncio.sleep(0)
            case "no room":
                stopped.no_room.is_on = True
            case _:
                monkeypatch.setattr("storage.cleaner.segment_cleaning.BatchCleaner.clean", broken_batch)
        assert not await stopped.end()
        assert went(stopped.log) and not stopped.broker.failed
        if how == "aborted":
            await aborting


def broken_batch(*_: object) -> None:
    raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "a wrong checksum")


@pytest.mark.parametrize("how", ["deleted", "stopped", "cut"])
async def test_what_ends_a_cleaning_for_good_finds_the_log_as_ever(tmp_path: Path, how: str) -> None:
    async with stopped_cleaning(tmp_path) as stopped:
        logs, log = stopped.broker.logs, stopped.log
        await stopped.look()
        endings: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "deleted": lambda: logs.delete(*TOPIC),
            "stopped": logs.cleaner.close,
            "cut": lambda: truncate_to(log, 3),
        }
        ending = asyncio.ensure_future(endings[how]())
        await asyncio.sleep(0)
        assert not await stopped.end()
        await ending
        assert not stopped.broker.failed and log.failure is None
        match how:
            case "deleted":
                assert logs.find(*TOPIC) is None
            case "stopped":
                assert log.log_start_offset == 0, "a stop does not wait for retention"
            case _:
                await stopped.look()
                assert (log.log_start_offset, log.log_end_offset) == (3, 3)


async def test_a_cleaning_that_nobody_waited_for_is_not_followed_by_retention(tmp_path: Path) -> None:
    async with stopped_cleaning(tmp_path) as stopped:
        assert await stopped.end()
        assert stopped.log.log_start_offset == 0
        await stopped.look()
        assert went(stopped.log)


async def test_where_there_is_no_room_retention_goes_first(tmp_path: Path) -> None:
    async with stopped_cleaning(tmp_path) as stopped:
        await stopped.look()
        assert stopped.log.log_start_offset == 0
        stopped.filesystem.free = 0
        await stopped.broker.logs.space.look()
        await stopped.look()
        assert went(stopped.log)
        assert not await stopped.end()
        assert not stopped.broker.failed


# --- a cleaning while segments go ---


@pytest.mark.parametrize("where", [".snapshot", ".deleted"], ids=["before they go", "while they go"])
async def test_no_cleaning_begins_while_retention_is_at_work_in_the_log(tmp_path: Path, where: str) -> None:
    filesystem = ControlledFileSystem()
    async with cleanery(tmp_path, filesystem=filesystem, **BOTH) as broker:
        await broker.put(("a", "a"), producer_id=7, producer_epoch=0, base_sequence=0)
        await fill(broker, 6)
        broker.clock.now_ms += 2 * HOUR_MS
        await fill(broker, 6)
        async with stopped_at(filesystem, where, broker.logs.retention.delete_old_segments()) as (retaining, gate):
            assert not await broker.clean()
            # Another look does not get into its way.
            await broker.logs.retention.delete_old_segments()
            gate.open()
            await retaining
        assert broker.log.log_start_offset == 1 + RECORDS
        assert await broker.clean()
        assert [key for _, key, _ in left_in(broker.folder)] == ["a", "b"]


# --- a log that halts while it is cleaned ---


async def test_a_batch_that_was_refused_is_no_reason_to_drop_an_earlier_one_of_its_producer(tmp_path: Path) -> None:
    """Until the log goes on it knows a sequence number that is nowhere on the disk."""

    def of_producer() -> list[int]:
        return [header.base_sequence for header, _ in batches_in(tmp_path / "t-0") if header.producer_id == 7]

    disk = ControlledFileSystem()
    async with cleanery(tmp_path, filesystem=disk, **COMPACTED) as broker:
        log = broker.log
        await broker.put(("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
        await broker.roll()
        await broker.put(("a", "2"))
        await broker.roll()
        async with stopped_at(disk, "0.log", broker.clean()) as (cleaning, gate):
            disk.full.add(log.directory)
            with suppress(KafkaError):
                await broker.put(("b", "1"), producer_id=7, producer_epoch=0, base_sequence=1)
            await log.await_appends()
            assert log.is_halted
            disk.full.clear()
            gate.open()
            assert not await cleaning
        assert not await broker.clean(), "nor is one begun"
        assert of_producer() == [0]
        broker.clock.now_ms += HOUR_MS
        await broker.logs.space.look()
        assert not log.is_halted and log.has_room
        await broker.put(("c", "1"))
        assert await broker.clean()
        assert of_producer() == [0]


async def test_a_directory_without_room_is_looked_at_by_itself(tmp_path: Path) -> None:
    """The records that were deleted are to make room before the next look at all logs."""
    async with cleanery(tmp_path, **BOTH) as broker:
        await fill(broker, 6)
        broker.clock.now_ms += 2 * HOUR_MS
        space = broker.log.environment.space
        space.floor_bytes = 1_000
        space.on_measured(100_000, 0)
        await broker.logs.retention.make_room()
        assert broker.log.log_start_offset == 0, "there is room"
        space.on_measured(500, 1)
        await broker.logs.retention.make_room()
        assert went(broker.log)
