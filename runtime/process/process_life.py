"""What every process has that serves until it is told to stop: signals, the watchdog of its event loop, its service manager.

Rules: signals as `runtime.process.stop_signals` says. A process that cannot continue stops in order, too, with exit code 1. One
whose event loop hangs ends at once, so that it can be started again. A service manager that listens on NOTIFY_SOCKET hears when
clients are served, and when the stop begins.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from runtime.clock import Clock
from runtime.command_line.exit_codes import EXIT_FAILED
from runtime.loop_times import LoopTimes
from runtime.process.os_notify_socket import notify_socket, watchdog_s
from runtime.process.service_notices import ServiceNotices
from runtime.process.stop_signals import StopSignals
from runtime.watchdog import Watchdog

HANG_MS: Final = 60_000
"""An event loop that is blocked this long is considered hung."""
NO_DESCRIPTOR: Final = -1
logger = logging.getLogger(__name__)


class ProcessLife:
    """Of one process; `begin` and `end` are called on its event loop. `on_stop` begins the stop in order, once."""

    def __init__(
        self,
        clock: Clock,
        *,
        on_stop: Callable[[], None],
        on_reload: Callable[[], None],
        doing: Callable[[], str],
        hang_ms: int = HANG_MS,
    ) -> None:
        """`doing` returns what the process is doing, but for its stop."""
        self.exit_code = 0
        self.is_stopping = False
        self._on_stop = on_stop
        self._doing = doing
        self._signals = StopSignals(
            clock,
            on_stop=self._on_stop_signal,
            on_reload=on_reload,
            on_second=_end_at_once,
            is_stopping=lambda: self.is_stopping,
        )
        self._watchdog = Watchdog(hang_ms=hang_ms, on_hang=end_hung_process)
        self._manager = notify_socket(os.environ)
        self._notices: ServiceNotices | None = None

    @property
    def times(self) -> LoopTimes:
        """How late the event loop was."""
        return self._watchdog.times

    def begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._signals.watch(loop)
        self._watchdog.start()
        if self._manager is not None:
            self._notices = ServiceNotices(self._manager.send, self._phase, loop.call_later, watchdog_s(os.environ))
            self._notices.start()

    def ready(self) -> None:
        """Tell the service manager that clients are served."""
        if self._notices is not None:
            self._notices.ready()

    def fail(self, reason: str) -> None:
        """Stop, since the process cannot continue."""
        if self.exit_code:
            return  # a consequence of the first failure
        logger.critical("process stops, it cannot continue: reason=%s", reason)
        self.exit_code = EXIT_FAILED
        self.stop()

    def stop(self) -> None:
        """Begin the stop."""
        if self.is_stopping:
            return
        self.is_stopping = True
        if self._notices is not None:
            self._notices.stopping()
        self._on_stop()

    def end(self) -> None:
        """Close everything, at the end of the process."""
        self._watchdog.close()
        if self._notices is not None:
            self._notices.close()
        if self._manager is not None:
            self._manager.close()

    def _on_stop_signal(self, number: signal.Signals) -> None:
        logger.info("process stops: signal=%s", number.name)
        self.stop()

    def _phase(self) -> str:
        return "stopping" if self.is_stopping else self._doing()


def tell(ready_fd: int, facts: Mapping[str, Any]) -> None:
    """Write a line of JSON to a descriptor, and close it: whoever has started the process reads that it serves, and where.
    Raises OSError."""
    with os.fdopen(ready_fd, "w", encoding="utf-8") as ready:
        ready.write(json.dumps(facts) + "\n")


def end_hung_process(blocked_ms: int) -> NoReturn:
    """End the process. Called in the watchdog's thread, because the event loop is blocked."""
    logger.critical("event loop hangs, the process ends: duration_ms=%d", blocked_ms)
    os._exit(EXIT_FAILED)


def _end_at_once(number: signal.Signals) -> NoReturn:
    logger.warning("process stops without finishing its work: signal=%s", number.name)
    os._exit(128 + number)
