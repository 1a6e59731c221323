"""A log that always has appends on its way, as under load with `flush.messages=1`: who waits for something of it waits for that
alone, for nothing else ever ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.segment_retention import delete_old_segments
from storage.log.unused_file import close_unused_file
from tests.storage.logs import NOW_MS, append, append_records, batch, config, open_log, world

TOO_LONG_S = 30
BUSY = {"flush_messages": 1, "segment_bytes": 3000}


@asynccontextmanager
async def kept_busy(log: PartitionLog) -> AsyncIterator[None]:
    """Inside, at least three appends are on their way at any moment."""
    is_over = False

    async def produce() -> None:
        while not is_over:
            written = asyncio.get_running_loop().create_future()
            log.append(batch("v"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=written.set_result)
            assert await written is None
            log.high_watermark = log.log_end_offset

    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(produce())
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(TOO_LONG_S):
                yield
        finally:
            is_over = True


async def save_epochs(log: PartitionLog) -> None:
    log.epochs.assign(log.epochs.latest_epoch + 1, log.offsets.next_offset)
    log.epochs.save()
    await log.await_queued_files()


@pytest.mark.parametrize(
    "wait",
    [PartitionLog.flush, save_epochs, partial(PartitionLog.adopt_topic_id, topic_id=bytes(range(16)))],
    ids=["flush", "epochs", "topic id"],
)
async def test_what_is_asked_of_it_ends(tmp_path: Path, wait: Callable[[PartitionLog], Awaitable[None]]) -> None:
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path), config(**BUSY))
        async with kept_busy(log):
            await wait(log)
        await log.close()


async def test_a_flush_of_one_that_is_being_opened_ends(tmp_path: Path) -> None:
    """What waits for its segment's file is flushed with the rest, and no more is waited for."""
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path), config(**BUSY))
        await append(log, "v")
        await close_unused_file(log)
        async with kept_busy(log):
            end_offset = log.offsets.next_offset
            await log.flush()
            assert log.offsets.recovery_point >= end_offset > 1
        await log.close()


async def test_retention_of_one_whose_producers_have_no_snapshot_ends(tmp_path: Path) -> None:
    """After an unclean stop the oldest segments may be the only trace of producers: that is written down first."""
    settings = config(**BUSY, retention_bytes=1000)
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path), settings)
        for number in range(80):
            await append_records(log, batch("v", producer_id=7, producer_epoch=0, base_sequence=number))
        await log.close(flush=False)
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path), settings, recovery_point=0)
        log.high_watermark = log.log_end_offset
        async with kept_busy(log):
            assert await delete_old_segments(log) > 0
        await log.close(flush=False)
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path), settings, recovery_point=log.offsets.recovery_point)
        (producer,) = log.producers.states.describe()
        assert (producer.producer_id, producer.last_sequence) == (7, 79)
        await log.close()
