"""A session ends when nothing was heard of its client for its timeout, and not before; then its ephemeral nodes are gone."""

from __future__ import annotations

from collections.abc import Callable


class SessionChecker:
    """Of one client. All times in s."""

    def __init__(self, report: Callable[[str], None], now: Callable[[], float], name: str, timeout_s: float) -> None:
        self._report = report
        self._now = now
        self._name = name
        self._timeout_s = timeout_s
        self._heard_s = 0.0  # the server heard of the client at this time, or later
        self._ephemerals: set[str] = set()  # that were acknowledged

    def began(self) -> None:
        """A session is there, the first one or the one after."""
        self._heard_s = 0.0
        self._ephemerals.clear()

    def answered(self, asked_s: float) -> None:
        """What was asked then has been answered."""
        self._heard_s = max(self._heard_s, asked_s)

    def ephemeral_made(self, path: str) -> None:
        self._ephemerals.add(path)

    def ephemeral_going(self, path: str) -> None:
        """Its deletion was sent."""
        self._ephemerals.discard(path)

    def ephemeral_read(self, path: str, *, is_there: bool) -> None:
        """By its owner, in the session that made it."""
        if path in self._ephemerals and not is_there:
            self._report(f"{self._name} has lost {path}, and its session goes on")

    def expired(self) -> None:
        silent_s = self._now() - self._heard_s
        if silent_s < self._timeout_s:
            self._report(f"the session of {self._name} ended {silent_s:.3f} s after the server heard of it")
