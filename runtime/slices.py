"""Long work on the event loop: cut into slices so that others run in between, and one piece of it at a time.

`Slices` gives the loop back whenever its owner has had it for 5 ms. Work whose results pile up until it is through (an
answer of a hundred thousand rows) also stands in the line of `SerialQueue`: without it, many large requests that take turns
would be in memory together.

Rules: what goes on in the line takes the loop's time and nothing else: whoever waits there for a log, a timer or a client
makes all others wait with him. Short work does not stand in line.
Invariants: one piece has the line at a time; it goes to those who wait in their order, and a piece that is cancelled
passes it on.
Where computing takes no time, as in a simulation, nobody is interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from runtime.clock import Clock

T = TypeVar("T")

# So long may one piece of work keep the loop from others.
SLICE_MS = 5
# Up to so many rows, of a few microseconds each, are done in about one slice.
SHORT_ROWS = 1_000


class Slices:
    """One owner's time on the loop, by a clock or by what tells its monotonic time. It begins when this is made."""

    __slots__ = ("_now_ms", "_since_ms")

    def __init__(self, clock: Clock | Callable[[], int]) -> None:
        self._now_ms = clock if callable(clock) else clock.monotonic_ms
        self._since_ms = self._now_ms()

    @property
    def is_over(self) -> bool:
        """Whether the owner should `breathe`."""
        return self._now_ms() - self._since_ms >= SLICE_MS

    async def yield_if_due(self) -> None:
        """Let others run if the slice is over."""
        if self.is_over:
            await asyncio.sleep(0)
            self._since_ms = self._now_ms()

    def over(self, items: Iterable[T]) -> Sliced[T]:
        """The items one by one, with a breath between two of them where it is due. They must not change meanwhile."""
        return Sliced(self, items)


class Sliced(Generic[T]):
    """See `Slices.over`. No async generator, which would need to be closed when its loop is left early."""

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
    """A place in the line, and what happens when its turn has come: `prepare` and then, in a slice of its own, `begin`."""

    __slots__ = ("begin", "prepare")

    def __init__(self, prepare: Callable[[], None], begin: Callable[[], None]) -> None:
        self.prepare = prepare
        self.begin = begin


class SerialQueue:
    """The line. One for each event loop, whose `call_soon` it takes."""

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._line: dict[SerialTicket, None] = {}
        self._turn: SerialTicket | None = None
        self._is_held = False
        self._is_beginning = False
        self._is_called = False

    @property
    def is_busy(self) -> bool:
        """Whether new work has to wait."""
        return self._is_held or (bool(self._line) and not self._is_beginning)

    @asynccontextmanager
    async def begin(self, rows: int | None = None) -> AsyncIterator[Slices]:
        """Slices for work on so many rows; None: nobody knows. Waits for its turn unless it is short."""
        if rows is not None and rows <= SHORT_ROWS:
            yield Slices(self._clock)
            return
        await self._hold()
        try:
            yield Slices(self._clock)
        finally:
            self._let_go()

    def when_free(self, prepare: Callable[[], None], begin: Callable[[], None]) -> SerialTicket:
        """Call both when the turn has come. What `begin` starts before it returns may hold the line at once."""
        place = SerialTicket(prepare, begin)
        self._line[place] = None
        self._call_next()
        return place

    def cancel(self, place: SerialTicket) -> None:
        """Nothing of it is called any more."""
        self._line.pop(place, None)
        if self._turn is place:
            self._turn = None

    async def _hold(self) -> None:
        if not self.is_busy:
            self._is_held = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not turn.done():  # else who waited was cancelled, and is about to hear of it
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
