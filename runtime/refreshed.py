"""A value that is read again and again from somewhere else, such as the keys of a provider.

Rules: one read at a time. A read that fails keeps the value, is repeated after a pause that doubles, and is logged when it
begins to fail and when it succeeds again. Who needs a newer value at once asks for it; that is granted once in a while only, so
that no client can cause more reads.
Source: Kafka RefreshingHttpsJwks, ExpiringCredentialRefreshingLogin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from runtime.error_texts import reason_of

if TYPE_CHECKING:
    from runtime.clock import Clock
    from runtime.tasks import TaskScope

T = TypeVar("T")

# Whatever the settings say: a failing read does not occupy the broker.
RETRY_BACKOFF_MIN_MS = 10

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RefreshTimes:
    """The pauses after failures, and the shortest time between two reads that were asked for."""

    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    hurry_pause_ms: int = 10_000


class Refreshed(Generic[T]):
    """`start` once; `value` is None until the first read has succeeded. `load` raises OSError or ValueError; `pause_ms` says
    for how long a value is good. `what` names it in the log."""

    def __init__(
        self,
        what: str,
        load: Callable[[], Awaitable[T]],
        pause_ms: Callable[[T], int],
        times: RefreshTimes,
        clock: Clock,
        tasks: TaskScope,
    ) -> None:
        self._what = what
        self._load = load
        self._pause_ms = pause_ms
        self._times = times
        self._clock = clock
        self._tasks = tasks
        self._wake = asyncio.Event()
        self._last_read_ms = -times.hurry_pause_ms
        self._failures = 0
        self.value: T | None = None
        self.last_error = ""
        """Why the last read failed; empty after one that succeeded."""

    async def start(self) -> None:
        """Read for the first time, and keep reading; a first read that fails is repeated like others."""
        pause_ms = await self._read()
        self._tasks.spawn(self._run(pause_ms), name=f"read {self._what}")

    def hurry(self) -> None:
        """Read again soon, unless that was done a moment ago."""
        if self._clock.monotonic_ms() - self._last_read_ms >= self._times.hurry_pause_ms:
            self._wake.set()

    async def _run(self, pause_ms: int) -> None:
        while True:
            try:
                async with asyncio.timeout(pause_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass  # the pause is over
            pause_ms = await self._read()

    async def _read(self) -> int:
        """Read once, and return how long to wait for the next time."""
        self._wake.clear()
        self._last_read_ms = self._clock.monotonic_ms()
        try:
            self.value = await self._load()
        except (OSError, ValueError) as error:
            self.last_error = reason_of(error)
            if self._failures == 0:
                logger.warning("not read, retrying: document=%s error=%s", self._what, self.last_error)
            first_ms = max(self._times.retry_backoff_ms, RETRY_BACKOFF_MIN_MS)
            longest_ms = max(self._times.retry_backoff_max_ms, first_ms)
            pause_ms = min(first_ms << min(self._failures, 30), longest_ms)
            self._failures += 1
            return pause_ms
        if self._failures:
            logger.info("read again: document=%s failures=%d", self._what, self._failures)
        self._failures, self.last_error = 0, ""
        return self._pause_ms(self.value)
