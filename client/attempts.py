"""For how long an operation is tried, and with which pauses. Pure.

Source: Kafka `default.api.timeout.ms`, `request.timeout.ms`, `retry.backoff.ms` (KIP-580).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.backoff import Backoff
    from runtime.randomness import Randomness

FIRST_ANSWER_S: Final = 2.0
"""How long a broker may take to accept a connection, and to answer on it, before others are asked: one that hangs accepts
connections, too. The next attempt to reach it has the whole time."""


class AttemptTimes:
    """The times of the attempts at one operation, on the clock of a shell, in seconds. The time of all is counted from the
    first failure, or, `from_now`, from here."""

    def __init__(
        self,
        clock: Callable[[], float],
        randomness: Randomness,
        backoff: Backoff,
        *,
        limit_ms: float,
        request_ms: float,
        from_now: bool = False,
    ) -> None:
        self._clock = clock
        self._randomness = randomness
        self._backoff = backoff
        self.limit_s = limit_ms / 1000
        self.request_s = request_ms / 1000
        """How long a response may take."""
        self.began_s = clock()
        self._counted_from_s = self.began_s if from_now else None
        self._failed_s: float | None = None
        self._failures = 0

    @property
    def elapsed_s(self) -> float:
        """Since the first failure."""
        return 0.0 if self._failed_s is None else self._clock() - self._failed_s

    @property
    def left_s(self) -> float:
        """Until the time is over."""
        if self._counted_from_s is None:
            return self.limit_s
        return self._counted_from_s + self.limit_s - self._clock()

    @property
    def left_for_request_s(self) -> float:
        """For how long a response may be waited for now."""
        return max(0.0, min(self.request_s, self.left_s))

    def failed(self) -> float | None:
        """Note a failure; return how long to wait before the next attempt, None when there is no time for one."""
        now_s = self._clock()
        if self._failed_s is None:
            self._failed_s = now_s
        if self._counted_from_s is None:
            self._counted_from_s = now_s
        self._failures += 1
        pause_s = self._backoff.pause_ms(self._failures, self._randomness) / 1000
        return pause_s if pause_s < self.left_s else None
