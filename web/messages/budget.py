"""How much may be read at a time: bytes a second over all searches and downloads, and how many of each run at once.

Rules: what was read is paid for afterwards, so that any size of batch passes; who reads waits until the debt is paid.
Many who read take turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from runtime.sampled_rates import TokenBucket
from web.errors import HttpProblem

if TYPE_CHECKING:
    from runtime.clock import Clock

BURST_S: Final = 1.0


class ReadBudget:
    """`bytes_per_second` is the bound over all who share the budget."""

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._bucket = TokenBucket(BURST_S)

    async def take(self, count: int) -> None:
        """Pay for bytes that were read; return when more may be read."""
        self._bucket.take(count, self._bytes_per_second, self._clock.monotonic_ms())
        while True:
            pause_ms = self._bucket.throttle_ms(self._bytes_per_second, self._clock.monotonic_ms())
            if not pause_ms:
                return
            await asyncio.sleep(pause_ms / 1000)


class Places:
    """A bounded number of places for what runs long. `what` names it in the plural; `setting` bounds it."""

    def __init__(self, count: int, what: str, setting: str) -> None:
        self._count = count
        self._what = what
        self._setting = setting
        self.taken = 0

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Raises HttpProblem 429 when none is free."""
        if self.taken >= self._count:
            raise HttpProblem(
                429,
                f"{self._count} {self._what} run already, which is the limit",
                code="TOO_MANY",
                next_step=f"try again when one has ended; {self._setting} sets the limit",
                headers={"Retry-After": "5"},
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
