"""Numbers of partitions as people write them: `0,3,5-7`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_PARTITIONS: Final = 100_000


def parse_partitions(text: str) -> list[int]:
    """Return the numbers, in order, each once. Raises ValueError."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit() and (not dash or (last.isascii() and last.isdigit()))):
            raise ValueError(f"{part.strip()!r} is no partition and no range, as in 0,3,5-7")
        low, high = int(first[:9]), int((last or first)[:9])
        if high < low or high - low >= MAX_PARTITIONS:
            raise ValueError(f"{part.strip()!r} is no range of up to {MAX_PARTITIONS} partitions")
        found.update(range(low, high + 1))
        if len(found) > MAX_PARTITIONS:
            raise ValueError(f"there are more than {MAX_PARTITIONS} partitions")
    return sorted(found)


def partitions_text(partitions: Iterable[int]) -> str:
    """Return the shortest text that `parse_partitions` reads as these."""
    runs: list[list[int]] = []
    for each in sorted(partitions):
        if runs and runs[-1][1] == each - 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
