"""A live view of a topic: records as they are written.

Rules: where more is written than can be shown, `MAX_SHOWN_PER_S` records a second, the view leaves records out and
says how many offsets it has passed over, so that what it shows stays new. A browser that connects again goes on where it was.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from web.messages.cursors import MAX_POSITIONS, Cursor, CursorKind
from web.messages.events import STREAM_ERRORS, Event, problem_event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from client.reading.positions import FetchedBatches
    from runtime.clock import Clock
    from web.messages.matching import Matching
    from web.messages.progress import Progress
    from web.messages.reading import RangeReading

MAX_SHOWN_PER_S: Final = 200
MAX_BEHIND: Final = 20_000
"""Offsets: who is further behind the end than this goes on at the end."""
_SECOND_MS: Final = 1_000
_POLL_MS: Final = 250


@dataclass(slots=True)
class Follow:
    """Reads ranges without an end. `failed` are partitions that cannot be read now, with the reason of each."""

    matching: Matching
    reading: RangeReading
    progress: Progress
    clock: Clock
    about: str
    failed: Mapping[int, str]
    skipped: int = 0
    _told_ms: int = 0
    _told_skipped: int = 0
    _second_ms: int = 0
    _shown: int = 0

    async def events(self) -> AsyncGenerator[Event | None, None]:
        """Return events as long as they are read."""
        yield self._progress(self.progress.changed())
        try:
            async with self.reading:
                while True:
                    for fetched in await self.reading.poll(_POLL_MS):
                        async with aclosing(self._of_fetch(fetched)) as events:
                            async for event in events:
                                yield event
                    yield self._due_progress()
        except STREAM_ERRORS as error:
            yield problem_event(error, self._cursor())

    async def _of_fetch(self, fetched: FetchedBatches) -> AsyncGenerator[Event | None, None]:
        row = self.progress.ranges[fetched.partition]
        self._skip_to_end(fetched)
        async with aclosing(self.matching.matches(fetched, row)) as matches:
            async for match in matches:
                if match is None:
                    yield None
                elif self._has_room():
                    yield Event("record", self.matching.shown(fetched.partition, match))
                else:
                    self.skipped += fetched.next_offset - match.record.offset
                    row.pass_to(fetched.next_offset)
                    return

    def _skip_to_end(self, fetched: FetchedBatches) -> None:
        """Go on at the end when this partition is too far behind it."""
        behind = fetched.end_offset - fetched.next_offset
        if behind > MAX_BEHIND:
            self.skipped += fetched.end_offset - self.progress.ranges[fetched.partition].at
            self.reading.move(fetched.partition, fetched.end_offset)

    def _has_room(self) -> bool:
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._second_ms >= _SECOND_MS:
            self._second_ms, self._shown = now_ms, 0
        self._shown += 1
        return self._shown <= MAX_SHOWN_PER_S

    def _due_progress(self) -> Event | None:
        if self.clock.monotonic_ms() - self._told_ms < _SECOND_MS:
            return None
        changed = self.progress.changed()
        return self._progress(changed) if changed or self.skipped != self._told_skipped else None

    def _progress(self, changed: list[dict[str, Any]]) -> Event:
        self._told_ms = now_ms = self.clock.monotonic_ms()
        self._told_skipped = self.skipped
        self.progress.mark(now_ms)
        cursor = self._cursor()
        data = {
            "partitions": changed,
            **self.progress.figures(now_ms),
            "left_ms": None,
            "skipped_records": self.skipped,
            "failed": [{"partition": each, "note": why} for each, why in self.failed.items()],
            "cursor": cursor,
        }
        return Event("progress", data, cursor)

    def _cursor(self) -> str:
        """Return where the view goes on; nothing for more partitions than a cursor has a place for: it goes on at
        their ends."""
        if len(self.progress.ranges) > MAX_POSITIONS:
            return ""
        positions = {each.partition: (each.at, each.at) for each in self.progress}
        return Cursor(CursorKind.FOLLOW, positions).text(self.about)
