"""How far reading has come in each partition, how fast it goes, and how long it still takes. Pure.

Rules: `at` is behind the last offset that was looked at, so that reading may go on there at any time. Times are passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

_POINTS: Final = 16
_POINT_MS: Final = 250


@dataclass(slots=True)
class PartitionRange:
    """The offsets [start, end) of a partition that are read; `at` is the next one. Without an end it is read on and on."""

    partition: int
    start: int
    end: int | None
    note: str = ""
    is_continued: bool = False
    """Whether an earlier reading has come to `start`."""
    has_gaps: bool = False
    """Whether records were passed over that could not be looked at; `note` says which."""
    at: int = field(init=False)

    def __post_init__(self) -> None:
        self.at = self.start

    @property
    def is_done(self) -> bool:
        return self.end is not None and self.at >= self.end

    @property
    def is_begun(self) -> bool:
        return self.is_continued or self.at > self.start

    @property
    def left(self) -> int:
        return 0 if self.end is None else max(self.end - self.at, 0)

    def pass_to(self, offset: int) -> None:
        """Note that all before this offset was looked at."""
        self.at = max(self.at, offset)


class Progress:
    """`ranges` by their partitions. `last_seen` are ends of partitions that are read on and on."""

    def __init__(self, ranges: Iterable[PartitionRange], now_ms: int) -> None:
        self.ranges = {each.partition: each for each in ranges}
        self.last_seen: dict[int, int] = {}
        self.bytes_read = 0
        self.records_read = 0
        self.started_ms = now_ms
        self._told: dict[int, tuple[int, int | None, str]] = {}
        self._points: deque[tuple[int, int, int]] = deque([(now_ms, 0, self._left())], _POINTS)

    def __iter__(self) -> Iterator[PartitionRange]:
        return iter(self.ranges.values())

    @property
    def is_done(self) -> bool:
        return all(each.is_done for each in self)

    def mark(self, now_ms: int) -> None:
        """Keep how far reading has come by now, for its speed."""
        if now_ms - self._points[-1][0] >= _POINT_MS:
            self._points.append((now_ms, self.bytes_read, self._left()))

    def figures(self, now_ms: int) -> dict[str, Any]:
        """Return the sums, in JSON. `left_ms` is None while it cannot be told."""
        since_ms, since_bytes, since_left = self._points[0]
        elapsed_ms = max(now_ms - since_ms, 1)
        left, moved = self._left(), since_left - self._left()
        if left == 0:
            left_ms: int | None = 0
        else:
            left_ms = round(left * elapsed_ms / moved) if moved > 0 else None
        return {
            "bytes_read": self.bytes_read,
            "bytes_per_second": round((self.bytes_read - since_bytes) * 1000 / elapsed_ms),
            "records_read": self.records_read,
            "elapsed_ms": now_ms - self.started_ms,
            "left_ms": left_ms,
        }

    def changed(self) -> list[dict[str, Any]]:
        """Return the partitions that have changed since they were told, in JSON; the first time all of them."""
        rows = []
        for partition, each in self.ranges.items():
            end = self._end(each)
            state = each.at, end, each.note
            if self._told.get(partition) == state:
                continue
            self._told[partition] = state
            rows.append(
                {
                    "partition": partition,
                    "from": each.start,
                    "at": each.at,
                    "end": end,
                    "is_done": each.is_done,
                    "note": each.note,
                }
            )
        return rows

    def _end(self, each: PartitionRange) -> int:
        return self.last_seen.get(each.partition, each.at) if each.end is None else each.end

    def _left(self) -> int:
        return sum(each.left for each in self)
