"""A deterministic event loop: asyncio on virtual time, without sockets and threads.

Rules: when nothing is ready time moves on to the next timer, so a simulated hour takes as long as the work in it. Ready
callbacks run first in, first out, as asyncio promises; randomness enters at the doors (network, disk, clock), all from
the one `loop.random`. Waiting for nothing is a deadlock and raises, and so does a moment that does not end. Exceptions
that nobody handles fail the run. When the program is over, all that is left of its processes is killed.
Invariant: same seed, same program, same `trace.digest()`; run with PYTHONHASHSEED=0.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import random
import selectors
from asyncio import Handle, TimerHandle
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, NoReturn, TypeVar

from tests.simulation.process import PROCESS, Killed, Process

T = TypeVar("T")

NANOSECONDS = 1_000_000_000
CANCELLED_TIMERS_MIN = 100  # below it is not worth the while to look for them


class Deadlock(RuntimeError):
    """Every task waits and no timer is set."""


class Livelock(RuntimeError):
    """Things happen on and on, and time stands still."""


class ThreadsForbidden(RuntimeError):
    """Something of the simulated program wanted a thread."""


class Trace:
    """What happened, as a running digest; the last lines are kept for the report of a failure."""

    KEPT_LINES = 2000

    def __init__(self) -> None:
        self._hash = hashlib.sha256()  # of the lines that are not kept any more
        self.lines: list[str] = []

    def add(self, now_ns: int, what: str) -> None:
        self.lines.append(f"{now_ns} {what}")
        if len(self.lines) > 2 * self.KEPT_LINES:
            self._hash.update(_text(self.lines[: self.KEPT_LINES]))
            del self.lines[: self.KEPT_LINES]

    def digest(self) -> str:
        whole = self._hash.copy()
        whole.update(_text(self.lines))
        return whole.hexdigest()


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


class _NoSelector(selectors.BaseSelector):
    """There is nothing to select from."""

    def register(self, _file: Any, _events: int, _data: Any = None) -> selectors.SelectorKey:
        raise RuntimeError("a simulated program opens no sockets")

    def unregister(self, _file: Any) -> selectors.SelectorKey:
        raise RuntimeError("a simulated program opens no sockets")

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        raise RuntimeError(f"a simulated program waits for timers only, not {timeout}")


class _Timer(TimerHandle):
    """Compared some hundred thousand times in a history, and with its like alone."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return self._when < other._when  # type: ignore[attr-defined,no-any-return]


class SimLoop(asyncio.SelectorEventLoop):
    """`call_soon`, `call_at` and `_run_once` are asyncio's, without what a loop that cannot be reached from outside does
    not need: they run for every callback."""

    TURNS_MAX = 200_000  # at one moment

    def __init__(self, seed: int) -> None:
        self.now_ns = 0
        self._turns = 0
        self.seed = seed
        self.random = random.Random(seed)
        self.trace = Trace()
        self.failures: list[dict[str, Any]] = []
        self.processes: list[Process] = []  # that live
        super().__init__(_NoSelector())
        self.set_exception_handler(lambda _, context: self._on_failure(context))
        self.set_task_factory(_make_task)

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]
        if context is None:
            context = copy_context()
        process = context.get(PROCESS)
        handle = Handle(callback, args, self, context)
        if process is None or (process.is_alive and not process.is_paused):
            self._ready.append(handle)  # type: ignore[attr-defined]
        else:
            _keep_back(handle, process)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        if context is None:
            context = copy_context()
        process = context.get(PROCESS)
        timer = _Timer(when, callback, args, self, context)
        if process is None or (process.is_alive and not process.is_paused):
            heapq.heappush(self._scheduled, timer)  # type: ignore[has-type]
            timer._scheduled = True  # type: ignore[attr-defined]
        else:
            _keep_back(timer, process)
        return timer

    def _run_once(self) -> None:
        """One turn: all that is ready now. When nothing is, time moves on to the next timer first."""
        self._drop_cancelled()
        ready, timers = self._ready, self._scheduled  # type: ignore[has-type]
        wait_s = 0.0
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise Deadlock("every task waits and no timer is set")
            wait_s = timers[0]._when - self.time()
        if wait_s > 0:
            self._turns = 0
            self.now_ns += max(round(wait_s * NANOSECONDS), 1)  # else who sleeps for less never gets on
        else:
            self._count_turn()
        until_s = self.time() + self._clock_resolution  # type: ignore[attr-defined]
        while timers and timers[0]._when < until_s:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _drop_cancelled(self) -> None:
        """From the head; everywhere, once they are the greater part."""
        timers = self._scheduled  # type: ignore[has-type]
        if len(timers) > CANCELLED_TIMERS_MIN and self._timer_cancelled_count > len(timers) / 2:  # type: ignore[has-type]
            for timer in timers:
                timer._scheduled = not timer._cancelled
            timers[:] = [timer for timer in timers if timer._scheduled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)._scheduled = False

    def _count_turn(self) -> None:
        self._turns += 1
        if self._turns > self.TURNS_MAX:
            self._turns = 0  # what is left may end in peace
            raise Livelock(f"{self.TURNS_MAX} turns of the loop at one moment")

    # --- processes ---

    def end_processes(self) -> None:
        """One that stands still would never end otherwise."""
        while self.processes:
            process = self.processes[-1]
            process.kill()
            process.bury()

    def drop_callbacks(self, process: Process) -> None:
        """Cancel everything that `process` has scheduled."""
        for handle in [*self._ready, *self._scheduled, *process.held]:  # type: ignore[attr-defined]
            if _is_of(handle, process):
                handle.cancel()

    def hold_callbacks(self, process: Process) -> None:
        """Take away what `process` has scheduled."""
        ready, scheduled = self._ready, self._scheduled  # type: ignore[has-type]
        for at, handle in enumerate(ready):
            if _is_of(handle, process):
                process.held.append(handle)
                # The loop has counted what is ready: the place must not go.
                ready[at] = Handle(_nothing, (), self)
        for handle in scheduled:
            if _is_of(handle, process) and not handle.cancelled():
                handle._scheduled = False
                process.held.append(handle)
        scheduled[:] = [handle for handle in scheduled if handle._scheduled]
        heapq.heapify(scheduled)

    def release_callbacks(self, process: Process) -> None:
        """Give it back: what was ready in its order, then overdue timers in theirs."""
        held, process.held = process.held, []
        due: list[TimerHandle] = []
        for handle in held:
            if handle.cancelled():
                continue
            if not isinstance(handle, TimerHandle):
                self._ready.append(handle)  # type: ignore[attr-defined]
            elif handle.when() <= self.time():
                due.append(handle)
            else:
                handle._scheduled = True  # type: ignore[attr-defined]
                heapq.heappush(self._scheduled, handle)  # type: ignore[attr-defined]
        self._ready.extend(sorted(due, key=TimerHandle.when))  # type: ignore[attr-defined]

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


def _is_of(handle: Handle, process: Process) -> bool:
    return handle._context is not None and handle._context.get(PROCESS) is process  # type: ignore[attr-defined]


def _nothing() -> None:
    """Stands in for a callback that was taken away."""


def _keep_back(handle: Handle, process: Process) -> None:
    """Until the process runs again; a dead one never does."""
    if process.is_alive:
        process.held.append(handle)
    else:
        handle.cancel()


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

    async def whole() -> T:
        try:
            return await program(loop)
        finally:
            loop.end_processes()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(whole())
    if loop.failures:
        first = loop.failures[0]
        raise SimulationFailed(f"{len(loop.failures)} unhandled: {first.get('message')}") from first.get("exception")
    return result
