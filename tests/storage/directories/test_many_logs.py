"""What a log has open that nobody uses: no file, no index. `benchmarks.sizes` measures its bytes."""

from __future__ import annotations

import asyncio
import errno
import math
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from runtime.disk.filesystem import FileSystem
from runtime.disk.os_disk_queue import OsDiskQueue
from storage.segments.segment_age import AGES_AT_ONCE
from tests.doubles.file_system import ControlledFileSystem, fails, notes
from tests.storage.directories.test_log_manager import TOPIC_ID, Broker, broker
from tests.storage.logs import append, checkpoint_all

LOGS = 300


def open_files(folder: Path) -> int:
    """Of this process, below `folder`."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sum(os.path.realpath(link).startswith(str(folder / "many")) for link in links)


async def test_an_idle_log_has_nothing_open(tmp_path: Path) -> None:
    overrides = {"retention.ms": str(360_000_000)}
    async with broker(tmp_path, overrides=overrides) as one:
        for partition in range(LOGS):
            log = await one.logs.log_for("many", partition, TOPIC_ID)
            await append(log, "a")
        assert open_files(tmp_path) == LOGS
        for _ in range(2):
            await one.logs.upkeep.close_idle_files()
        await asyncio.gather(*(one.logs.logs["many", partition].await_appends() for partition in range(LOGS)))
    async with broker(tmp_path, overrides=overrides) as two:
        for log in two.logs.logs.values():
            log.high_watermark = 1
        await two.logs.retention.delete_old_segments()  # it asks how old they are
        await checkpoint_all(two.logs.upkeep)
        assert open_files(tmp_path) == 0
        assert len(two.logs.logs) == LOGS
        assert all(segment.file is None for log in two.logs.logs.values() for segment in log.segments)


def idle_broker(folder: Path, filesystem: FileSystem | None = None) -> AbstractAsyncContextManager[Broker]:
    return broker(folder, filesystem=filesystem, overrides={"retention.ms": "1000"})


async def write_to_many(folder: Path) -> None:
    async with idle_broker(folder) as here:
        for partition in range(LOGS):
            await append(await here.logs.log_for("many", partition, TOPIC_ID), "a")


def count_jobs(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The jobs of all directories' queues from now on."""
    jobs: list[object] = []
    run = OsDiskQueue.run

    def counted(self: OsDiskQueue, job: Callable[[], object]) -> Awaitable[object]:
        jobs.append(job)
        return run(self, job)

    monkeypatch.setattr(OsDiskQueue, "run", counted)
    return jobs


async def test_the_first_look_at_idle_logs_asks_the_files_of_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_to_many(tmp_path)
    filesystem, opened = ControlledFileSystem(), list[tuple[str, str]]()
    filesystem.on("open", "*", notes(opened))
    async with idle_broker(tmp_path, filesystem) as here:
        for log in here.logs.logs.values():
            log.high_watermark = 1
        opened.clear()
        jobs = count_jobs(monkeypatch)
        await here.logs.retention.delete_old_segments()
        assert len(jobs) == math.ceil(LOGS / AGES_AT_ONCE)
        # The offset index of so small a segment is empty, and not opened for that.
        assert Counter(Path(path).name.partition(".")[2] for _, path in opened) == {"log": LOGS, "timeindex": LOGS}
        await here.logs.retention.delete_old_segments()
        assert len(jobs) == math.ceil(LOGS / AGES_AT_ONCE), "they are known now"


async def test_a_file_that_cannot_be_read_concerns_its_own_directory_and_no_other(tmp_path: Path) -> None:
    """Many logs are asked at once; whose failure it is turns out when each is asked by itself."""
    directories = tmp_path / "one", tmp_path / "two"
    async with broker(*directories, overrides={"retention.ms": "1000"}) as here:
        for partition in range(20):
            await append(await here.logs.log_for("many", partition, TOPIC_ID), "a")
    filesystem = ControlledFileSystem()
    async with broker(*directories, overrides={"retention.ms": "1000"}, filesystem=filesystem) as here:
        for log in here.logs.logs.values():
            log.high_watermark = 1
        here.clock.now_ms += 3_600_000
        broken = filesystem.on("open", "*/one/many-*.log", fails(errno.EIO))
        await here.logs.retention.delete_old_segments()
        broken.is_on = False
        assert here.failed == [str(directories[0])]
        assert [log.log_start_offset for log in here.logs.logs.values()] == [1] * 10


@pytest.mark.parametrize("producer_id", [-1, 7])
@pytest.mark.parametrize("segment_bytes", [1 << 20, 500])
async def test_a_start_after_a_clean_stop_opens_no_segment(
    tmp_path: Path, producer_id: int, segment_bytes: int
) -> None:
    """The snapshot at a log's end tells of its producers: nobody has to walk the active segment, which may be large."""
    overrides = {"segment.bytes": str(segment_bytes)}
    async with broker(tmp_path, overrides=overrides) as here:
        log = await here.logs.log_for("orders", 0)
        for at in range(20):
            numbers = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": at}
            await append(log, f"v{at}", **(numbers if producer_id >= 0 else {}))
        segments_count = log.segments_count
        assert (segments_count > 1) is (segment_bytes < 1 << 20) and log.segments.active.end_bytes
    filesystem, opened = ControlledFileSystem(), list[tuple[str, str]]()
    filesystem.on("open", "*.log", notes(opened))
    async with broker(tmp_path, overrides=overrides, filesystem=filesystem) as here:
        log = here.logs.logs["orders", 0]
        assert (log.segments_count, log.log_end_offset) == (segments_count, 20)
        assert opened == []
        if producer_id >= 0:
            [known] = log.producers.states.describe()
            assert (known.producer_id, known.last_sequence) == (producer_id, 19)
