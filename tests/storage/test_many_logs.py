"""What a log costs that nobody uses: no open file, no index, a few kilobytes."""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from pathlib import Path

import pytest

from runtime.filesystem import File
from runtime.os_filesystem import OsFileSystem
from tests.storage.logs import append, checkpoint_all
from tests.storage.test_log_manager import TOPIC_ID, broker

LOGS = 300
# Of one with a record it was 1.1 kB when this was written.
MOST_BYTES = 1_500


def open_files(folder: Path) -> int:
    """Of this process, below `folder`."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sum(os.path.realpath(link).startswith(str(folder / "many")) for link in links)


def test_an_idle_log_costs_little(tmp_path: Path) -> None:
    async def run() -> None:
        overrides = {"retention.ms": str(360_000_000)}
        async with broker(tmp_path, overrides=overrides) as one:
            for partition in range(LOGS):
                log = await one.logs.log_for("many", partition, TOPIC_ID)
                await append(log, "a")
            assert open_files(tmp_path) == LOGS
            for _ in range(2):
                await one.logs.upkeep.rest_idle()
            await asyncio.gather(*(one.logs.logs["many", partition].settle() for partition in range(LOGS)))
        gc.collect()
        tracemalloc.start()
        try:
            async with broker(tmp_path, overrides=overrides) as two:
                gc.collect()
                log_bytes, _ = tracemalloc.get_traced_memory()
                assert log_bytes / LOGS < MOST_BYTES
                for log in two.logs.logs.values():
                    log.high_watermark = 1
                await two.logs.upkeep.delete_old_segments()  # it asks how old they are
                await checkpoint_all(two.logs.upkeep)
                assert open_files(tmp_path) == 0
                assert all(segment.file is None for log in two.logs.logs.values() for segment in log.segments)
        finally:
            tracemalloc.stop()

    asyncio.run(run())


class Opened(OsFileSystem):
    """Which files are opened."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self.names.append(Path(path).name)
        return super().open(path, create=create, writable=writable)


@pytest.mark.parametrize("producer_id", [-1, 7])
@pytest.mark.parametrize("segment_bytes", [1 << 20, 500])
def test_a_start_after_a_clean_stop_opens_no_segment(tmp_path: Path, producer_id: int, segment_bytes: int) -> None:
    """The snapshot at a log's end tells of its producers: nobody has to walk the active segment, which may be large."""

    async def run() -> None:
        overrides = {"segment.bytes": str(segment_bytes)}
        async with broker(tmp_path, overrides=overrides) as here:
            log = await here.logs.log_for("orders", 0)
            for at in range(20):
                numbers = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": at}
                await append(log, f"v{at}", **(numbers if producer_id >= 0 else {}))
            segments_count = log.segments_count
            assert (segments_count > 1) is (segment_bytes < 1 << 20) and log.segments.active.end_bytes
        filesystem = Opened()
        async with broker(tmp_path, overrides=overrides, filesystem=filesystem) as here:
            log = here.logs.logs["orders", 0]
            assert (log.segments_count, log.log_end_offset) == (segments_count, 20)
            assert [name for name in filesystem.names if name.endswith(".log")] == []
            if producer_id >= 0:
                [known] = log.producers.describe()
                assert (known.producer_id, known.last_sequence) == (producer_id, 19)

    asyncio.run(run())
