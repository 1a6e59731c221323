"""What a log costs that nobody uses: no open file, no index, a few kilobytes."""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from pathlib import Path

from tests.storage.logs import append
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
                await two.logs.upkeep.checkpoint_all()
                assert open_files(tmp_path) == 0
                assert all(segment.file is None for log in two.logs.logs.values() for segment in log.segments)
        finally:
            tracemalloc.stop()

    asyncio.run(run())
