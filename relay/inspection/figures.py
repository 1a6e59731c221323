"""How much waits of a source partition, and when it is due. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from relay.waiting.index import WaitingIndex

SPANS_MS: Final = {"due": 0, "in_1m": 60_000, "in_1h": 3_600_000, "in_1d": 86_400_000}
"""The columns of a listing: due now, and due within so long, without what is due sooner."""
LATER: Final = "later"
COLUMNS: Final = (*SPANS_MS, LATER)


@dataclass(slots=True)
class WaitingFigures:
    """Of one source partition. `next_due_ms` is None when nothing waits, `position` when the log does not say up to where the
    source was taken in."""

    count: int = 0
    next_due_ms: int | None = None
    position: int | None = None
    by_time: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))

    @classmethod
    def of(cls, index: WaitingIndex, now_ms: int) -> WaitingFigures:
        figures = cls(index.count, index.next_due_ms(), None if index.position is None else index.position[0])
        counts = [0, *(index.count_due(now_ms + each) for each in SPANS_MS.values()), index.count]
        figures.by_time = {name: end - start for name, (start, end) in zip(COLUMNS, pairwise(counts), strict=True)}
        return figures
