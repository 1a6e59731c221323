"""Which runs are written again as one. No IO.

Rules: only neighbours are merged, so that the order of runs stays the order in which entries were taken in. A run is worn when
half of its entries are done, or when so many done records name it that reading them is as much work as reading the run: then it
is written again. Eight or more neighbours of like size become one, so that an entry is written some four times before its run
is as large as runs become. A run that will have gone by itself soon is left alone.
Source: size-tiered compaction of log-structured merge trees (O'Neil and others, 1996; Cassandra).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relay.waiting.run import WaitingRun

# How many entries a run has that was merged: writing it takes some 20 ms.
MOST_MERGED = 16_384
_TIERS = (64, 512, 4_096)
_FEWEST_RUNS = 8
_MOST_RUNS = 64
# What is due within this time is not written again; for small runs, whose records cost more than their entries, it is shorter.
_SOON_MS = 60_000
_VERY_SOON_MS = 5_000


def is_worn(run: WaitingRun) -> bool:
    return run.count * 2 < run.size or len(run.done_by) > 64 + run.size // 8


def runs_to_merge(runs: Iterable[WaitingRun], worn: WaitingRun | None, now_ms: int) -> Sequence[WaitingRun]:
    """Return neighbours that become one run; none when all is well.

    `runs`: all in which something waits, in order. `worn`: one of them that must be written again.
    """
    in_order = list(runs)
    if worn is not None:
        return _from(in_order[in_order.index(worn) :], _TIERS[-1], now_ms) or [worn]
    for most in _TIERS:
        start = 0
        for at, run in enumerate(in_order):
            if run.count > most or _goes_soon(run, now_ms):
                start = at + 1
            elif at - start + 1 == _FEWEST_RUNS:
                return _from(in_order[start:], most, now_ms)
    return []


def _from(runs: Sequence[WaitingRun], most: int, now_ms: int) -> Sequence[WaitingRun]:
    """Return the first of these runs, and of its neighbours those that can be merged with it."""
    merged = list(runs[:1])
    count = runs[0].count
    for run in runs[1:_MOST_RUNS]:
        count += run.count
        if run.count > most or count > MOST_MERGED or _goes_soon(run, now_ms):
            break
        merged.append(run)
    return merged


def _goes_soon(run: WaitingRun, now_ms: int) -> bool:
    soon_ms = _SOON_MS if run.count > _TIERS[0] else _VERY_SOON_MS
    return now_ms - _SOON_MS <= run.last_due_ms <= now_ms + soon_ms
