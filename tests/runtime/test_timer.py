from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.clock import SystemClock
from runtime.timer import TURN_MS, Timer, TimerEntry


class FakeLoop:
    """A clock, and a `call_later` that holds at most one call, which is all that a wheel may ask for."""

    def __init__(self) -> None:
        self.now_ms = 12_345
        self.due_ms: float | None = None
        self.callback: Callable[[], None] | None = None
        self.calls_count = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 0

    def call_later(self, delay: float, callback: Callable[[], None], /) -> FakeLoop:
        assert self.callback is None, "the wheel owns one call at a time"
        self.calls_count += 1
        self.due_ms, self.callback = self.now_ms + delay * 1000, callback
        return self

    def cancel(self) -> None:
        self.callback = self.due_ms = None

    def advance(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.due_ms is not None and self.due_ms <= end_ms:
            self.now_ms = max(self.now_ms, round(self.due_ms))
            self.run()
        self.now_ms = end_ms

    def run(self) -> None:
        """One turn."""
        callback = self.callback
        assert callback is not None
        self.callback = self.due_ms = None
        callback()


def wheel() -> tuple[FakeLoop, Timer]:
    loop = FakeLoop()
    return loop, Timer(loop, loop.call_later)


@pytest.mark.parametrize("delay_ms", [1, 2, 63, 64, 65, 500, 4095, 4096, 30_000, 262_144, 86_400_000])
def test_a_callback_runs_exactly_at_its_millisecond(delay_ms: int) -> None:
    loop, timer = wheel()
    ran: list[int] = []
    timer.schedule(delay_ms, lambda: ran.append(loop.now_ms))
    start_ms = loop.now_ms
    loop.advance(delay_ms - 1)
    assert ran == []
    loop.advance(1)
    assert ran == [start_ms + delay_ms]


def test_a_delay_of_zero_runs_soon_and_never_inside_schedule() -> None:
    loop, timer = wheel()
    ran: list[int] = []
    timer.schedule(0, lambda: ran.append(1))
    timer.schedule(-5, lambda: ran.append(2))
    assert ran == []
    loop.advance(1)
    assert ran == [1, 2]


def test_a_cancelled_callback_never_runs_and_cancel_may_come_twice_or_late() -> None:
    loop, timer = wheel()
    ran: list[str] = []
    entry = timer.schedule(10, lambda: ran.append("cancelled"))
    done = timer.schedule(5, lambda: ran.append("done"))
    entry.cancel()
    entry.cancel()
    loop.advance(100)
    done.cancel()
    assert ran == ["done"]
    assert not entry.is_pending and not done.is_pending


def test_delays_beyond_every_level_are_kept() -> None:
    loop, timer = wheel()
    entry = timer.schedule(2**63 - 1, lambda: None)
    loop.advance(1000)
    assert entry.is_pending


def test_a_wheel_left_alone_for_long_keeps_its_precision() -> None:
    loop, timer = wheel()
    loop.advance(987_654_321)
    ran: list[int] = []
    timer.schedule(500, lambda: ran.append(loop.now_ms))
    start_ms, calls = loop.now_ms, loop.calls_count
    loop.advance(500)
    assert ran == [start_ms + 500]
    assert loop.calls_count - calls <= 3  # the nearest bucket, perhaps twice, and no polling


@pytest.mark.parametrize("slack_ms", [1, 2, 3, 7, 8, 64])
def test_callbacks_that_may_be_late_share_wake_ups(slack_ms: int) -> None:
    loop, timer = wheel()
    late_ms: list[int] = []
    for _ in range(64):
        due_ms = loop.now_ms + 500
        timer.schedule(500, lambda due_ms=due_ms: late_ms.append(loop.now_ms - due_ms), slack_ms)  # type: ignore[misc]
        loop.advance(1)
    calls = loop.calls_count
    loop.advance(1000)
    assert len(late_ms) == 64 and all(0 <= late <= slack_ms for late in late_ms)
    shared = 1 << (slack_ms + 1).bit_length() - 1
    assert loop.calls_count - calls <= 64 // shared + 4  # and those that deal out what lies far ahead


def test_cancelled_entries_cost_no_wake_up_each() -> None:
    loop, timer = wheel()
    for _ in range(10_000):
        timer.schedule(500, lambda: None).cancel()
    assert loop.calls_count <= 2


def test_a_callback_may_schedule_and_cancel_others() -> None:
    loop, timer = wheel()
    ran: list[str] = []
    victim = timer.schedule(5, lambda: ran.append("victim"))

    def first() -> None:
        ran.append("first")
        victim.cancel()
        timer.schedule(1, lambda: ran.append("second"))

    timer.schedule(5, first)
    victim.cancel()
    victim = timer.schedule(5, lambda: ran.append("victim"))
    loop.advance(6)
    assert ran == ["first", "second"]


def test_a_callback_that_raises_loses_none_of_the_others() -> None:
    loop, timer = wheel()
    ran: list[int] = []

    def fail() -> None:
        raise ValueError("mine")

    timer.schedule(3, fail)
    timer.schedule(3, lambda: ran.append(3))
    timer.schedule(9, lambda: ran.append(9))
    with pytest.raises(ValueError, match="mine"):
        loop.advance(3)
    loop.advance(10)
    assert ran == [3, 9]


def test_callbacks_that_take_long_take_turns_with_the_loop() -> None:
    """They run in order, some milliseconds of them in a turn; those of one millisecond, too."""
    loop, timer = wheel()
    ran: list[int] = []
    delays_ms = [3, 3, 3, 3, 4, 4, 80, 81]

    def work(delay_ms: int) -> None:
        ran.append(delay_ms)
        loop.now_ms += TURN_MS // 2 + 1

    for delay_ms in delays_ms:
        timer.schedule(delay_ms, partial(work, delay_ms))
    loop.now_ms += 100
    turns = []
    while loop.callback is not None:
        assert loop.due_ms is not None and loop.due_ms <= loop.now_ms
        loop.run()
        turns.append(list(ran))
    assert turns == [delays_ms[: 2 * count] for count in range(1, 5)]


def test_after_close_nothing_runs() -> None:
    loop, timer = wheel()
    ran: list[int] = []
    timer.schedule(3, lambda: ran.append(3))
    timer.close()
    timer.schedule(3, lambda: ran.append(4))
    loop.advance(100)
    assert ran == []
    assert loop.callback is None


@given(st.integers(0, 2**32))
def test_it_agrees_with_a_sorted_list(seed: int) -> None:
    rng = random.Random(seed)
    loop, timer = wheel()
    expected: dict[int, int] = {}
    ran: dict[int, int] = {}
    entries: dict[int, TimerEntry] = {}

    def run(key: int) -> None:
        ran[key] = loop.now_ms

    for key in range(60):
        action = rng.random()
        if action < 0.6:
            delay_ms = rng.choice([rng.randrange(0, 5), rng.randrange(0, 200), rng.randrange(0, 300_000)])
            entries[key] = timer.schedule(delay_ms, lambda key=key: run(key))  # type: ignore[misc]
            expected[key] = loop.now_ms + max(delay_ms, 1)
        elif action < 0.8 and entries:
            victim = rng.choice(list(entries))
            if victim not in ran:
                expected.pop(victim, None)
            entries[victim].cancel()
        else:
            loop.advance(rng.choice([1, 7, 64, 1000, 100_000]))
    loop.advance(400_000)
    assert set(ran) == set(expected)
    # A delay of 0 right after a run may fall on the next millisecond or on this one.
    assert all(0 <= ran[key] - expected[key] <= 1 for key in ran)


def test_on_a_real_loop_it_is_never_early() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        timer = Timer(SystemClock(), loop.call_later)
        start_ms = SystemClock().monotonic_ms()
        late: list[float] = []
        done = asyncio.Event()
        for delay_ms in (1, 5, 20, 40):
            timer.schedule(delay_ms, lambda d=delay_ms: late.append(SystemClock().monotonic_ms() - start_ms - d))  # type: ignore[misc]
        timer.schedule(45, done.set)
        await done.wait()
        timer.close()
        return late

    late = asyncio.run(main())
    assert len(late) == 4
    assert min(late) >= 0


class _Owner:
    def __init__(self, timer: Timer) -> None:
        self.entry = timer.schedule(50, self.on_time)

    def on_time(self) -> None:
        """The entry refers to its owner, and the owner to its entry."""


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_an_entry_that_is_over_keeps_nothing_alive(is_cancelled: bool) -> None:
    loop = FakeLoop()
    timer = Timer(loop, loop.call_later)
    owner = _Owner(timer)
    is_alive = weakref.ref(owner)
    gc.disable()  # reference counts alone must do
    try:
        if is_cancelled:
            owner.entry.cancel()
        else:
            loop.advance(60)
        del owner
        assert is_alive() is None
    finally:
        gc.enable()
