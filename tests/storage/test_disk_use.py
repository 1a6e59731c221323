"""How long a job takes is known when it is over, also in a thread."""

from __future__ import annotations

import pytest

from storage.disk_use import TimedJob
from tests.clocks import ManualClock


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
