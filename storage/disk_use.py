"""What the logs of a broker do with its disks: how long flushes take, and whether reads had to wait for a disk.

Rules: called on the event loop; a job that is measured hands its time over when it is reported.
Source: Kafka LogFlushStats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.distribution import Distribution

if TYPE_CHECKING:
    from runtime.clock import Clock


class DiskUse:
    """Shared by all logs. `memory_bytes` were read at once from the page cache, `disk_bytes` by a thread: because the page
    cache did not have them, or by readers so far behind the end of a log that it was not asked."""

    __slots__ = ("disk_bytes", "flushes", "memory_bytes")

    def __init__(self) -> None:
        self.memory_bytes = self.disk_bytes = 0
        self.flushes = Distribution()


class TimedJob:
    """A job that knows how long it took. It may run in a thread; `took_ns` is read when it is over."""

    __slots__ = ("_job", "_now_ns", "took_ns")

    def __init__(self, job: Callable[[], None], clock: Clock) -> None:
        self._job = job
        self._now_ns = clock.monotonic_ns
        self.took_ns = 0

    def __call__(self) -> None:
        began_ns = self._now_ns()
        self._job()
        self.took_ns = self._now_ns() - began_ns
