"""What signals mean to a server: a stop in order, an immediate end, or files that are opened anew.

Rules: SIGTERM and SIGINT stop the server in order; a second signal ends it immediately, the same signal only after a second.
SIGHUP opens log files anew; in a process with a terminal it says that this is closed, and stops the server in order, unless
SIGHUP was ignored at the start (nohup). It is never a second signal.
Source: Kafka LoggingSignalHandler; a JVM with shutdown hooks.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from runtime.clock import Clock
from runtime.process.os_descriptors import has_terminal

# A process group that is signalled may signal its members again (make does): this is not a second signal of the user.
REPEATED_SIGNAL_MS = 1_000


class StopSignals:
    """Of one process, whose event loop `watch` is called on. `is_stopping` returns whether it stops for another reason."""

    def __init__(
        self,
        clock: Clock,
        *,
        on_stop: Callable[[signal.Signals], None],
        on_reload: Callable[[], None],
        on_second: Callable[[signal.Signals], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._on_stop, self._on_reload, self._on_second = on_stop, on_reload, on_second
        self._is_stopping = is_stopping
        self._first: tuple[signal.Signals, int] | None = None
        self._hangs_up = False

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._hangs_up = has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.on_signal, number)

    def on_signal(self, number: signal.Signals) -> None:
        if number is signal.SIGHUP and not self._hangs_up:
            self._on_reload()
            return
        now_ms = self._clock.monotonic_ms()
        if self._first is None and not self._is_stopping():
            self._first = number, now_ms
            self._on_stop(number)
            return
        if number is signal.SIGHUP:
            return
        if self._first is not None:
            first, stopped_ms = self._first
            if first in (number, signal.SIGHUP) and now_ms - stopped_ms < REPEATED_SIGNAL_MS:
                return
        self._on_second(number)
