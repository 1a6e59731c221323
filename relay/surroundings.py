"""What the relay takes from the world beside its connections: time and randomness.

Rules: made once by whoever runs the relay. Tests and simulations give their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.clock import Clock, SystemClock
from runtime.randomness import Randomness, system_randomness


@dataclass(frozen=True, slots=True)
class RelaySurroundings:
    """`clock.wall_ms` says what is due; durations are measured by the event loop."""

    clock: Clock = field(default_factory=SystemClock)
    randomness: Randomness = field(default_factory=system_randomness)
