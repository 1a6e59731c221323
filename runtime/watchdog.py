"""The watchdog: reports when the event loop stalls, and acts when it hangs.

Rules: a beat on the loop measures its own lateness and reports stalls afterwards, at most one line a minute
(`runtime/stall_reports.py`); a thread watches the beat, so that it detects a loop that never returns: it logs the loop's stack,
and after `hang_ms` calls `on_hang` from its own thread (a broker must not outlive its session, so `on_hang` usually calls
`os._exit`).
Invariant: a suspended process is not a hang: the thread counts only time in which it ran on schedule itself.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

from runtime.loop_times import LoopTimes
from runtime.stall_reports import StallReport, StallReports

logger = logging.getLogger(__name__)

BEAT_S = 0.1
STALL_MS = 100
WATCH_S = 1.0


class Watchdog:
    """Watches the loop on which it is started; `close` stops beat and thread."""

    def __init__(
        self,
        *,
        hang_ms: int,
        on_hang: Callable[[int], None],
        stall_ms: int = STALL_MS,
        beat_s: float = BEAT_S,
        watch_s: float = WATCH_S,
    ) -> None:
        self._hang_ms = hang_ms
        self._on_hang = on_hang
        self._stall_ms = stall_ms
        self._beat_s = beat_s
        self._watch_s = watch_s
        self._beats = 0
        self._beaten_ns = 0
        self._handle: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread_id = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.times = LoopTimes()
        self._stalls = StallReports()

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread_id = threading.get_ident()
        self._beaten_ns = time.perf_counter_ns()
        self.times.begin(self._beaten_ns, time.thread_time_ns())
        self._handle = self._loop.call_later(self._beat_s, self._beat)
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        _log_stalls(self._stalls.rest())
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _beat(self) -> None:
        assert self._loop is not None
        now_ns = time.perf_counter_ns()
        late_ns = now_ns - self._beaten_ns - round(self._beat_s * 1_000_000_000)
        late_ms = late_ns // 1_000_000
        self.times.beat(late_ns, now_ns, time.thread_time_ns())
        self._beaten_ns = now_ns
        self._beats += 1
        self._handle = self._loop.call_later(self._beat_s, self._beat)
        if late_ms > self._stall_ms:
            self._stalls.add(late_ms)
        _log_stalls(self._stalls.due(now_ns // 1_000_000))

    def _watch(self) -> None:
        """The thread's function."""
        seen_beats, hung_s, is_reported = self._beats, 0.0, False
        while not self._stop.wait(self._watch_s):
            if self._beats != seen_beats:
                seen_beats, hung_s, is_reported = self._beats, 0.0, False
                continue
            hung_s += self._watch_s
            if not is_reported:
                is_reported = True
                logger.error("event loop blocked: duration_ms=%d stack=\n%s", hung_s * 1000, self._loop_stack())
            if hung_s * 1000 >= self._hang_ms:
                self._on_hang(round(hung_s * 1000))
                return

    def _loop_stack(self) -> str:
        frame = sys._current_frames().get(self._loop_thread_id)  # noqa: SLF001 - the documented way to inspect a thread
        return "".join(traceback.format_stack(frame)) if frame is not None else "(the loop's thread has ended)\n"


def _log_stalls(report: StallReport | None) -> None:
    if report is not None:
        level = logging.WARNING if report.is_warning else logging.INFO
        logger.log(level, "event loop stalled: stalls=%d longest_ms=%d", report.count, report.longest_ms)
