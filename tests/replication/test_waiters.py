"""Requests parked on a partition."""

from __future__ import annotations

from protocol.errors import ErrorCode
from replication.waiters import CommitWaiters, FetchWaiters


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


class _Fetch:
    def __init__(self, waiters: FetchWaiters) -> None:
        self.woken = 0
        self._waiters = waiters

    def on_progress(self) -> None:
        self.woken += 1
        self._waiters.leave(self)


def test_a_woken_fetch_may_leave_while_others_are_woken() -> None:
    waiters = FetchWaiters()
    fetches = [_Fetch(waiters) for _ in range(3)]
    for one in fetches:
        waiters.park(one)
    waiters.wake()
    waiters.wake()
    assert [one.woken for one in fetches] == [1, 1, 1]
    assert len(waiters) == 0
