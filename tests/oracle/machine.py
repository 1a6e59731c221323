"""Whether this machine computes for others: how long something takes says then nothing of what is under test.

Measured waits are printed in any case, and judged only on a machine that is ours.
"""

from __future__ import annotations

import time
from pathlib import Path

STATISTICS = Path("/proc/stat")
LOOK_S = 2.0
OURS_SHARE = 0.25
"""What a cluster that rests, with its ZooKeeper, takes of two processors at most."""


def busy_share(before: str, after: str) -> float:
    """The share of the processors' time that was spent between two contents of /proc/stat, with what other machines on the
    same host took."""
    (total, idle), (total_before, idle_before) = _ticks(after), _ticks(before)
    spent = total - total_before
    return 1 - (idle - idle_before) / spent if spent else 0.0


def _ticks(statistics: str) -> tuple[int, int]:
    """(all, idle) since the machine started. Time of guests is part of the time of users."""
    user, nice, system, idle, io_wait, *more = map(int, statistics.split("\n", 1)[0].split()[1:9])
    return user + nice + system + idle + io_wait + sum(more), idle + io_wait


def is_ours() -> bool:
    """Whether next to nothing computes, to be asked while no client of a test does. It takes `LOOK_S`."""
    before = STATISTICS.read_text(encoding="ascii")
    time.sleep(LOOK_S)
    return busy_share(before, STATISTICS.read_text(encoding="ascii")) < OURS_SHARE


class Limits:
    """Judges what took how long. Made before what is measured, and asked behind it."""

    def __init__(self) -> None:
        self._was_ours = is_ours()

    def check(self, *, kept: bool, told: str) -> None:
        """Raises AssertionError with `told` unless the limit is `kept`, or others computed before or behind the measures."""
        if kept:
            return
        assert not (self._was_ours and is_ours()), told
        print(f"not judged, since others compute on this machine: {told}")
