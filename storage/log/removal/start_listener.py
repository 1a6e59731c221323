"""Who is notified that a log begins later: its partition.

Rules: called on the event loop, after the log start offset has risen.
Source: none in Kafka, whose delayed fetches and DeleteRecords are checked by a period.
"""

from __future__ import annotations

from typing import Protocol


class StartListener(Protocol):
    """The partition of a log."""

    def on_start_raised(self) -> None:
        """Called when the log start offset has risen, for example by retention."""


class _NoListener:
    """The listener of a log without a partition."""

    def on_start_raised(self) -> None: ...


NO_LISTENER = _NoListener()
