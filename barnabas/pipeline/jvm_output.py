"""What Spark's JVM writes to its standard error: kept back while it starts, passed on from then on.

A JVM that starts well writes dozens of lines: how its packages are resolved, warnings about the machine, advice about logging.
They matter only when it does not start.

Rules: a thread reads a pipe until all its writers have closed it. Lines are passed on as they come.
"""

from __future__ import annotations

import os
import threading

STANDARD_ERROR = 2
_READ_BYTES = 1 << 16
_MARK = b"\0started\0"
"""Divides what was written before the start from what comes after it: the pipe keeps their order."""


class JvmOutput:
    """A pipe. `descriptor` is the JVM's end of it, which this process holds, too, until the JVM has started or failed."""

    def __init__(self, target: int = STANDARD_ERROR) -> None:
        """What is passed on goes to the file descriptor `target`."""
        self._source, self.descriptor = os.pipe()
        self._target = target
        self._kept: bytes | None = b""
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def started(self) -> None:
        """Drop what was written up to now; what comes later is passed on."""
        os.write(self.descriptor, _MARK)
        os.close(self.descriptor)

    def failed(self) -> str:
        """Return what was written by a JVM that has ended."""
        os.close(self.descriptor)
        self._thread.join()
        return (self._kept or b"").decode(errors="replace")

    def _pass_on(self) -> None:
        with open(self._source, "rb", buffering=0) as source:
            while data := source.read(_READ_BYTES):
                if self._kept is not None:
                    self._kept, mark, data = (self._kept + data).partition(_MARK)
                    if not mark:
                        continue
                    self._kept = None
                os.write(self._target, data)


def start_failure(text: str) -> str:
    """Return the one line that says why a JVM did not start: its exception, else its last line. Pure."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith(("Exception in thread", "Error:", "Caused by:"))]
    found = (raised or lines or ["it ended without a message"])[-1]
    return found.removeprefix('Exception in thread "main" ').removeprefix("Caused by: ")
