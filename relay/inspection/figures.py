"""How much waits of a source partition, and when it is due. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final

from relay.waiting.index import WaitingIndex

SPANS_MS: Final = {"due": 0, "in_1m": 60_000, "in_1h": 3_600_000, "in_1d": 86_400_000}
"""The columns of a listing: due now, and due within so long, without what is due sooner."""
LATER: Final = "later"
COLUMNS: Final = (*SPANS_MS, LATER)


@dataclass(slots=True)
class WaitingFigures:
    """Of one source partition. `next_due_ms` is None when nothing waits."""

    count: int = 0
    next_due_ms: int | None = None
    by_time: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))

    @classmethod
    def of(cls, index: WaitingIndex, now_ms: int) -> WaitingFigures:
        figures = cls(index.count, index.next_due_ms())
        ends_ms = [*(now_ms + each for each in SPANS_MS.values()), inf]
        counts = [0] * len(ends_ms)
        at = 0
        for entry in index.entries():  # by due time
            while entry.due_ms > ends_ms[at]:
                at += 1
            counts[at] += 1
        figures.by_time = dict(zip(COLUMNS, counts, strict=True))
        return figures
