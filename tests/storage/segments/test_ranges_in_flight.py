"""Which reads leave as ranges, and what happens to the log while they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.disk.os_filesystem import OsFile
from runtime.network.file_range import FileRange
from storage.log.partition_log import PartitionLog
from storage.log.reading import log_reader
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import delete_segments_before
from tests.storage.logs import World, append, config, open_log, world

LEAST = 1_000
VALUE = "v" * 100


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "RANGE_BYTES", LEAST)


@asynccontextmanager
async def filled(directory: Path, *, batches: int = 50, **settings: Any) -> AsyncIterator[tuple[World, PartitionLog]]:
    """A log of batches of one record, all committed."""
    async with world(str(directory)) as place:
        log = await open_log(place, str(directory), config(**settings))
        for number in range(batches):
            await append(log, f"{number:06}{VALUE}")
        log.high_watermark = log.log_end_offset
        yield place, log
        await log.close()


def read(log: PartitionLog, offset: int, *, limit_offset: int | None = None, max_bytes: int = 1 << 20) -> Any:
    return log.reading.read_to_send(
        offset,
        limit_offset=log.log_end_offset if limit_offset is None else limit_offset,
        max_bytes=max_bytes,
        at_least_one=True,
    )


def in_memory(log: PartitionLog, offset: int, **options: Any) -> bytes:
    found = log.reading.read(
        offset, **{"limit_offset": log.log_end_offset, "max_bytes": 1 << 20, "at_least_one": True, **options}
    )
    assert found is not None
    return bytes(found)


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def test_a_range_has_the_bytes_that_a_read_has(tmp_path: Path) -> None:
    """From every offset, in every length: and the next read finds its place without the index."""

    async def story() -> None:
        async with filled(tmp_path, segment_bytes=4_000, index_interval_bytes=300) as (_, log):
            ranges = 0
            for offset in range(log.log_end_offset):
                for max_bytes in (1, 999, 1_000, 1_234, 2_500, 1 << 20):
                    found = read(log, offset, max_bytes=max_bytes)
                    wanted = in_memory(log, offset, max_bytes=max_bytes)
                    if isinstance(found, FileRange):
                        ranges += 1
                        assert len(found) >= LEAST
                        assert bytes(found.read()) == wanted
                    else:
                        assert bytes(found) == wanted and (len(wanted) < LEAST or max_bytes < LEAST)
            assert ranges > 100

    run(story)


def test_a_reader_of_ranges_needs_the_index_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with filled(tmp_path) as (_, log):
            batch_bytes = len(in_memory(log, 0, max_bytes=0))
            looked_up = 0
            position_of = type(log.segments.first).position_of

            def counted(*args: Any) -> int:
                nonlocal looked_up
                looked_up += 1
                return position_of(*args)

            monkeypatch.setattr(type(log.segments.first), "position_of", counted)
            offset = 0
            while offset < log.log_end_offset:
                found = read(log, offset, max_bytes=1_500)
                offset += len(found) // batch_bytes
            assert looked_up == 1

    run(story)


@pytest.mark.parametrize("behind", [-1, 0, 1, 7])
def test_nothing_behind_the_high_watermark_is_a_range(tmp_path: Path, behind: int) -> None:
    """What an election may truncate is copied."""

    async def story() -> None:
        async with filled(tmp_path) as (_, log):
            log.high_watermark = 20
            start = log.high_watermark + behind
            assert not isinstance(read(log, start), FileRange)
            found = read(log, 0)
            assert isinstance(found, FileRange)
            assert bytes(found.read()) == in_memory(log, 0, limit_offset=20)

    run(story)


@pytest.mark.parametrize("cold", ["first", "middle", "last"])
def test_what_is_not_in_memory_is_not_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cold: str) -> None:
    async def story() -> None:
        async with filled(tmp_path) as (_, log):
            size = log.segments.active.written_bytes
            at = {"first": 0, "middle": size // 2, "last": size - 1}[cold]
            read_hot = OsFile.read_hot

            def partly(self: OsFile, length: int, position: int) -> Any:
                return None if position <= at < position + length else read_hot(self, length, position)

            monkeypatch.setattr(log_reader, "_PROBE_BYTES", size // 2)
            monkeypatch.setattr(OsFile, "read_hot", partly)
            assert read(log, 0) is None

    run(story)


def test_files_stay_open_as_long_as_they_are_sent(tmp_path: Path) -> None:
    """While their segments are deleted and closed, and the log with them."""

    async def story() -> None:
        async with filled(tmp_path, segment_bytes=3_000) as (place, log):
            first = log.segments.first
            found, wanted = read(log, 0), in_memory(log, 0)
            other, other_wanted = read(log, 40), in_memory(log, 40)
            await delete_segments_before(log, 30)
            assert first.is_removed and first.file is not None
            await log.close()
            for path in place.doomed:
                place.environment.filesystem.unlink(path)
            assert bytes(found.read()) == wanted and bytes(other.read()) == other_wanted
            for each in (found, other):
                each.release()
                each.release()
            await place.tasks.close()  # a flush of the segment may have used it, too
            assert first.file is None and not first.pins

    run(story)


def test_a_truncation_waits_for_what_is_sent_of_the_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with filled(tmp_path) as (_, log):
            kept, cut = read(log, 0, limit_offset=20), read(log, 0)
            size = log.segments.active.written_bytes
            revoked: list[str] = []
            kept.leave_by(lambda: revoked.append("kept"))
            cut.leave_by(lambda: revoked.append("cut"))
            waiting = read(log, 10)
            truncation = asyncio.ensure_future(truncate_to(log, 30))
            for _ in range(100):
                await asyncio.sleep(0)
            assert revoked == ["cut"] and not truncation.done()
            assert cut.file.size() == size, "the file is as it was while a thread sends it"
            assert waiting.is_revoked and not kept.is_revoked
            cut.release()
            await truncation
            assert kept.file.size() < size
            assert bytes(kept.read()) == in_memory(log, 0, limit_offset=20)
            kept.release()
            waiting.release()
            await append(log, "new")
            assert log.log_end_offset == 31

    run(story)


def test_a_range_that_is_released_is_no_more_in_flight(tmp_path: Path) -> None:
    """Whoever sent it, in a thread, may still have it: nobody but the loop changes what is in flight."""

    async def story() -> None:
        async with filled(tmp_path) as (place, log):
            found = read(log, 0)
            found.release()
            assert not len(place.environment.ranges_in_flight) and not log.segments.active.pins

    run(story)


def test_a_segment_that_is_active_again_stays_open(tmp_path: Path) -> None:
    """It was closed while a range of it was in flight."""

    async def story() -> None:
        async with filled(tmp_path, segment_bytes=3_000) as (place, log):
            found, first = read(log, 0, limit_offset=12), log.segments.first
            async with asyncio.timeout(20):
                while first.pins > 1:  # noqa: ASYNC110  a flush uses it, too
                    await asyncio.sleep(0)
            place.environment.open_segments.close(first)
            await truncate_to(log, 14)
            assert log.segments.active is first
            found.release()
            assert first.file is not None
            await append(log, "new")

    run(story)


def test_a_range_that_is_dropped_is_no_more_in_flight(tmp_path: Path) -> None:
    async def story() -> None:
        async with filled(tmp_path) as (place, log):
            ranges = place.environment.ranges_in_flight
            assert not isinstance(read(log, 0, max_bytes=LEAST - 1), FileRange)
            assert not len(ranges)
            found = read(log, 0)
            assert len(ranges) == 1 and log.segments.active.pins == 1
            del found
            assert not len(ranges) and not log.segments.active.pins

    run(story)
