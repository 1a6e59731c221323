"""What belongs to one simulated process, so that a crash can take it away in one instant.

Every callback and task carries a context (PEP 567), and whatever it starts inherits it. `Process.entered` puts the
process into the current context; from there on its tasks, timers and callbacks bear its mark. A killed process runs
nothing any more: what is scheduled is cancelled, what would be scheduled is dropped, and no `finally` of it has effects.
A paused one (SIGSTOP) runs nothing until it is resumed: then first what was ready, and the timers that are overdue.

Rules: whoever calls into another process (the network, the disk) enters that process first; None is the outside world:
clients, faults, checkers.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import Handle
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.loop import SimLoop

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)

_PRUNE_AT = 512


class Killed(BaseException):
    """Unwinds the code of a process that was killed in the middle of a system call."""


class Process:
    """Life cycle: made running, then `kill` (a crash) or `leave` (an exit), both once."""

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.held: list[Handle] = []  # while it is paused
        self._loop = loop
        self._tasks: list[asyncio.Task[Any]] = []
        self._prune_at = _PRUNE_AT
        loop.processes.append(self)

    def entered(self) -> Entered:
        return Entered(self)

    def own(self, task: asyncio.Task[Any]) -> None:
        if not self.is_alive:
            _close(task)
            return
        self._tasks.append(task)
        if len(self._tasks) >= self._prune_at:
            self._tasks = [one for one in self._tasks if not one.done()]
            self._prune_at = max(_PRUNE_AT, 2 * len(self._tasks))

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        with self.entered():
            return self._loop.create_task(coroutine, name=f"{self.name}: {name}")

    def unfinished(self) -> list[str]:
        """Names of its tasks that still run."""
        return sorted(task.get_name() for task in self._tasks if not task.done())

    def kill(self) -> None:
        """Nothing of it runs again. May be called from within."""
        if self.is_alive:
            self.is_alive = False
            self._loop.processes.remove(self)
            self._loop.drop_callbacks(self)

    def pause(self) -> None:
        """Nothing of it runs until `resume`. Not called from within."""
        if not self.is_paused:
            self.is_paused = True
            self._loop.hold_callbacks(self)

    def resume(self) -> None:
        if self.is_paused:
            self.is_paused = False
            self._loop.release_callbacks(self)

    def bury(self) -> None:
        """Close what its tasks left behind; without effects, for the process is dead. Not called from within."""
        assert not self.is_alive
        with self.entered():
            while self._tasks:  # closing one may make another
                task = self._tasks.pop()
                if not task.done():
                    _close(task)


def _close(task: asyncio.Task[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    asyncio.tasks._unregister_task(task)
    with contextlib.suppress(BaseException):
        task.get_coro().close()


class Entered:
    """Within it the current context is the process's. A class, since it is entered for every byte that arrives."""

    __slots__ = ("_process", "_token")

    def __init__(self, process: Process | None) -> None:
        self._process = process

    def __enter__(self) -> None:
        self._token = PROCESS.set(self._process)

    def __exit__(self, *_: object) -> None:
        PROCESS.reset(self._token)


def entered(process: Process | None) -> Entered:
    return Entered(process)
