"""How fast consumers are sent old records: `barnabas.cold.read.max.bytes.per.second`, over all of them.

Catching up takes processor, disk and network from those who read what has just been written. Where it is to wait for them, it
waits here, before anything is read for it: not in a reader thread, and with none of the memory for answers.

Rules: no IO. What is granted is a debt that time pays back; while there is any, who comes waits in line. Without a limit
nobody asks. Followers never do: a replica that is not in sync yet protects nobody's records.
Invariants: turns come in their order; while anybody waits a timer runs. A turn is granted a sixteenth of a second's bytes,
less where more wait, so that a hundred who ask again and again are through in a second or two; and the first batch, whatever
its size.
Source: no Kafka class; Apache Kafka has quotas of clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.throttle import Throttle

if TYPE_CHECKING:
    from runtime.clock import Clock
    from runtime.timer import Timer, TimerEntry


GRANTS_A_SECOND = 16


class Turn:
    """A place in the line, and what it grants when it has come."""

    __slots__ = ("_come", "granted_bytes", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.granted_bytes = 0
        self._come: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def wait(self) -> bool:
        """Whether there is something to read: False when it was left."""
        return await self._come

    def end_wait(self, is_granted: bool) -> None:
        if not self._come.done():  # else the broker stops, and has cancelled who waits
            self._come.set_result(is_granted)


class ColdReads:
    """One for all consumers of a broker."""

    __slots__ = ("_bytes_per_second", "_clock", "_line", "_throttle", "_timer", "_wake_up")

    def __init__(self, bytes_per_second: int | None, timer: Timer, clock: Clock) -> None:
        self._bytes_per_second = bytes_per_second
        self._timer = timer
        self._clock = clock
        self._throttle = Throttle()
        self._line: dict[Turn, None] = {}
        self._wake_up: TimerEntry | None = None

    @property
    def are_limited(self) -> bool:
        return self._bytes_per_second is not None

    def ask(self, most_bytes: int) -> Turn:
        """A turn to read up to so many bytes. Who has had it says what was read: `has_read`."""
        turn = Turn(most_bytes)
        self._line[turn] = None
        if self._wake_up is None:
            self._serve_line()
        return turn

    def leaving(self, turn: Turn, then: Callable[[], None]) -> Callable[[], None]:
        """What to call when nobody waits for the records any more: leaves the line, and calls `then` if it was there."""

        def leave() -> None:
            if turn in self._line:
                del self._line[turn]
                turn.end_wait(False)
                then()

        return leave

    def has_read(self, turn: Turn, count_bytes: int) -> None:
        """So many bytes were read in a turn: what it was granted beyond them is others'."""
        self._throttle.moved(count_bytes - turn.granted_bytes)
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._serve_line()

    def _serve_line(self) -> None:
        self._wake_up = None
        bytes_per_second = self._bytes_per_second
        assert bytes_per_second is not None
        while self._line:
            wait_ms = self._throttle.wait_ms(bytes_per_second, self._clock.monotonic_ms())
            if wait_ms:
                self._wake_up = self._timer.schedule(wait_ms, self._serve_line)
                return
            turn = next(iter(self._line))
            turn.granted_bytes = min(turn.most_bytes, bytes_per_second // max(len(self._line), GRANTS_A_SECOND))
            del self._line[turn]
            self._throttle.moved(turn.granted_bytes)
            turn.end_wait(True)
