"""What the writing of a log needs of the log.

Rules: called on the event loop.
Source: none in Kafka, where UnifiedLog, LocalLog and LogSegment call each other.
"""

from __future__ import annotations

from typing import Protocol

from config.topic import LogConfig
from storage.segments.segment import OpenedSegment


class WriterContext(Protocol):
    """The log, as its writer and the writer's parts need it."""

    config: LogConfig
    topic: str
    partition: int

    @property
    def directory(self) -> str: ...

    def producer_snapshot(self, offset: int) -> bytes | None:
        """Return a snapshot of all producers before `offset`; None when their state there is not known any more."""

    def check_end(self, opened: OpenedSegment) -> None:
        """Called when the last segment was opened, and nothing was appended to it yet: the first time, its file shows whether
        the log ends where it is expected to."""

    def keep_epochs(self) -> None:
        """Flush the leader epochs, because the recovery point is about to move."""

    def end_at_written(self) -> None:
        """Called when all pending writes were dropped: the next offset is that of the written end."""
