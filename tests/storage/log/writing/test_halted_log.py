"""A log that the disk has refused room: what it knows besides its records is the same when it goes on."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

from protocol.errors import KafkaError
from storage.free_space import NoRoom
from storage.log.partition_log import PartitionLog
from storage.log.removal.log_truncation import resume, truncate_fully_and_start_at, truncate_to
from storage.log.removal.segment_retention import delete_old_segments
from tests.doubles.file_system import PLENTY, Call, ControlledFileSystem, fails, no_space
from tests.storage.directories.test_log_manager import broker, folders
from tests.storage.logs import NOW_MS, World, all_values, append, config, open_log, world


async def goes_on(log: PartitionLog, disk: ControlledFileSystem) -> None:
    disk.left_bytes = PLENTY
    await resume(log)
    assert not log.is_halted


async def test_leader_epochs_whose_file_was_refused(tmp_path: Path) -> None:
    """The epochs' file is the write for which there was no room."""
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        await append(log, "a", epoch=1)
        await log.flush()
        await append(log, "b", epoch=4)
        await append(log, "c", epoch=4)
        disk.left_bytes = 0
        await log.flush()
        assert log.is_halted
        await goes_on(log, disk)
        assert log.epochs.latest_epoch == 4
        assert log.epochs.end_offset_for(1) == (1, 1)
        assert log.epochs.epoch_of(2) == 4
        await append(log, "d", epoch=4)
        await log.close()
        again = await open_log(place, str(tmp_path), is_clean=True, recovery_point=4)
        assert again.epochs.end_offset_for(1) == (1, 1)
        assert again.epochs.end_offset_for(4) == (4, 4)
        await again.close()


def frames_kept(error: KafkaError) -> int:
    return len(list(walk_tb(error.__traceback__)))


async def test_refusals_do_not_keep_what_was_refused(tmp_path: Path) -> None:
    """An error that is raised again keeps the frames of every time, and with them the records of clients that try again."""
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        await append(log, "a")
        disk.left_bytes = 0
        with pytest.raises(NoRoom):
            await append(log, "no")
        assert log.is_halted
        kept = []
        for _ in range(3):
            with pytest.raises(NoRoom) as refused:
                await append(log, "no")
            kept.append(frames_kept(refused.value))
        assert kept == kept[:1] * 3
        log.take_offline(OSError(errno.EIO, "broken"))
        kept = []
        for _ in range(3):
            with pytest.raises(KafkaError) as unread:
                log.reading.read(0, limit_offset=1, max_bytes=100, at_least_one=True)
            kept.append(frames_kept(unread.value))
            with pytest.raises(KafkaError) as unwritten:
                await append(log, "no")
            kept.append(frames_kept(unwritten.value))
        assert kept == kept[:2] * 3
        await log.close(flush=False)


async def test_leader_epochs_that_begin_while_it_is_halted(tmp_path: Path) -> None:
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        await append(log, "a", epoch=1)
        await log.flush()
        await append(log, "b", epoch=2)
        disk.left_bytes = 0
        with pytest.raises(NoRoom):
            await append(log, "no", epoch=2)
        assert log.epochs.has_unsaved
        log.epochs.save()  # as is done now and then
        await log.await_queued_files()
        await goes_on(log, disk)
        assert (log.epochs.epoch_of(0), log.epochs.epoch_of(1)) == (1, 2)


async def test_leader_epochs_of_a_cut_that_was_refused(tmp_path: Path) -> None:
    """A follower cuts its log while the disk is full."""
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        for at in range(6):
            await append(log, f"v{at}", epoch=at)
        disk.left_bytes = 0
        with suppress(NoRoom):
            await truncate_to(log, 4)
        await log.await_appends()
        disk.left_bytes = PLENTY
        await resume(log)
        await truncate_to(log, 4)
        assert [log.epochs.epoch_of(at) for at in range(4)] == [0, 1, 2, 3]
        assert log.epochs.latest_epoch == 3
        assert [value for _, value in await all_values(log)] == ["v0", "v1", "v2", "v3"]
        await append(log, "w4", epoch=7)
        assert [value for _, value in await all_values(log)] == ["v0", "v1", "v2", "v3", "w4"]


def logs_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name.endswith(".log"))


async def offsets_after_a_crash(place: World, folder: Path, log: PartitionLog) -> tuple[int, int]:
    again = await open_log(place, str(folder), log.config, recovery_point=0)
    found = again.log_start_offset, again.log_end_offset
    await again.close(flush=False)
    return found


async def test_retention_leaves_a_segment_when_there_is_no_room_for_another(tmp_path: Path) -> None:
    """All is old, and the segment that was to follow was refused: without any, a start would begin at offset 0."""
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path), config(segment_bytes=1000, retention_ms=1000))
        for at in range(40):
            await append(log, f"v{at}")
        log.high_watermark = 40
        before = logs_in(tmp_path / "t-0")
        place.clock.now_ms = NOW_MS + 1_000_000
        disk.left_bytes = 0
        place.environment.space.on_refused(0)
        await delete_old_segments(log)
        await log.await_appends()
        assert log.is_halted
        await delete_old_segments(log)
        assert len(before) > 2
        assert len(logs_in(tmp_path / "t-0")) == 1, "old segments go all the same"
        assert (await offsets_after_a_crash(place, tmp_path, log))[1] == 40
        place.environment.space.on_measured(PLENTY, 1 << 40)
        await goes_on(log, disk)
        assert (await append(log, "on")).base_offset == 40


async def test_a_log_that_halts_while_its_segment_is_closed(tmp_path: Path) -> None:
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        disk.left_bytes = 0
        await log.adopt_topic_id(bytes(range(16)))
        assert log.is_halted
        await goes_on(log, disk)
        assert (await append(log, "a")).base_offset == 0


@pytest.mark.parametrize("records", [0, 5])
async def test_a_log_that_could_not_begin_anew(tmp_path: Path, records: int) -> None:
    """A follower whose leader has nothing left of what is here."""
    disk = ControlledFileSystem()

    def no_new_file(call: Call) -> Any:
        if not disk.left_bytes and not Path(call.path).exists():
            raise no_space(call.path)
        return call.proceed()

    disk.on("open write_bytes replace", "*", no_new_file)
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        for at in range(records):
            await append(log, f"v{at}", epoch=3)
        disk.left_bytes = 0
        with pytest.raises(NoRoom):
            await truncate_fully_and_start_at(log, 200)
        await resume(log)
        assert log.is_halted
        assert await delete_old_segments(log) == 0
        await goes_on(log, disk)
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (200, 200, 200)
        assert log.epochs.latest_epoch == -1
        assert (await append(log, "on", epoch=5)).base_offset == 200
        assert await all_values(log) == [(200, "on")]
        assert (await offsets_after_a_crash(place, tmp_path, log)) == (200, 201)


@pytest.mark.parametrize("how", ["flush.messages", "flush", "cut"])
async def test_an_fsync_that_finds_no_room_fails_the_log(tmp_path: Path, how: str) -> None:
    """What was written before may be lost by then: to go on later would be to forget that."""
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path), config(flush_messages=3) if how == "flush.messages" else None)
        await append(log, "a")
        await append(log, "b")
        disk.on("sync", "*", fails(errno.ENOSPC))
        with suppress(KafkaError):
            if how == "flush.messages":
                await append(log, "c")
            elif how == "flush":
                await log.flush()
            else:
                await truncate_to(log, 1)
        assert log.failure is not None and place.failed and not log.is_halted
        await log.close(flush=False)


@pytest.mark.parametrize("goes_on_first", [False, True])
async def test_a_log_that_is_deleted_when_it_is_to_go_on(tmp_path: Path, goes_on_first: bool) -> None:
    """The close waits for the disk, and then the folder has another name: to miss it there took the directory offline."""
    disk, folder = ControlledFileSystem(), tmp_path / "t-0"
    async with broker(tmp_path, filesystem=disk) as here:
        log = await here.logs.log_for("t", 0)
        await append(log, "a")
        disk.left_bytes = 0
        with pytest.raises(NoRoom):
            await append(log, "no")
        disk.left_bytes = PLENTY
        is_free = threading.Event()
        under_way: list[Awaitable[object]] = [log.environment.queue.run(is_free.wait)]
        for begun in (partial(resume, log), partial(here.logs.delete, "t", 0))[:: 1 if goes_on_first else -1]:
            under_way.append(asyncio.ensure_future(begun()))
            for _ in range(10):
                await asyncio.sleep(0)  # until it waits for the disk
        is_free.set()
        await asyncio.gather(*under_way)
        assert not here.failed
        assert log.is_halted is not goes_on_first
        assert len(folders(tmp_path)) == 1 and not folder.exists()
