"""The clock interface: the only source of time.

Rules: nothing outside `runtime/` reads `time`; pure code takes `now_ms` as an argument.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """`monotonic_ms` and `monotonic_ns` never go back and measure durations; `wall_ms` is Unix time and may jump."""

    def monotonic_ms(self) -> int: ...

    def monotonic_ns(self) -> int: ...

    def wall_ms(self) -> int: ...


class SystemClock:
    """The operating system's clocks."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)  # the function itself: it is read twice for each request

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
