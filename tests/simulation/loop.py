"""A deterministic event loop: asyncio on virtual time, without sockets and threads.

Rules: asking the selector to wait is what advances time, so a simulated hour takes as long as the work in it. Ready
callbacks run first in, first out, as asyncio promises; randomness enters at the doors (network, disk, clock), all from
the one `loop.random`. Waiting for nothing is a deadlock and raises. Exceptions that nobody handles fail the run.
Invariant: same seed, same program, same `trace.digest()`; run with PYTHONHASHSEED=0.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import selectors
from asyncio import Handle, TimerHandle
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, NoReturn, TypeVar

from tests.simulation.process import PROCESS, Killed, Process

T = TypeVar("T")

NANOSECONDS = 1_000_000_000


class Deadlock(RuntimeError):
    """Every task waits and no timer is set."""


class ThreadsForbidden(RuntimeError):
    """Something of the simulated program wanted a thread."""


class Trace:
    """What happened, as a running digest; the last lines are kept for the report of a failure."""

    KEPT_LINES = 2000

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.lines: list[str] = []

    def add(self, now_ns: int, what: str) -> None:
        line = f"{now_ns} {what}"
        self._hash.update(line.encode() + b"\n")
        self.lines.append(line)
        if len(self.lines) > 2 * self.KEPT_LINES:
            del self.lines[: self.KEPT_LINES]

    def digest(self) -> str:
        return self._hash.hexdigest()


class _VirtualSelector(selectors.BaseSelector):
    def __init__(self, advance: Callable[[float], None]) -> None:
        self._advance = advance

    def register(self, _file: Any, _events: int, _data: Any = None) -> selectors.SelectorKey:
        raise RuntimeError("a simulated program opens no sockets")

    def unregister(self, _file: Any) -> selectors.SelectorKey:
        raise RuntimeError("a simulated program opens no sockets")

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("every task waits and no timer is set")
        self._advance(timeout)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    def __init__(self, seed: int) -> None:
        self.now_ns = 0
        self.random = random.Random(seed)
        self.trace = Trace()
        self.failures: list[dict[str, Any]] = []
        super().__init__(_VirtualSelector(self._advance))
        self.set_exception_handler(lambda _, context: self._on_failure(context))
        self.set_task_factory(_make_task)

    # --- processes ---

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]
        context = copy_context() if context is None else context
        handle = super().call_soon(callback, *args, context=context)
        return _unless_dead(handle, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        context = copy_context() if context is None else context
        handle = super().call_at(when, callback, *args, context=context)
        return _unless_dead(handle, context)

    def drop_callbacks(self, process: Process) -> None:
        """Cancel everything that `process` has scheduled."""
        for handle in [*self._ready, *self._scheduled]:  # type: ignore[attr-defined]
            if handle._context is not None and handle._context.get(PROCESS) is process:
                handle.cancel()

    def outside(self, callback: Callable[[], object]) -> None:
        """Run `callback` soon, on behalf of no process."""
        self.call_soon(callback, context=Context())

    def _on_failure(self, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), Killed):
            self.failures.append(context)

    # --- time ---

    def time(self) -> float:
        return self.now_ns / NANOSECONDS

    def note(self, what: str) -> None:
        """Put a line in the trace."""
        self.trace.add(self.now_ns, what)

    def _advance(self, seconds: float) -> None:
        self.now_ns += max(round(seconds * NANOSECONDS), 0)

    def _make_self_pipe(self) -> None:
        """A real loop is woken by threads through a pipe; there are none."""

    def _close_self_pipe(self) -> None:
        """See `_make_self_pipe`."""

    def _write_to_self(self) -> NoReturn:
        raise ThreadsForbidden("call_soon_threadsafe in a simulation")

    def _asyncgen_finalizer_hook(self, generator: Any) -> None:
        """Generators that a dead process was in the middle of go without a word."""
        self._asyncgens.discard(generator)  # type: ignore[attr-defined]

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]
        raise ThreadsForbidden("run_in_executor in a simulation")


H = TypeVar("H", bound=Handle)


def _unless_dead(handle: H, context: Context) -> H:
    process = context.get(PROCESS)
    if process is not None and not process.is_alive:
        handle.cancel()
    return handle


def _make_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    process = (options.get("context") or copy_context()).get(PROCESS)
    if process is not None:
        process.own(task)
    return task


class SimulationFailed(AssertionError):
    """Exceptions came to the loop that nobody handled."""


def simulate(seed: int, program: Callable[[SimLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `program(loop)` to its end on a loop of its own."""
    loop = SimLoop(seed)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(program(loop))
    if loop.failures:
        first = loop.failures[0]
        raise SimulationFailed(f"{len(loop.failures)} unhandled: {first.get('message')}") from first.get("exception")
    return result
