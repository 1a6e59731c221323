"""What the histories of the store server must have met, for a hundred seeds."""

from __future__ import annotations

MINIMUMS = {
    "faults": 100 * 6,
    "virtual seconds": 100 * 30,
}
