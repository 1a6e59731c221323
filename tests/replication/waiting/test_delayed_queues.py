"""Requests parked on a partition."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.errors import ErrorCode
from replication.waiting.delayed_queues import (
    COMMITTED_END,
    LOG_END,
    STABLE_END,
    CommitWaiters,
    FetchWatchers,
    WakeUps,
    Watcher,
    mark,
)


def test_waiters_are_released_in_order_of_offset_then_arrival() -> None:
    waiters, seen = CommitWaiters(), []
    for name, offset in (("late", 9), ("first", 3), ("second", 3)):
        waiters.park(offset, lambda error, name=name: seen.append((name, error)))  # type: ignore[misc]
    waiters.release(2)
    assert seen == []
    waiters.release(5)
    assert seen == [("first", ErrorCode.NONE), ("second", ErrorCode.NONE)]
    assert len(waiters) == 1


def test_a_cancelled_waiter_hears_nothing() -> None:
    waiters, seen = CommitWaiters(), []
    tickets = [waiters.park(1, lambda error, n=n: seen.append(n)) for n in range(4)]  # type: ignore[misc]
    waiters.cancel(tickets[1])
    assert len(waiters) == 3
    waiters.cancel(tickets[0])
    waiters.cancel(tickets[3])
    assert len(waiters) == 1
    waiters.release(1)
    assert seen == [2]


def test_a_callback_may_cancel_another_waiter() -> None:
    waiters, seen = CommitWaiters(), []
    tickets: list[int] = []
    tickets.append(waiters.park(1, lambda error: waiters.cancel(tickets[1])))
    tickets.append(waiters.park(1, lambda error: seen.append("cancelled")))
    tickets.append(waiters.park(1, lambda error: seen.append("kept")))
    waiters.release(1)
    assert seen == ["kept"]


def test_fail_all_answers_everybody_once() -> None:
    waiters, seen = CommitWaiters(), []
    waiters.park(1, seen.append)
    waiters.park(2, seen.append)
    waiters.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    waiters.release(9)
    assert seen == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


class _Session:
    """Watches one partition; `is_parked` says whether a fetch waits for it."""

    def __init__(self, *, is_parked: bool = True, wakes: list[str] | None = None, name: str = "") -> None:
        self.is_parked = is_parked
        self.name = name
        self.wakes = [] if wakes is None else wakes
        self.touches = 0

    def touch(self) -> _Session | None:
        self.touches += 1
        return self if self.is_parked else None

    def on_progress(self) -> None:
        self.wakes.append(self.name)


def test_who_watches_is_told_at_once_and_leaves_and_parked_fetches_are_woken_once_at_the_end_of_the_turn() -> None:
    turn: list[Callable[[], None]] = []
    wake_ups, wakes = WakeUps(turn.append), []  # type: ignore[var-annotated]
    parked, idle = _Session(wakes=wakes, name="parked"), _Session(is_parked=False, wakes=wakes, name="idle")
    here: dict[Watcher, None] = {parked: None, idle: None}
    there: dict[Watcher, None] = {parked: None}
    wake_ups.touch(here)
    wake_ups.touch(there)
    wake_ups.touch(here)
    assert (parked.touches, idle.touches, here, there) == (2, 1, {}, {})
    assert wakes == []
    assert len(turn) == 1
    turn.pop()()
    assert wakes == ["parked"]
    here[parked] = None
    wake_ups.touch(here)
    turn.pop()()
    assert wakes == ["parked", "parked"]


def test_a_fetch_that_fails_keeps_no_other_from_being_woken() -> None:
    class Failing(_Session):
        def on_progress(self) -> None:
            super().on_progress()
            raise ZeroDivisionError

    turn: list[Callable[[], None]] = []
    wake_ups, wakes = WakeUps(turn.append), []  # type: ignore[var-annotated]
    later = _Session(wakes=wakes, name="later")
    wake_ups.touch({Failing(wakes=wakes, name="failing"): None, _Session(wakes=wakes, name="behind"): None})
    with pytest.raises(ZeroDivisionError):
        turn.pop()()
    wake_ups.touch({later: None})
    assert wakes == ["failing"] and len(turn) == 1
    turn.pop()()
    assert wakes == ["failing", "behind", "later"]
    assert turn == []


def test_nobody_is_woken_for_a_session_that_nobody_waits_for() -> None:
    turn: list[Callable[[], None]] = []
    WakeUps(turn.append).touch({_Session(is_parked=False): None})
    assert turn == []


def test_news_that_nobody_waits_for_touch_and_leave_everybody_where_he_is() -> None:
    session = _Session()
    watchers: dict[Watcher, None] = {session: None}
    mark(watchers)
    assert (session.touches, session.wakes, list(watchers)) == (1, [], [session])


def test_lists_of_watchers_are_made_when_they_are_needed() -> None:
    watchers = FetchWatchers()
    assert watchers.lists() == []
    session = _Session()
    watchers.of(LOG_END)[session] = None
    watchers.of(STABLE_END)[session] = None
    assert watchers.of(COMMITTED_END) == {}
    assert watchers.lists() == [watchers.lso, watchers.leo]
    assert watchers.hw == {}
