"""How long to wait before something is tried again. Pure.

Each pause is twice as long as the one before, up to a limit, and a bit longer or shorter by chance, so that clients that failed
together do not come back together.

Source: KIP-580; Kafka ExponentialBackoff.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from runtime.randomness import Randomness

MULTIPLIER: Final = 2
JITTER: Final = 0.2
_STEPS: Final = 1_000_000
"""Of the jitter."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses from `first_ms` up to `most_ms`; where the first is longer than the limit, each has the limit."""

    first_ms: int
    most_ms: int

    def pause_ms(self, failures: int, randomness: Randomness) -> float:
        """Return the pause after so many failures in a row, the first one is 1."""
        first_ms = min(self.first_ms, self.most_ms)
        if first_ms == 0 or self.first_ms >= self.most_ms:
            return first_ms
        doublings = max(
            0, min(failures - 1, self.most_ms.bit_length())
        )  # no larger power than one that reaches any limit
        pause_ms: float = min(first_ms * MULTIPLIER**doublings, self.most_ms)
        factor = 1 - JITTER + 2 * JITTER * randomness.randrange(0, _STEPS + 1) / _STEPS
        return min(pause_ms * factor, float(self.most_ms))
