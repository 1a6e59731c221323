"""A search over the partitions of a topic: records as they are found, how far it has looked, and why it ends.

Rules: it ends with one of `end`, `paused`, `problem`, which says why. A pause has a cursor, with which the same search
goes on where it stopped. Reading is bounded by the budget of all searches, the search by hits and time.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from web.messages.cursors import MAX_POSITIONS, Cursor, CursorKind
from web.messages.events import STREAM_ERRORS, Event, problem_event
from web.messages.reading import WINDOW, RangeReading

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from runtime.clock import Clock
    from web.messages.matching import Matching
    from web.messages.progress import Progress

PROGRESS_MS: Final = 250
POLL_MS: Final = 250
assert WINDOW <= MAX_POSITIONS


@dataclass(slots=True)
class Search:
    """`done` are partitions that were done before, as the cursor says; `failed` are those that cannot be read now, with the
    reason of each."""

    matching: Matching
    reading: RangeReading
    progress: Progress
    clock: Clock
    about: str
    max_hits: int
    max_ms: int
    done: frozenset[int]
    failed: Mapping[int, str]
    hits: int = 0
    _told_ms: int = 0

    async def events(self) -> AsyncGenerator[Event | None, None]:
        """Return the events of the search, which ends with them."""
        yield self._progress()
        try:
            async with self.reading, aclosing(self._found()) as events:
                async for event in events:
                    yield event
                    if event is not None and event.name == "paused":
                        return
        except STREAM_ERRORS as error:
            yield problem_event(error, self._cursor())
            return
        yield self._progress()
        yield self._ending()

    async def _found(self) -> AsyncGenerator[Event | None, None]:
        ranges = self.progress.ranges
        while not self.progress.is_done:
            for fetched in await self.reading.poll(POLL_MS):
                row = ranges[fetched.partition]
                async with aclosing(self.matching.matches(fetched, row)) as matches:
                    async for match in matches:
                        if match is not None:
                            self.hits += 1
                            yield Event("hit", self.matching.shown(fetched.partition, match))
                        pause = self._pause()
                        if pause is not None:
                            yield self._progress()
                            yield pause
                            return
                        if self._is_due():
                            yield self._progress()
                self.progress.records_read += sum(max(header.records_count, 1) for _, header in fetched.batches)
            pause = self._pause()
            if pause is not None:
                yield self._progress()
                yield pause
                return
            yield self._progress() if self._is_due() else None

    def _pause(self) -> Event | None:
        if self.hits >= self.max_hits:
            return self._paused("hits", f"{self.hits} records were found: go on for more.")
        elapsed_ms = self.clock.monotonic_ms() - self.progress.started_ms
        if elapsed_ms >= self.max_ms:
            return self._paused("time", f"It has looked for {self.max_ms // 1000} s: go on for more.")
        return None

    def _paused(self, reason: str, message: str) -> Event:
        cursor = self._cursor()
        return Event("paused", {"reason": reason, "message": message, "cursor": cursor}, cursor)

    def _ending(self) -> Event:
        if self.failed:
            texts = "; ".join(f"partition {each}: {reason}" for each, reason in list(self.failed.items())[:5])
            return self._paused(
                "partitions", f"{len(self.failed)} partitions could not be read: {texts}. Go on to try again."
            )
        left_out = self.matching.left_out
        gaps = [str(each.partition) for each in self.progress if each.has_gaps]
        message = "Every record up to the end was looked at."
        if gaps:
            message = f"Every record that could be read was looked at; see partitions {', '.join(gaps[:20])}."
        if left_out:
            message += f" {left_out} values larger than 1 MiB were not looked at as JSON."
        return Event("end", {"reason": "complete", "message": message})

    def _is_due(self) -> bool:
        return self.clock.monotonic_ms() - self._told_ms >= PROGRESS_MS

    def _progress(self) -> Event:
        self._told_ms = now_ms = self.clock.monotonic_ms()
        self.progress.mark(now_ms)
        cursor = self._cursor()
        data: dict[str, Any] = {
            "partitions": self.progress.changed(),
            **self.progress.figures(now_ms),
            "hits": self.hits,
            "left_out": self.matching.left_out,
            "cursor": cursor,
        }
        return Event("progress", data, cursor)

    def _cursor(self) -> str:
        """Return where the search goes on. Of partitions that were not begun, it begins where it would have."""
        begun = [each for each in self.progress if not each.is_done and each.is_begun]
        # partitions are read in their order: those behind have nothing to be kept, so that the cursor stays short
        last = max((each.partition for each in self.progress if each.is_begun), default=-1)
        done = self.done.union(each.partition for each in self.progress if each.is_done and each.partition <= last)
        positions = {each.partition: (each.at, each.end or 0) for each in begun[:MAX_POSITIONS]}
        return Cursor(CursorKind.SEARCH, positions, done).text(self.about)
