"""Timers: a hierarchical timing wheel, so that a parked request costs one entry and no timer of the event loop.

Rules: `schedule` and `cancel` take constant time; the whole wheel owns at most one `call_later`, set to the nearest
bucket that is not empty. Callbacks run on the loop, never from inside `schedule`. Resolution is one millisecond: a
callback never runs early by the clock's milliseconds. Callbacks that may be late share a wake-up of the loop.
Invariants: a callback runs at most once, and never after `cancel`. Entries due at different milliseconds run in order, those of
the same millisecond in the order in which they were scheduled.

The wheel holds deadlines, and a deadline all entries of its millisecond: the waits of many idle clients, which may be late,
move through the wheel as one. A level holds 64 buckets of 64^level ms. A deadline goes to the level of the highest six-bit
group in which it differs from the present, so each bucket lies ahead of the present in the same turn of its level, the nearest
bucket is the first one of the lowest level that has any, and a bucket of a higher level is redistributed to lower ones when
its time comes.
Source: Varghese and Lauck 1987; Kafka SystemTimer, TimingWheel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runtime.clock import Clock

LEVEL_BITS = 6
SLOT_MASK = (1 << LEVEL_BITS) - 1
LEVELS = 7  # 2^42 ms of uptime
# 34 years: longer delays (a client may request 2^63 ms) are reduced to it.
MAX_DELAY_MS = 1 << 40
# Callbacks that are due run one after the other for so long, then the loop does what else there is.
TURN_MS = 5
# Values of `_armed_tick` that are not ticks: nothing is scheduled, and callbacks are running.
NEVER_TICK = 1 << 62
RUNNING_TICK = -1


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class CallLater(Protocol):
    """The type of `asyncio.AbstractEventLoop.call_later`."""

    def __call__(self, delay: float, callback: Callable[[], None], /) -> Cancellable: ...


def _nothing() -> None:
    """The callback of an entry that has run or was cancelled."""


class TimerEntry:
    """One scheduled callback."""

    __slots__ = ("_deadline", "callback", "deadline_tick")

    def __init__(self, deadline_tick: int, callback: Callable[[], None], deadline: _Deadline | None) -> None:
        """`deadline`: None when it will never run."""
        self.deadline_tick = deadline_tick
        self.callback = callback
        self._deadline = deadline

    @property
    def is_pending(self) -> bool:
        return self._deadline is not None

    def cancel(self) -> None:
        """Cancel the callback. No effect when it has run or was cancelled.

        The reference to the callback is dropped: its owner usually refers to this entry, and a cycle would keep both, with a
        whole request, until the garbage collector runs.
        """
        self.callback = _nothing
        deadline = self._deadline
        if deadline is not None:
            self._deadline = None
            entries = deadline.entries
            del entries[self]
            if not entries:
                deadline.drop()


class _Deadline:
    """The entries of one millisecond, in the order they were scheduled. It is in the wheel while it has any."""

    __slots__ = ("_wheel", "bucket", "entries", "tick")

    def __init__(self, tick: int, wheel: dict[int, _Deadline]) -> None:
        self.tick = tick
        self._wheel = wheel
        self.bucket: _Bucket | None = None
        self.entries: dict[TimerEntry, None] = {}

    def drop(self) -> None:
        """It has no entries any more."""
        del self._wheel[self.tick]
        if self.bucket is not None:
            self.bucket.remove(self)


class _Bucket:
    """The deadlines of one slot."""

    __slots__ = ("_bit", "_level", "deadlines")

    def __init__(self, level: _Level, slot: int) -> None:
        self._level = level
        self._bit = 1 << slot
        self.deadlines: dict[_Deadline, None] = {}

    def add(self, deadline: _Deadline) -> None:
        self.deadlines[deadline] = None
        self._level.occupied |= self._bit
        deadline.bucket = self

    def remove(self, deadline: _Deadline) -> None:
        del self.deadlines[deadline]
        if not self.deadlines:
            self._level.occupied &= ~self._bit


class _Level:
    """64 buckets; bit n of `occupied` says that bucket n has entries."""

    __slots__ = ("buckets", "occupied")

    def __init__(self) -> None:
        self.occupied = 0
        self.buckets = [_Bucket(self, slot) for slot in range(SLOT_MASK + 1)]


class Timer:
    """The wheel of one event loop. `close` drops everything that is scheduled."""

    def __init__(self, clock: Clock, call_later: CallLater) -> None:
        self._clock = clock
        self._call_later = call_later
        self._started_ms = clock.monotonic_ms()
        self._now_tick = 0  # every earlier tick has been processed
        self._levels = [_Level() for _ in range(LEVELS)]
        self._deadlines: dict[int, _Deadline] = {}  # all that are in the wheel, by tick
        self._armed_tick = NEVER_TICK  # no bucket begins earlier
        self._handle: Cancellable | None = None
        self._is_closed = False

    def now_ms(self) -> int:
        """Return the time on the timer's clock."""
        return self._clock.monotonic_ms()

    def schedule(self, delay_ms: int, callback: Callable[[], None], slack_ms: int = 0) -> TimerEntry:
        """Run `callback` once `delay_ms` have passed; 0 or less means as soon as this turn of the loop is over.

        With `slack_ms` it may run later by that much: deadlines move to multiples of a power of two.
        """
        now_tick = self._clock.monotonic_ms() - self._started_ms
        if self._now_tick < now_tick < self._armed_tick:
            self._now_tick = now_tick  # places are finer the closer the present is
        deadline_tick = max(now_tick + min(delay_ms, MAX_DELAY_MS), self._now_tick + 1)
        if slack_ms:
            mask = (1 << (slack_ms + 1).bit_length() - 1) - 1
            deadline_tick = (deadline_tick + mask) & ~mask
        if self._is_closed:
            return TimerEntry(deadline_tick, callback, None)
        deadline = self._deadlines.get(deadline_tick)
        if deadline is None:
            deadline = self._deadlines[deadline_tick] = _Deadline(deadline_tick, self._deadlines)
            self._place(deadline)
        entry = TimerEntry(deadline_tick, callback, deadline)
        deadline.entries[entry] = None
        if deadline_tick < self._armed_tick:
            self._arm(now_tick)
        return entry

    def close(self) -> None:
        self._is_closed = True
        for deadline in list(self._deadlines.values()):
            for entry in list(deadline.entries):
                entry.cancel()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _place(self, deadline: _Deadline) -> None:
        difference = self._now_tick ^ deadline.tick
        index = (difference.bit_length() - 1) // LEVEL_BITS
        self._levels[index].buckets[deadline.tick >> (index * LEVEL_BITS) & SLOT_MASK].add(deadline)

    def _nearest(self) -> tuple[int, int, _Bucket] | None:
        """Return (first tick, level, bucket) of the first bucket that is not empty."""
        for index, level in enumerate(self._levels):
            occupied = level.occupied
            if occupied:
                slot = (occupied & -occupied).bit_length() - 1
                shift = index * LEVEL_BITS
                turn = self._now_tick >> (shift + LEVEL_BITS) << (shift + LEVEL_BITS)
                return turn + (slot << shift), index, level.buckets[slot]
        return None

    def _arm(self, now_tick: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        nearest = self._nearest()
        if nearest is None:
            self._armed_tick = NEVER_TICK
        else:
            self._armed_tick = nearest[0]
            self._handle = self._call_later(max(nearest[0] - now_tick, 0) / 1000, self._on_time)

    def _on_time(self) -> None:
        self._handle = None
        self._armed_tick = RUNNING_TICK
        until_tick = self._clock.monotonic_ms() - self._started_ms
        try:
            self._advance(until_tick)
        finally:  # a callback that raises delays later ones by one turn of the loop, and loses none
            self._arm(until_tick)

    def _advance(self, until_tick: int) -> None:
        """Run the callbacks that are due up to and including `until_tick`; those that are left after `TURN_MS` run in the next
        turn of the loop."""
        ends_ms = self._started_ms + until_tick + TURN_MS
        while (nearest := self._nearest()) is not None and nearest[0] <= until_tick:
            self._now_tick, level, bucket = nearest
            if level == 0:
                [deadline] = bucket.deadlines  # a bucket of this level is a millisecond
                entries = deadline.entries
                while entries:
                    entry = next(iter(entries))
                    callback = entry.callback
                    entry.cancel()
                    callback()
                    if self._clock.monotonic_ms() >= ends_ms:
                        return
            else:
                self._redistribute(bucket)
        self._now_tick = max(self._now_tick, until_tick)

    def _redistribute(self, bucket: _Bucket) -> None:
        """Move the bucket's deadlines to finer levels, because its time has come."""
        for deadline in list(bucket.deadlines):
            bucket.remove(deadline)
            if deadline.tick == self._now_tick:
                self._levels[0].buckets[deadline.tick & SLOT_MASK].add(deadline)  # due now
            else:
                self._place(deadline)
