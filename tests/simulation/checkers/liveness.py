"""Nothing hangs for ever: while no fault is under way requests are answered, long polls wake and everybody gets through.

`calm_since_s` is when the last fault ended; requests that began some seconds after it have no excuse.
"""

from __future__ import annotations

from collections.abc import Callable

SETTLE_S = 5.0  # after a fault: time to reconnect and to work off what piled up
WAKE_UP_S = 1.0  # between an acknowledgement and the answer of a fetch that waits for it


class LivenessChecker:
    def __init__(self, report: Callable[[str], None], now_s: Callable[[], float]) -> None:
        self._report = report
        self._now_s = now_s
        self._faults_count = 0
        self._calm_since_s = 0.0

    def fault_begins(self) -> None:
        self._faults_count += 1

    def fault_ends(self) -> None:
        self._faults_count -= 1
        self._calm_since_s = self._now_s()

    def is_calm(self, since_s: float) -> bool:
        """Whether there has been no fault since, nor shortly before."""
        return self._faults_count == 0 and since_s >= self._calm_since_s + SETTLE_S

    def timed_out(self, who: str, what: str, since_s: float) -> None:
        if self.is_calm(since_s):
            self._report(f"{who}: {what} sent at {since_s:.3f} s was not answered")

    def refused(self, who: str, what: str, since_s: float) -> None:
        """The connection could not be made, or broke."""
        if self.is_calm(since_s):
            self._report(f"{who}: {what} at {since_s:.3f} s failed without a reason")

    def woken(self, who: str, acknowledged_s: float) -> None:
        """A long poll was answered with a record that was acknowledged while it waited."""
        late_s = self._now_s() - acknowledged_s
        if late_s > WAKE_UP_S and self.is_calm(acknowledged_s):
            self._report(f"{who}: a long poll woke {late_s:.3f} s after the record was acknowledged")
