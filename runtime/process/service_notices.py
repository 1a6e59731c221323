"""Notices to the service manager that started this process, as systemd's `Type=notify` wants them.

    READY=1 when clients are served, STOPPING=1, STATUS=what it is doing, WATCHDOG=1 while the event loop runs

Rules: the datagrams go out through `send`; everything runs on the event loop, so that a loop that hangs sends no WATCHDOG=1.
What could not be sent is sent with the next beat. While the process starts, each beat asks for more time: reading logs after a
crash takes as long as there are logs, and a start that hangs is found by the watchdog of the loop.
Source: sd_notify(3), systemd.service(5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from runtime.error_texts import reason_of
from runtime.timer import CallLater, Cancellable

logger = logging.getLogger(__name__)

BEAT_S = 1.0
# Longer than a loop may be blocked before the process ends.
START_EXTENSION_US = 90_000_000


class ServiceNotices:
    """`start`, then `ready` and `stopping` when it is so, `close` at the end. `doing` returns what the process is doing."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        doing: Callable[[], str],
        call_later: CallLater,
        watchdog_s: float | None = None,
    ) -> None:
        """`send` may raise OSError, `call_later` is the event loop's. `watchdog_s` is the time without WATCHDOG=1 after which
        the manager ends the process; None if it does not watch."""
        self._send = send
        self._call_later = call_later
        self._doing = doing
        self._watches = watchdog_s is not None
        self._beat_s = BEAT_S if watchdog_s is None else min(BEAT_S, watchdog_s / 2)
        self._unsent: dict[str, str] = {}
        self._status = ""
        self._is_starting = True
        self._has_failed = False
        self._handle: Cancellable | None = None

    def start(self) -> None:
        self._beat()

    def ready(self) -> None:
        """Say that clients are served."""
        self._is_starting = False
        self._unsent["READY"] = "1"
        self._notify()

    def stopping(self) -> None:
        """Say that the stop has begun, in order or after a failure."""
        self._is_starting = False
        self._unsent["STOPPING"] = "1"
        self._notify()

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _beat(self) -> None:
        self._handle = self._call_later(self._beat_s, self._beat)
        if self._watches:
            self._unsent["WATCHDOG"] = "1"
        if self._is_starting:
            self._unsent["EXTEND_TIMEOUT_USEC"] = str(START_EXTENSION_US)
        self._notify()

    def _notify(self) -> None:
        status = self._doing()
        if status != self._status:
            self._status = self._unsent["STATUS"] = status
        if not self._unsent:
            return
        try:
            self._send("\n".join(f"{name}={value}" for name, value in self._unsent.items()).encode())
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                logger.warning("service manager not told, it is tried again: error=%s", reason_of(error))
            return
        self._has_failed = False
        self._unsent.clear()
