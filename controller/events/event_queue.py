"""The controller's event queue: events are executed one at a time, in the order of arrival.

Rules: an event with a name reports a change, and is queued only once until it is popped. An event without a name is a call or
a response, and each is queued; a caller may wait for it, so that it is run even if it has no effect.
Invariant: `_named` are the names of the events in `_events` that have one.
Source: Kafka ControllerEventManager.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controller.events.event_times import ControllerState


@dataclass(frozen=True, slots=True)
class Event:
    """Work of the kind `state`; events with the same `state` and `name` are queued once."""

    state: ControllerState
    name: str | None
    run: Callable[[], Awaitable[None]]
    queued_ms: int


class EventQueue:
    """The queue. `stamp` returns the time of an event's arrival."""

    def __init__(self, stamp: Callable[[], int]) -> None:
        self._stamp = stamp
        self._events: deque[Event] = deque()
        self._named: set[tuple[ControllerState, str]] = set()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, state: ControllerState, name: str | None, run: Callable[[], Awaitable[None]]) -> None:
        if name is not None:
            if (state, name) in self._named:
                return
            self._named.add((state, name))
        self._events.append(Event(state, name, run, self._stamp()))
        self._wake.set()

    async def wait(self) -> None:
        """Wait until an event is put, or `wake` is called."""
        self._wake.clear()
        await self._wake.wait()

    def wake(self) -> None:
        self._wake.set()

    def pop(self) -> Event | None:
        if not self._events:
            return None
        event = self._events.popleft()
        if event.name is not None:
            self._named.discard((event.state, event.name))
        return event

    def take_calls(self) -> list[Event]:
        """Remove and return the events without a name."""
        calls = [event for event in self._events if event.name is None]
        self._events = deque(event for event in self._events if event.name is not None)
        return calls

    def clear(self) -> None:
        self._events.clear()
        self._named.clear()
