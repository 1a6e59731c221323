"""Files that a thread is using while the log lets go of them, or gives their names to others."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from runtime.disk.os_filesystem import OsFileSystem
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import resume, truncate_to
from storage.log.removal.segment_retention import delete_segments_before
from storage.log.unused_file import close_unused_file
from storage.segments.segment_scan import scan_segment
from tests.doubles.file_system import PLENTY, Call, ControlledFileSystem, Gate
from tests.storage.cleaner.cleaning import cleanery
from tests.storage.logs import NOW_MS, Outcome, all_values, append, batch, config, open_log, until, world


async def fill(log: PartitionLog) -> None:
    """Five segments, none of them flushed as far as the log knows."""
    for number in range(20):
        await append(log, f"v{number}")
    await until(lambda: log.offsets.recovery_point >= log.segments.active.base_offset)
    log.offsets.recovery_point = 0
    log.high_watermark = log.log_end_offset


async def test_the_recovery_point_moves_in_whatever_order_segments_are_flushed(tmp_path: Path) -> None:
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as place:
        log = await open_log(place, str(tmp_path), config(segment_bytes=300))
        flushes = filesystem.shut_on("sync", "*.log")
        for number in range(20):
            await append(log, f"v{number}")
        await flushes.reached()
        for _ in range(64):  # the flushes of the others are through
            await place.environment.readers.run(lambda: None)
        assert log.offsets.recovery_point == 0
        flushes.open()
        await until(lambda: log.offsets.recovery_point == log.segments.active.base_offset > 10)
        await log.close()


async def test_segments_go_while_they_are_flushed(tmp_path: Path) -> None:
    """Retention sets aside what a flush has in its hands: the flush goes through, the directory stays online."""
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as place:
        log = await open_log(place, str(tmp_path), config(segment_bytes=300))
        await fill(log)
        log.high_watermark = log.log_end_offset
        flushes = filesystem.shut_on("sync", "*.log")
        flush = asyncio.ensure_future(log.flush())
        await flushes.reached()
        gone = list(log.segments)[:-1]
        removal = asyncio.ensure_future(delete_segments_before(log, log.segments.active.base_offset))
        await until(lambda: len(log.segments) == 1)
        for _ in range(16):  # whatever was given to the reader threads
            await place.environment.readers.run(lambda: None)
        flushes.open()
        await flush
        assert await removal == len(gone) > 1
        assert not place.failed and log.failure is None
        assert log.offsets.recovery_point == log.log_end_offset
        assert not any(each.file for each in gone), "closed when the flush is through"
        await log.close()


async def test_a_cut_takes_a_snapshot_that_is_about_to_be_flushed(tmp_path: Path) -> None:
    """The segment that was rolled is the active one again, and its end lies elsewhere: the directory stays online."""
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as place:
        log = await open_log(place, str(tmp_path), config(segment_bytes=300))
        finds = Gate()

        def find(call: Call) -> bool:
            """Whoever was told that it is there waits."""
            is_there: bool = call.proceed()
            if is_there:
                finds.pass_through()
            return is_there

        filesystem.on("exists", "*.snapshot", find)
        finds.shut()
        while len(log.segments) == 1:
            await append(log, "v")
        await finds.reached()
        await truncate_to(log, 2)
        assert len(log.segments) == 1
        finds.open()
        await until(lambda: not log.segments.first.pins)
        assert not place.failed and log.failure is None
        await append(log, "w")
        assert await all_values(log) == [(0, "v"), (1, "v"), (2, "w")]
        await log.close()


async def test_the_recovery_point_moves_over_a_segment_that_was_flushed_while_later_records_were_cut(
    tmp_path: Path,
) -> None:
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as place:
        log = await open_log(place, str(tmp_path), config(segment_bytes=300))
        flushes = filesystem.shut_on("sync", "*.log")
        while len(log.segments) == 1:
            await append(log, "v")
        await append(log, "w")
        await flushes.reached()
        cut = asyncio.ensure_future(truncate_to(log, log.log_end_offset - 1))
        await until(lambda: log.offsets.truncations_count == 1)
        flushes.open()
        await cut
        await until(lambda: not log.segments.first.pins)
        for number in range(20):
            await append(log, f"v{number}")
        await until(lambda: log.offsets.recovery_point == log.segments.active.base_offset)
        await log.close()


async def test_a_log_at_rest_keeps_a_file_that_is_being_read(tmp_path: Path) -> None:
    """Closed when the read is through, it would be closed under an append that came meanwhile."""
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as place:
        log = await open_log(place, str(tmp_path))
        for number in range(20):
            await append(log, f"v{number}" * 50)
        await log.close()
    async with world(str(tmp_path), filesystem=filesystem) as place:
        log = await open_log(place, str(tmp_path), is_clean=True, recovery_point=20)
        assert len(await all_values(log)) == 20
        reads = filesystem.hold_reads()
        reading = asyncio.ensure_future(log.reading.read_cold(0, limit_offset=20, max_bytes=1000, at_least_one=True))
        await reads.reached()
        await close_unused_file(log)
        queued = threading.Event()
        place.environment.queue.run(lambda: queued.wait(30))
        done = Outcome()
        log.append(
            batch("new", timestamp=NOW_MS + 1000), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=done
        )
        reads.open()
        await reading
        queued.set()
        await log.await_appends()
        assert done.is_written and log.failure is None
        assert (await all_values(log))[20:] == [(20, "new")]
        found = await log.reading.offset_for_timestamp(NOW_MS + 1000)
        assert found is not None and found.offset == 20
        await log.close()


@pytest.mark.parametrize("with_aborted", [False, True])
async def test_who_reads_what_is_deleted_meanwhile_is_not_given_what_follows(
    tmp_path: Path, with_aborted: bool
) -> None:
    """It would be a gap that nobody tells the consumer of; where it reads on is its own choice (auto.offset.reset)."""
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as place:
        log = await open_log(place, str(tmp_path), config(segment_bytes=300))
        await fill(log)
        reads = filesystem.hold_reads()
        read_cold = log.reading.read_cold_with_aborted if with_aborted else log.reading.read_cold
        reading = asyncio.ensure_future(read_cold(2, limit_offset=20, max_bytes=1000, at_least_one=True))
        await reads.reached()
        assert await delete_segments_before(log, 12) == 3
        reads.open()
        with pytest.raises(KafkaError) as refused:
            await reading
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await all_values(log))[0] == (12, "v12")
        await log.close()


async def test_segments_that_are_flushed_stay_open_in_a_pool_that_is_full(tmp_path: Path) -> None:
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as place:
        log = await open_log(place, str(tmp_path), config(segment_bytes=300))
        await fill(log)
        flushes = filesystem.shut_on("sync", "*.log")
        flush = asyncio.ensure_future(log.flush())
        await flushes.reached()
        place.environment.open_segments._limit = 1
        values = [value for _, value in await all_values(log)]
        for _ in range(16):  # whatever was given to the reader threads
            await place.environment.readers.run(lambda: None)
        flushes.open()
        await flush
        assert values == [f"v{number}" for number in range(20)]
        assert not place.failed and log.offsets.recovery_point == 20
        await log.close()


async def test_indexes_that_are_made_again_are_not_those_of_a_cleaned_segment(tmp_path: Path) -> None:
    """A reader opens a segment whose index is gone; before it has one, a cleaned segment takes the names."""
    filesystem = ControlledFileSystem()
    async with cleanery(tmp_path, filesystem=filesystem, segment_bytes=100_000, index_interval_bytes=500) as broker:
        for number in range(60):
            await broker.put((f"k{number % 59}", f"{number:020}"))
        await broker.roll()
        log, old = broker.log, broker.log.segments.first
        await log.flush()
        await until(lambda: not old.pins)  # its own flush is through
        log.environment.open_segments.close(old)
        filesystem.unlink(old.path(".index"))
        misses = Gate()

        def read_bytes(call: Call) -> bytes:
            """Whoever finds no file waits."""
            try:
                content: bytes = call.proceed()
            except FileNotFoundError:
                misses.pass_through()
                raise
            return content

        filesystem.on("read_bytes", "*", read_bytes)
        misses.shut()
        reading = asyncio.ensure_future(
            log.reading.read_cold(3, limit_offset=log.log_end_offset, max_bytes=1000, at_least_one=True)
        )
        await misses.reached()
        assert await broker.clean()
        assert log.segments.first is not old
        misses.open()
        await reading
        assert len(log.segments) == 2
        check_index(log.directory)


def check_index(folder: str) -> None:
    """Of the segment at offset 0: it is the one that a walk over the `.log` makes."""
    file = OsFileSystem().open(f"{folder}/{0:020d}.log", writable=False)
    scan = scan_segment(file, 0, interval_bytes=500, check_crc=True)
    file.close()
    assert scan.problem is None
    assert Path(f"{folder}/{0:020d}.index").read_bytes() == scan.offset_index.unwritten()[0]


async def test_a_flush_behind_a_write_without_room_halts_the_log_alone(tmp_path: Path) -> None:
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        await append(log, "first")
        busy, done = threading.Event(), Outcome()
        disk.left_bytes = 10
        waiting = asyncio.ensure_future(place.environment.queue.run(lambda: busy.wait(30)))
        log.append(batch("second"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=done)
        flush = asyncio.ensure_future(log.flush())
        await asyncio.sleep(0)
        busy.set()
        await waiting
        await flush
        assert isinstance(done.errors[0], KafkaError)
        assert log.is_halted and not place.failed, "the directory stays online"
        disk.left_bytes = PLENTY
        await resume(log)
        await append(log, "after")
        assert [value for _, value in await all_values(log)] == ["first", "after"]
        await log.close()
