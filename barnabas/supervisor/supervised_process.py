"""One process of the command over its restarts: what it runs, what it has told, and whether it lives.

Rules: owned by the supervisor, which forks, reaps and decides; everything is on its event loop. A restart runs the same
function again: settings, ports and folders stay.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from barnabas.supervisor.child import ForkedChild, Inherited
from barnabas.supervisor.merged_log import Lines, LogOutput
from barnabas.supervisor.restarts import RestartPauses

_READ_BYTES = 256 * 1024


class SupervisedProcess:
    """A broker, the store server, or a process beside them. `run` is what its process does."""

    def __init__(
        self,
        name: str,
        run: Callable[[Inherited], int],
        lines: Lines,
        log: LogOutput,
        *,
        broker_id: int | None = None,
        stop_ahead_s: float = 0,
    ) -> None:
        self.name = name
        self.run = run
        self.broker_id = broker_id
        """None for the store and the processes beside the brokers."""
        self.stop_ahead_s = stop_ahead_s
        """For how long the brokers serve on while it stops; 0 for what stops beside them."""
        self.pauses = RestartPauses()
        self.child: ForkedChild | None = None
        self.started_ms = 0
        self.facts: Mapping[str, Any] | None = None
        """What the process has told when it began to serve; None before, and when it has ended."""
        self.has_served = False
        self.restarts = 0
        self.is_stopping = False
        """Whether its end is wanted."""
        self.exit_code = 0
        self.ready = asyncio.Event()
        self.gone = asyncio.Event()
        """No process of it runs."""
        self.paused = asyncio.Event()
        self.gone.set()
        self._lines = lines
        self._log = log

    @property
    def process_id(self) -> int:
        assert self.child is not None, f"{self.name} does not run"
        return self.child.process_id

    def began(self, child: ForkedChild, now_ms: int, loop: asyncio.AbstractEventLoop) -> None:
        """Take the ends of a process that has been forked; the loop stands still."""
        self.child, self.started_ms = child, now_ms
        self.gone.clear()
        loop.add_reader(child.output, self._on_output)
        loop.add_reader(child.ready, self._on_told)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if there is a process."""
        if self.child is not None:
            os.kill(self.child.process_id, number)  # it has not been reaped: the number is still its own

    def ended(self, exit_code: int) -> None:
        """Take in that the process has ended. A negative code is the signal that killed it."""
        child, self.child = self.child, None
        assert child is not None
        self.exit_code = exit_code
        loop = asyncio.get_running_loop()
        if self._is_reading(child):
            self._read_ready(child)
        for descriptor in (child.output, child.ready):
            loop.remove_reader(descriptor)
        self._drain(child.output)
        for line in self._lines.end():
            self._log.add(line)
        os.close(child.output)
        os.close(child.ready)
        if child.owner is not None:
            child.owner.close()
        self.facts = None
        self.ready.clear()
        self.paused.clear()
        self.gone.set()

    def _is_reading(self, child: ForkedChild) -> bool:
        return not child.told.endswith(b"\n")

    def _on_output(self) -> None:
        assert self.child is not None
        output = self._read(self.child.output)
        if output == b"":
            asyncio.get_running_loop().remove_reader(self.child.output)
        for line in self._lines.feed(output or b""):
            self._log.add(line)

    def _drain(self, descriptor: int) -> None:
        while output := self._read(descriptor):
            for line in self._lines.feed(output):
                self._log.add(line)

    def _on_told(self) -> None:
        assert self.child is not None
        if self._read_ready(self.child) or not self._is_reading(self.child):
            asyncio.get_running_loop().remove_reader(self.child.ready)

    def _read_ready(self, child: ForkedChild) -> bool:
        """Read what the process tells; returns whether it has closed its end."""
        told = self._read(child.ready)
        child.told += told or b""
        if child.told.endswith(b"\n"):
            self.facts = json.loads(child.told)
            self.has_served = True
            if self.broker_id is not None:  # a lone broker may have a generated one
                self.broker_id = self.facts["broker_id"]
            self.ready.set()
        return told == b""

    @staticmethod
    def _read(descriptor: int) -> bytes | None:
        """Return what there is, nothing at the end, None if there is nothing yet."""
        with suppress(BlockingIOError):
            return os.read(descriptor, _READ_BYTES)
        return None
