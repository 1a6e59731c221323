"""How many cores this process may use: its affinity, and the limits of its control group.

Rules: Linux; both versions of control groups; a limit of a part of a core counts as one.
Source: sched_getaffinity(2); the kernel's cgroup-v2 (cpu.max) and sched-bwc (cpu.cfs_quota_us).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

_GROUPS = "/proc/self/cgroup"
_ROOT = PurePosixPath("/sys/fs/cgroup")


def usable_cores(read: Callable[[str], str | None] | None = None) -> int:
    """Return the number, at least 1. `read` returns the text of a file, None where there is none."""
    limits = list(_limits(read or _text_of))
    return max(1, min([len(os.sched_getaffinity(0)), *(math.ceil(limit) for limit in limits)]))


def _limits(read: Callable[[str], str | None]) -> Iterator[float]:
    """Yield each limit of this process's groups, and of those above them, in cores."""
    for line in (read(_GROUPS) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = _ROOT / "cpu" if controllers else _ROOT
        group = PurePosixPath(path)
        for folder in (group, *group.parents):
            place = base / folder.relative_to("/")
            if controllers:
                values = [read(f"{place}/cpu.cfs_{name}_us") for name in ("quota", "period")]
            else:
                values = list((read(f"{place}/cpu.max") or "").split()) or [None]
            if len(values) == 2 and all((value or "").strip().isdecimal() for value in values):
                quota, period = (int(value or "") for value in values)
                if period:
                    yield quota / period


def _text_of(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return None
