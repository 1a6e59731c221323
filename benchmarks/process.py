"""What a process costs: processor time and memory, read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """`cpu_seconds` counts user and system time of the process; `rss_bytes` is resident now, `peak_bytes` ever."""

    cpu_seconds: float
    rss_bytes: int
    peak_bytes: int

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.cpu_seconds + other.cpu_seconds, self.rss_bytes + other.rss_bytes, self.peak_bytes + other.peak_bytes
        )


def usage(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    status = Path(f"/proc/{pid}/status").read_text()
    kib = {
        line.split(":")[0]: int(line.split()[1]) for line in status.splitlines() if line.startswith(("VmRSS", "VmHWM"))
    }
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND, kib["VmRSS"] * 1024, kib["VmHWM"] * 1024)


def pss_bytes(pid: int) -> int:
    """The memory of a process, of which what it shares with others counts in parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has ended")


def descendants(root: int) -> list[int]:
    """A process, and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rsplit(") ", 1)[1].split()
            except OSError:  # it has just ended
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found = [root]
    for pid in found:  # it grows
        found += parents.get(pid, [])
    return found


def pin(pid: int, cores: set[int]) -> None:
    """Keep a process, and what it begins from now on, to these cores."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def tree_cpu_seconds(root: int) -> float:
    """User and system time of a process and of all that descend from it, those included that have ended and were waited
    for."""
    parents: dict[int, tuple[int, float]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rsplit(") ", 1)[1].split()
        except OSError:  # it has just ended
            continue
        parents[int(entry)] = int(fields[1]), sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
    found, level = 0.0, {root}
    while level:
        found += sum(parents[pid][1] for pid in level if pid in parents)
        level = {pid for pid, (parent, _) in parents.items() if parent in level}
    return found
