"""Divides long work on the event loop into slices so that other work runs in between, and runs one large piece at a time.

`Slices` yields to the loop whenever its owner has run for 5 ms. Work that accumulates results until its end (a response of a
hundred thousand rows) also waits in a `SerialQueue`: otherwise many large requests that run interleaved would be in memory
together.

Rules: work in the queue only uses the loop's time: if it waited for a log, a timer or a client, all other work in the queue
would wait, too. Short work does not queue.
Invariants: one piece of work runs at a time, in the order of arrival; a cancelled piece starts the next one. Where computing
takes no time, as in a simulation, no work is interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from runtime.clock import Clock

T = TypeVar("T")

# The maximum time of a slice.
SLICE_MS = 5
# The number of rows, of a few microseconds each, that take about one slice.
SHORT_ROWS = 1_000


class Slices:
    """The slices of one piece of work, measured by a clock or a function that returns monotonic time. The first begins at
    creation."""

    __slots__ = ("_now_ms", "_since_ms")

    def __init__(self, clock: Clock | Callable[[], int]) -> None:
        self._now_ms = clock if callable(clock) else clock.monotonic_ms
        self._since_ms = self._now_ms()

    @property
    def is_over(self) -> bool:
        """Whether the owner should call `yield_if_due`."""
        return self._now_ms() - self._since_ms >= SLICE_MS

    async def yield_if_due(self) -> None:
        """Let other work run if the slice is over."""
        if self.is_over:
            await asyncio.sleep(0)
            self._since_ms = self._now_ms()

    def over(self, items: Iterable[T]) -> Sliced[T]:
        """Iterate over the items, and yield to the loop between two of them when due. They must not change meanwhile."""
        return Sliced(self, items)


class Sliced(Generic[T]):
    """The iterator of `Slices.over`. It is not an async generator, which would need to be closed when its loop ends early."""

    __slots__ = ("_items", "_slices")

    def __init__(self, slices: Slices, items: Iterable[T]) -> None:
        self._slices = slices
        self._items = iter(items)

    def __aiter__(self) -> Sliced[T]:
        return self

    async def __anext__(self) -> T:
        if self._slices.is_over:
            await self._slices.yield_if_due()
        for item in self._items:
            return item
        raise StopAsyncIteration


class SerialTicket:
    """An entry in the queue, and the calls for its turn: `prepare` and then, in a slice of its own, `begin`."""

    __slots__ = ("begin", "prepare")

    def __init__(self, prepare: Callable[[], None], begin: Callable[[], None]) -> None:
        self.prepare = prepare
        self.begin = begin


class SerialQueue:
    """The queue. One for each event loop, whose `call_soon` it uses."""

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._line: dict[SerialTicket, None] = {}
        self._turn: SerialTicket | None = None
        self._is_held = False
        self._is_beginning = False
        self._is_called = False

    def __len__(self) -> int:
        """Return how many entries wait."""
        return len(self._line)

    @property
    def is_busy(self) -> bool:
        """Whether new work has to wait."""
        return self._is_held or (bool(self._line) and not self._is_beginning)

    @asynccontextmanager
    async def begin(self, rows: int | None = None) -> AsyncIterator[Slices]:
        """Return slices for work on this number of rows; None: unknown. Waits for its turn unless the work is short."""
        if rows is not None and rows <= SHORT_ROWS:
            yield Slices(self._clock)
            return
        await self._hold()
        try:
            yield Slices(self._clock)
        finally:
            self._let_go()

    def when_free(self, prepare: Callable[[], None], begin: Callable[[], None]) -> SerialTicket:
        """Call both when the entry's turn has come. `begin` may start work that keeps the queue."""
        place = SerialTicket(prepare, begin)
        self._line[place] = None
        self._call_next()
        return place

    def cancel(self, place: SerialTicket) -> None:
        """Cancel an entry: nothing of it is called any more."""
        self._line.pop(place, None)
        if self._turn is place:
            self._turn = None

    async def _hold(self) -> None:
        if not self.is_busy:
            self._is_held = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not turn.done():  # otherwise the waiting task was cancelled
                self._is_held = True
                turn.set_result(None)

        place = self.when_free(lambda: None, begin)
        try:
            await turn
        except asyncio.CancelledError:
            self.cancel(place)
            if turn.done() and not turn.cancelled():
                self._let_go()
            raise

    def _let_go(self) -> None:
        self._is_held = False
        self._call_next()

    def _call_next(self) -> None:
        if self._line and not self._is_held and not self._is_called:
            self._is_called = True
            self._call_soon(self._prepare_next)

    def _prepare_next(self) -> None:
        self._is_called = False
        if self._is_held or not self._line:
            return
        self._turn = place = next(iter(self._line))
        del self._line[place]
        self._is_held = True
        self._call_soon(self._begin_next)
        place.prepare()

    def _begin_next(self) -> None:
        place, self._turn = self._turn, None
        self._is_held = False
        self._is_beginning = True
        try:
            if place is not None:
                place.begin()
        finally:
            self._is_beginning = False
            self._call_next()
