"""For how long a call is tried, with which pauses, and what it waits for.

Rules: a call ends when its time is over, whoever hangs; an observer is told when what it waits for changes.
Source: Kafka `default.api.timeout.ms`, `retry.backoff.ms` (KIP-580).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from client.backoff import Backoff
from client.settings.values import ClientSettings
from runtime.randomness import Randomness


class ClusterUnavailable(ConnectionError):
    """No usable answer came in time; the text says of what, and the last reason."""


class Waiting(NamedTuple):
    """What a call waits for: for the responses of `brokers`, or, without any, for its next attempt."""

    what: str
    """Such as the name of an API."""
    brokers: tuple[str, ...]
    reason: str | None
    """Why the attempt before failed, None in the first one."""
    since_s: float
    """When the call began, on the client's clock."""


def _on_a_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, daemon=True).start()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a client is given by its process. `start` runs a function beside others; `on_wait` is called with what a call waits
    for, and with None when it is over."""

    clock: Callable[[], float] = time.monotonic  # noqa: TID251  a process without a loop and its clock
    sleep: Callable[[float], None] = time.sleep
    wall_clock: Callable[[], float] = time.time  # noqa: TID251
    randomness: Randomness = field(default_factory=random.Random)  # spreads clients; nobody must not guess it
    start: Callable[[Callable[[], None]], None] = _on_a_thread
    on_wait: Callable[[Waiting | None], Any] = lambda _waiting: None


class Attempts:
    """The attempts at one operation. Its time is counted from the first failure, or, `from_now`, from here."""

    def __init__(
        self, what: str, settings: ClientSettings, surroundings: Surroundings, *, from_now: bool = False
    ) -> None:
        self.what = what
        """Such as the API that is asked for now."""
        self._surroundings = surroundings
        self.request_s = settings.request_timeout_ms / 1000
        """How long a response may take."""
        self._limit_s = settings.api_timeout_ms / 1000
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._began_s = surroundings.clock()
        self._counted_from_s = self._began_s if from_now else None
        self._failed_s: float | None = None
        self._failures = 0
        self._reason: str | None = None

    @property
    def elapsed_s(self) -> float:
        """Since the first failure."""
        return 0.0 if self._failed_s is None else self._surroundings.clock() - self._failed_s

    @property
    def left_s(self) -> float:
        """Until the time is over."""
        if self._counted_from_s is None:
            return self._limit_s
        return self._counted_from_s + self._limit_s - self._surroundings.clock()

    def asks(self, *brokers: str) -> None:
        """Tell the observer who is asked now."""
        self._surroundings.on_wait(Waiting(self.what, brokers, self._reason, self._began_s))

    def pause(self, reason: object) -> None:
        """Wait before the next attempt. Raises ClusterUnavailable when there is no time for one."""
        if not self.may_pause(reason):
            raise ClusterUnavailable(f"{self.what}: {reason}, after {self._limit_s:g} s of attempts")

    def may_pause(self, reason: object) -> bool:
        """Wait before the next attempt, if there is time for one; return whether there was."""
        now_s = self._surroundings.clock()
        if self._failed_s is None:
            self._failed_s = now_s
        if self._counted_from_s is None:
            self._counted_from_s = now_s
        self._failures += 1
        self._reason = str(reason)
        pause_s = self._backoff.pause_ms(self._failures, self._surroundings.randomness) / 1000
        if self.left_s <= pause_s:
            return False
        self.asks()
        self._surroundings.sleep(pause_s)
        return True

    def is_over(self) -> None:
        """Tell the observer that nothing is waited for."""
        self._surroundings.on_wait(None)
