"""What a log knows of its truncations: whether one is in progress, and how low they went.

Rules: runs on the event loop; one truncation at a time (`storage.log.removal.log_truncation`).
Source: none in Kafka, whose truncations hold the log's lock.
"""

from __future__ import annotations

import asyncio


class TruncationState:
    """`lowest_offset`: the lowest offset that the log was truncated to since a copy of it was truncated as well; None without
    one. A copy cannot always find that by epochs: the epochs of the removed records may be unknown to the log by now."""

    __slots__ = ("_ended", "lowest_offset")

    def __init__(self) -> None:
        # Done when the truncation in progress has ended; None without one.
        self._ended: asyncio.Future[None] | None = None
        self.lowest_offset: int | None = None

    @property
    def is_in_progress(self) -> bool:
        return self._ended is not None

    async def wait(self) -> None:
        """Return when no truncation is in progress."""
        while self._ended is not None:
            await asyncio.shield(self._ended)

    def begin(self) -> None:
        self._ended = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        ended, self._ended = self._ended, None
        assert ended is not None
        ended.set_result(None)

    def note_end(self, offset: int) -> None:
        """Note that the log ends at `offset` now."""
        self.lowest_offset = offset if self.lowest_offset is None else min(self.lowest_offset, offset)
