"""One page of records next to each other in time, over several partitions: forward from offsets, or backward to what
is older.

Rules: the records of a partition stay in the order of their offsets; between partitions the timestamps decide. A page
ends early, and says why, when it has taken its time or its memory; its cursors go on exactly there. Backward, ranges
of offsets are read one before the other, each four times the one behind it: records count, not offsets, of which
markers and compaction take some. Bounded: `MAX_POSITIONS` partitions, `MAX_PAGE_BYTES` of what is shown.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from web.messages.cursors import MAX_POSITIONS, Cursor, CursorKind
from web.messages.progress import PartitionRange, Progress

if TYPE_CHECKING:
    from runtime.clock import Clock
    from web.messages.matching import Match, Matching
    from web.messages.reading import RangeReading

MAX_PAGE_MS: Final = 10_000
MAX_PAGE_BYTES: Final = 32 << 20
_ROW_BYTES: Final = 500
_GROWTH: Final = 4
_POLL_MS: Final = 250


@dataclass(slots=True)
class _Found:
    """What was found in one partition: shown records, in the order of their offsets. [low, high) was looked at."""

    partition: int
    low: int
    high: int
    records: deque[dict[str, Any]] = field(default_factory=deque)


@dataclass(slots=True)
class Browsing:
    """Makes one page of up to `limit` records. `first` and `end` are where the partitions begin and end now, `failed`
    why that is not known of others."""

    matching: Matching
    reading: RangeReading
    clock: Clock
    limit: int
    first: Mapping[int, int]
    end: Mapping[int, int]
    failed: Mapping[int, str]
    _reasons: list[str] = field(default_factory=list)
    _is_over: bool = False
    _kept: list[deque[dict[str, Any]]] = field(default_factory=list)
    _used_bytes: int = 0
    _deadline_ms: int = 0
    _notes: dict[int, str] = field(default_factory=dict)

    async def forward(self, ranges: Iterable[PartitionRange], about: str) -> dict[str, Any]:
        """Return the page that begins where the ranges do. Raises KafkaError, OSError, InvalidBatch."""
        progress = self._begin(ranges)
        found = {each.partition: _Found(each.partition, each.start, each.start) for each in progress}
        async with self.reading:
            await self._read(progress, found, keeps_last=False)
        for each in progress:
            found[each.partition].high = each.at
        shown = self._merged(found, is_backward=False)
        newer: dict[int, int] = {}
        for one in found.values():
            newer[one.partition] = one.records[0]["offset"] if one.records else one.high
        older = {each.partition: each.low for each in found.values()}
        return self._page(shown, older, newer, about)

    async def backward(self, ranges: Iterable[PartitionRange], about: str) -> dict[str, Any]:
        """Return the page that ends where the ranges do, newest first. Raises KafkaError, OSError, InvalidBatch."""
        wanted = list(ranges)
        found = {each.partition: _Found(each.partition, each.end or 0, each.end or 0) for each in wanted}
        open_ends = {each.partition: each.start for each in wanted if (each.end or 0) > each.start}
        size = self.limit
        async with self.reading:
            self._begin(wanted)
            while open_ends and not self._is_over:
                lows = {partition: max(found[partition].low - size, low) for partition, low in open_ends.items()}
                await self._read_before(lows, found)
                open_ends = {
                    partition: low
                    for partition, low in open_ends.items()
                    if found[partition].low > low and len(found[partition].records) < self.limit
                }
                size *= _GROWTH
        shown = self._merged(found, is_backward=True)
        older: dict[int, int] = {}
        for each in found.values():
            older[each.partition] = each.records[-1]["offset"] + 1 if each.records else each.low
        newer = {each.partition: each.high for each in found.values()}
        return self._page(shown, older, newer, about)

    def _begin(self, ranges: Iterable[PartitionRange]) -> Progress:
        now_ms = self.clock.monotonic_ms()
        self._deadline_ms = now_ms + MAX_PAGE_MS
        progress = Progress(ranges, now_ms)
        if len(progress.ranges) > MAX_POSITIONS:
            self._reasons.append(f"a page looks at {MAX_POSITIONS} partitions at most: choose others by `partitions`")
            progress = Progress(list(progress)[:MAX_POSITIONS], now_ms)
        self.reading.begin(progress)
        return progress

    async def _read_before(self, lows: Mapping[int, int], found: Mapping[int, _Found]) -> None:
        """Look at the offsets from `lows` up to what was looked at already."""
        earlier = {partition: _Found(partition, low, low) for partition, low in lows.items()}
        progress = Progress(
            [PartitionRange(partition, low, found[partition].low) for partition, low in lows.items()],
            self.clock.monotonic_ms(),
        )
        self.reading.begin(progress)
        await self._read(progress, earlier, keeps_last=True)
        for each in progress:
            if each.is_done:  # else it is read again: what is behind `at` would be missing in between
                before, behind = earlier[each.partition], found[each.partition]
                behind.records.extendleft(reversed(before.records))
                behind.low = before.low
                before.records.clear()
        self._trim()

    async def _read(self, progress: Progress, found: Mapping[int, _Found], *, keeps_last: bool) -> None:
        """Read the ranges until they are done or a partition has enough, within the page's time and memory."""
        self._kept += [each.records for each in found.values()]
        while not progress.is_done and not self._is_over:
            for fetched in await self.reading.poll(_POLL_MS):
                row = progress.ranges[fetched.partition]
                async with aclosing(self.matching.matches(fetched, row)) as matches:
                    async for match in matches:
                        self._check_time()
                        if match is not None:
                            self._keep(row, found[row.partition].records, match, keeps_last=keeps_last)
                        if self._is_over or row.is_done:
                            break
                self._notes[row.partition] = row.note
            self._check_time()

    def _keep(self, row: PartitionRange, kept: deque[dict[str, Any]], match: Match, *, keeps_last: bool) -> None:
        shown = self.matching.shown(row.partition, match)
        kept.append(shown)
        self._used_bytes += _size(shown)
        if not keeps_last:
            if len(kept) >= self.limit:
                row.end = row.at
            if self._used_bytes > MAX_PAGE_BYTES:
                self._end("its records are large")
            return
        self._trim()
        while self._used_bytes > MAX_PAGE_BYTES and self.limit > 1:
            self.limit //= 2
            self._reasons[:] = [f"its records are large, so that it has {self.limit} of them"]
            self._trim()

    def _trim(self) -> None:
        for each in self._kept:
            while len(each) > self.limit:
                self._used_bytes -= _size(each.popleft())

    def _check_time(self) -> None:
        if not self._is_over and self.clock.monotonic_ms() >= self._deadline_ms:
            self._end(f"it took longer than {MAX_PAGE_MS // 1000} s")

    def _end(self, reason: str) -> None:
        self._is_over = True
        self._reasons.append(reason)

    def _merged(self, found: Mapping[int, _Found], *, is_backward: bool) -> list[dict[str, Any]]:
        """Take the records of the page out of what was found, in the order of the page."""
        sign = -1 if is_backward else 1

        def entry(each: _Found) -> tuple[int, int]:
            head = each.records[-1 if is_backward else 0]
            return sign * (head["timestamp_ms"] or 0), sign * each.partition

        heads = [(entry(each), each.partition) for each in found.values() if each.records]
        heapq.heapify(heads)
        shown: list[dict[str, Any]] = []
        while heads and len(shown) < self.limit:
            _, partition = heapq.heappop(heads)
            records = found[partition].records
            shown.append(records.pop() if is_backward else records.popleft())
            if records:
                heapq.heappush(heads, (entry(found[partition]), partition))
        return shown

    def _page(
        self, shown: list[dict[str, Any]], older: Mapping[int, int], newer: Mapping[int, int], about: str
    ) -> dict[str, Any]:
        has_older = any(offset > self.first[partition] for partition, offset in older.items())
        reasons = [*self._reasons, *(f"partition {each}: {why}" for each, why in list(self.failed.items())[:5])]
        has_newer = any(offset < self.end[partition] for partition, offset in newer.items())
        return {
            "records": shown,
            "partitions": [
                {"partition": each, "first": self.first[each], "end": self.end[each], "note": self._notes.get(each, "")}
                for each in self.end
            ],
            "older": _cursor(CursorKind.OLDER, older, about) if has_older else None,
            "newer": _cursor(CursorKind.NEWER, newer, about) if has_newer else None,
            "is_whole": not reasons,
            "reason": "; ".join(reasons),
        }


def _cursor(kind: CursorKind, positions: Mapping[int, int], about: str) -> str:
    return Cursor(kind, {partition: (offset, offset) for partition, offset in positions.items()}).text(about)


def _size(shown: Mapping[str, Any]) -> int:
    texts = [shown["key"], shown["value"], *(each["value"] for each in shown["headers"])]
    return _ROW_BYTES + sum(len(each["text"]) for each in texts if each is not None)
