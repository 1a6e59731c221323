"""How long a job takes is known when it is over, also in a thread; what a log flushes and reads is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.disk_use import TimedJob
from tests.doubles.clock import ManualClock
from tests.storage.logs import append, open_log, world


def test_a_job_is_timed() -> None:
    clock = ManualClock(1_000)

    def work() -> None:
        clock.now_ms += 12

    timed = TimedJob(work, clock)
    timed()
    assert timed.took_ns == 12_000_000


def test_a_job_that_fails_is_not() -> None:
    def fail() -> None:
        raise OSError("no disk")

    timed = TimedJob(fail, ManualClock())
    with pytest.raises(OSError, match="no disk"):
        timed()
    assert timed.took_ns == 0


async def test_a_log_counts_its_flushes_and_what_was_read(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as here:
        use = here.environment.disk_use
        log = await open_log(here, str(tmp_path))
        await append(log, "a", "b")
        await log.flush()
        assert use.flushes.count == 1
        await log.flush()
        assert use.flushes.count == 1, "there was nothing to flush"
        limits = {"limit_offset": 2, "max_bytes": 1_000}
        hot = log.reading.read(0, **limits, at_least_one=True)
        assert hot is not None
        assert (use.memory_bytes, use.disk_bytes) == (len(hot), 0)
        cold = await log.reading.read_cold(0, **limits, at_least_one=True)
        assert use.disk_bytes == len(cold) == len(hot)
        await log.close()
