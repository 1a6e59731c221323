"""What the histories of the relay must have met, for a hundred seeds."""

from __future__ import annotations

MINIMUMS: dict[str, int] = {
    "requests": 100 * 500,
    "faults": 100 * 4,
    "virtual seconds": 100 * 30,
}
