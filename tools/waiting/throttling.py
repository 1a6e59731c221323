"""Whether a quota of the brokers delays a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.waiting.watch import Cause

if TYPE_CHECKING:
    from runtime.clock import Clock

LASTS_MS = 2_000
"""So long after its end a delay is the cause of a wait: the next answer may have another."""


class Throttling:
    """Of one command."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = 0
        self._text = ""

    def on_throttle(self, event: Any) -> None:
        """For `throttle_cb` of the clients."""
        delay_ms = event.throttle_time * 1000
        if delay_ms > 0:
            self._until_ms = self._clock.monotonic_ms() + int(delay_ms) + LASTS_MS
            self._text = (
                f"broker {event.broker_id} delays its answers by {event.throttle_time:.1f} s, because of a quota"
            )

    def cause(self) -> Cause | None:
        return Cause(self._text, self._text) if self._clock.monotonic_ms() < self._until_ms else None
