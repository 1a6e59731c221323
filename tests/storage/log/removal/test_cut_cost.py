"""What a cut costs, and whom: nobody walks a log for producers that it does not have, and other logs of the directory go on
while one is walked. What is known afterwards is what a start finds."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import KafkaError
from runtime.disk.os_filesystem import OsFileSystem
from storage.log import opening
from storage.log.partition_log import PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import delete_records
from storage.segments.segment_files import TXN_INDEX_SUFFIX, segment_path
from storage.segments.segment_scan import SegmentScan, walk, walk_in_steps
from tests.doubles.file_system import Call, ControlledFileSystem, fails
from tests.storage.log.producers.transacting import Transactional
from tests.storage.logs import NOW_MS, World, all_values, append, batch, config, open_log, read, values_of, world

VALUE = "x" * 1000
COUNT = 40
INDEXED = {"index_interval_bytes": 1000}


def producer(number: int, sequence: int) -> dict[str, int]:
    return {"producer_id": number, "producer_epoch": 0, "base_sequence": sequence}


async def filled(here: World, folder: Path, *, has_producer: bool, **settings: int) -> PartitionLog:
    """Epochs of ten records each."""
    log = await open_log(here, str(folder), config(**INDEXED, **settings))
    for at in range(COUNT):
        options = producer(5, at) if has_producer else {}
        await append(log, VALUE + str(at), epoch=at // 10, timestamp=NOW_MS + at % 30, **options)
    return log


def test_a_log_without_producers_is_not_walked_for_them(tmp_path: Path) -> None:
    async def run(*, has_producer: bool) -> int:
        filesystem, lengths = ControlledFileSystem(), []

        def count(call: Call) -> bytes:
            content: bytes = call.proceed()
            lengths.append(len(content))
            return content

        filesystem.on("read_at", "*.log", count)
        folder = tmp_path / str(has_producer)
        async with world(str(folder), filesystem=filesystem) as here:
            log = await filled(here, folder, has_producer=has_producer)
            lengths.clear()
            await truncate_to(log, COUNT - 1)
            bytes_read = sum(lengths)
            assert await all_values(log) == [(at, VALUE + str(at)) for at in range(COUNT - 1)]
            await log.close()
            return bytes_read

    assert asyncio.run(run(has_producer=False)) < 5 * len(VALUE)
    assert asyncio.run(run(has_producer=True)) > (COUNT - 1) * len(VALUE)


async def test_other_logs_go_on_while_one_that_was_cut_is_walked(tmp_path: Path) -> None:
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as here:
        log = await filled(here, tmp_path, has_producer=True)
        other = await opening.open_log("o", 0, f"{tmp_path}/o-0", config(), here.environment)
        walks = filesystem.shut_on("open_to_read", "*/t-0/*.log")
        cut = asyncio.ensure_future(truncate_to(log, COUNT - 1))
        await walks.reached()
        async with asyncio.timeout(20):
            await append(other, "a")
            await other.flush()
        assert values_of(await read(log, COUNT - 2)) == [(COUNT - 2, VALUE + str(COUNT - 2))]
        closing = asyncio.ensure_future(log.close())
        await other.flush()
        assert not cut.done() and not closing.done()
        walks.open()
        await cut
        await closing
        assert [each.last_sequence for each in log.producers.states.describe()] == [COUNT - 2]
        await other.close()


async def test_a_stop_that_does_not_wait_for_the_walk_leaves_no_producers_of_what_was_cut_off(tmp_path: Path) -> None:
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as here:
        log = await filled(here, tmp_path, has_producer=True, segment_bytes=7000)
        walks = filesystem.shut_on("open_to_read", "*/t-0/*.log")
        cut = asyncio.ensure_future(truncate_to(log, COUNT - 1))
        await walks.reached()
        stop = asyncio.ensure_future(here.tasks.close())
        await asyncio.wait((cut,))
        walks.open()
        await stop
        await log.close()
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), is_clean=True, recovery_point=COUNT - 1)
        assert [each.last_sequence for each in log.producers.states.describe()] == [COUNT - 2]
        await log.close()


async def known(log: PartitionLog) -> dict[str, Any]:
    """What a log knows of itself; of its time index what it answers, as a close adds an entry."""
    log.high_watermark = log.log_end_offset
    segments = list(log.segments)
    last = await log.reading.offset_of_max_timestamp()
    return {
        "values": await all_values(log),
        "ends": (log.log_start_offset, log.log_end_offset),
        "producers": list(log.producers.states.describe()),
        "unstable": log.producers.states.first_unstable_offset,
        "epochs": [log.epochs.end_offset_for(epoch) for epoch in range(5)],
        "times": [await log.reading.offset_for_timestamp(NOW_MS + at) for at in range(0, 31, 3)],
        "largest": (last.timestamp, last.offset) if last is not None else None,
        "aborted": [each.last_offset for each in await log.reading.reader.aborted_between(0, log.log_end_offset)],
        "indexes": [(segment.base_offset, segment.txn_index and len(segment.txn_index)) for segment in segments],
        "index": (log.segments.active.offset_index.entries_count, log.segments.active.offset_index.last),
    }


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("segment_bytes", [7000, 1 << 20])
@pytest.mark.parametrize("end", [39, 33, 30, 21, 1])
@pytest.mark.parametrize("producers", ["none", "idempotent", "transactional"])
async def test_a_log_that_was_cut_knows_what_a_start_finds(
    tmp_path: Path, producers: str, end: int, segment_bytes: int, is_clean: bool
) -> None:
    async with world(str(tmp_path)) as here:
        log = await filled(here, tmp_path, has_producer=producers == "idempotent", segment_bytes=segment_bytes)
        if producers == "transactional":
            await truncate_to(log, 0)
            one = Transactional(log, 7)
            for at in range(COUNT // 4):
                for _ in range(3):
                    await one.write(VALUE, timestamp=NOW_MS + at % 30)
                await (one.abort() if at % 2 else one.commit())
        await truncate_to(log, end)
        after = await known(log)
        recovery_point = log.offsets.recovery_point
        if is_clean:
            await log.close()
            recovery_point = end
        again = await open_log(
            here, str(tmp_path), config(**INDEXED, segment_bytes=segment_bytes),
            is_clean=is_clean, recovery_point=recovery_point,
        )  # fmt: skip
        assert await known(again) == after
        assert again.log_end_offset == end
        await log.close(flush=False)
        await again.close()


async def test_a_transaction_index_that_cannot_be_right_is_made_again_by_a_cut(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path))
        one = Transactional(log, 7)
        for _ in range(4):
            await one.write("a")
            await one.abort()
        path, filesystem = segment_path(log.directory, 0, TXN_INDEX_SUFFIX), here.environment.filesystem
        content = filesystem.read_bytes(path)
        filesystem.write_bytes(path, content[34:68] + content[:34] + content[68:])
        await truncate_to(log, 6)
        assert filesystem.read_bytes(path) == content[: 3 * 34]
        assert [each.last_offset for each in await log.reading.reader.aborted_between(0, 6)] == [1, 3, 5]
        await log.close()


async def test_a_cut_within_the_batch_that_a_later_segment_and_the_log_begin_with(tmp_path: Path) -> None:
    """Nothing of the segment is left, and the ones before it are still there."""
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), config(segment_bytes=200))
        for _ in range(3):
            await append(log, *"abcdefgh")
        assert [segment.base_offset for segment in log.segments] == [0, 8, 16]
        log.high_watermark = 24
        delete_records(log, 18)
        await truncate_to(log, 20)
        assert (log.log_start_offset, log.log_end_offset) == (18, 20)
        for segment in log.segments:
            assert here.environment.filesystem.exists(segment.path(".log")), "its files are those that the log has"
        await append(log, "x", "y")
        assert await all_values(log) == [(20, "x"), (21, "y")]
        await log.close()
        again = await open_log(here, str(tmp_path), is_clean=True, recovery_point=22, log_start_offset=18)
        assert (again.log_start_offset, await all_values(again)) == (18, [(20, "x"), (21, "y")])
        await again.close()


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2500])
def test_a_walk_in_steps_visits_what_a_walk_does(tmp_path: Path, count: int) -> None:
    path = str(tmp_path / "log")
    filesystem = OsFileSystem()
    filesystem.write_bytes(path, b"".join(batch("v", base_offset=at) for at in range(count)))
    file = filesystem.open(path)
    visited: list[list[int]] = [[], []]
    scans = [SegmentScan(end_position=0, next_offset=0) for _ in range(2)]
    walk(
        file, 0, scans[0], file.size(), check_crc=True,
        visit=lambda header, buffer, at: visited[0].append(header.base_offset),
    )  # fmt: skip
    steps, most, before = 0, 0, 0
    for _ in walk_in_steps(
        file, 0, scans[1], file.size(), check_crc=True,
        visit=lambda header, buffer, at: visited[1].append(header.base_offset),
    ):  # fmt: skip
        most, before = max(most, len(visited[1]) - before), len(visited[1])
        steps += 1
    assert visited[0] == visited[1] == list(range(count))
    assert scans[0].end_position == scans[1].end_position == file.size()
    assert scans[0].problem is scans[1].problem is None
    assert most <= 1000 and steps == -(-count // 1000)
    file.close()


async def test_a_cut_that_meets_an_unreadable_log_fails_it(tmp_path: Path) -> None:
    """Behind the cut itself, while it is walked."""
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as here:
        log = await filled(here, tmp_path, has_producer=True)
        filesystem.on("open_to_read", "*.log", fails(errno.EIO))
        with pytest.raises(KafkaError):
            await truncate_to(log, COUNT - 1)
        assert log.failure is not None and len(here.failed) == 1
        await log.close(flush=False)
