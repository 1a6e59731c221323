"""A Ctrl-C, or a request to end, that the command answers itself: it has to leave the cluster in order.

Rules: the first one is remembered and ends a wait; others change nothing, what puts the cluster in order ends in bounded time.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """While it is entered, signals are remembered in `is_asked` instead of ending the process."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._event = threading.Event()
        self._before: Mapping[signal.Signals, Any] = {}

    @property
    def is_asked(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait so long, or until somebody asks; return whether somebody has."""
        return self._event.wait(timeout_s)

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._remember) for each in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self._event.is_set():
            self._event.set()
            self._on_first()
