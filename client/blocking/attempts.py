"""The attempts at one call: its pauses, and what it waits for.

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

from client.attempts import AttemptTimes
from client.backoff import Backoff
from client.errors import ClusterUnavailable
from client.settings.values import ClientSettings
from runtime.randomness import Randomness


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
    """The attempts at one operation. Their time is counted from the first failure, or, `from_now`, from here."""

    def __init__(
        self, what: str, settings: ClientSettings, surroundings: Surroundings, *, from_now: bool = False
    ) -> None:
        self.what = what
        """Such as the API that is asked for now."""
        self._surroundings = surroundings
        self.times = AttemptTimes(
            surroundings.clock,
            surroundings.randomness,
            Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms),
            limit_ms=settings.api_timeout_ms,
            request_ms=settings.request_timeout_ms,
            from_now=from_now,
        )
        self._reason: str | None = None

    @property
    def elapsed_s(self) -> float:
        """Since the first failure."""
        return self.times.elapsed_s

    def asks(self, *brokers: str) -> None:
        """Tell the observer who is asked now."""
        self._surroundings.on_wait(Waiting(self.what, brokers, self._reason, self.times.began_s))

    def pause(self, reason: object) -> None:
        """Wait before the next attempt. Raises ClusterUnavailable when there is no time for one."""
        if not self.may_pause(reason):
            raise ClusterUnavailable(f"{self.what}: {reason}, after {self.times.limit_s:g} s of attempts")

    def may_pause(self, reason: object) -> bool:
        """Wait before the next attempt, if there is time for one; return whether there was."""
        pause_s = self.times.failed()
        self._reason = str(reason)
        if pause_s is None:
            return False
        self.asks()
        self._surroundings.sleep(pause_s)
        return True

    def is_over(self) -> None:
        """Tell the observer that nothing is waited for."""
        self._surroundings.on_wait(None)
