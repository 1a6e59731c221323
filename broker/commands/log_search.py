"""The processes of `barnabas log find`: segments are scanned in parallel, and their matches are returned in the order of the
log.

Rules: at most `jobs` processes, and twice as many scans in progress, so that the matches in memory are bounded. The processes
are forked before this one has threads, have no state, and end with it.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice

from runtime.disk.os_filesystem import OsFileSystem
from storage.offline.log_find import Found, Task, scan

_SCANS_PER_JOB = 2


def search(tasks: Iterable[Task], jobs: int) -> Iterator[Found]:
    """Yield the result of each scan, in the order of the tasks."""
    if jobs == 1:
        yield from _one_by_one(tasks)
        return
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts)
    try:
        yield from _in_parallel(tasks, jobs, lambda task: pool.submit(scan_segment, task))
    finally:
        pool.shutdown(cancel_futures=True)


def _one_by_one(tasks: Iterable[Task]) -> Iterator[Found]:
    for task in tasks:
        following: Task | None = task
        while following is not None:
            found = scan_segment(following)
            yield found
            following = found.following


def _in_parallel(tasks: Iterable[Task], jobs: int, submit: Callable[[Task], Future[Found]]) -> Iterator[Found]:
    waiting = iter(tasks)
    under_way = deque(submit(task) for task in islice(waiting, jobs * _SCANS_PER_JOB))
    while under_way:
        found = under_way.popleft().result()
        if found.following is not None:
            under_way.appendleft(submit(found.following))
        else:
            under_way.extend(submit(task) for task in islice(waiting, 1))
        yield found


def scan_segment(task: Task) -> Found:
    """Run one scan, in this process or another."""
    return scan(OsFileSystem(), task)


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C: the main process handles it and ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
