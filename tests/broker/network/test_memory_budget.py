from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from broker.network.memory_budget import SMALL_REQUEST_BYTES, BudgetTicket, MemoryBudget


def test_reservations_fit_or_are_refused() -> None:
    budget = MemoryBudget(100)
    assert budget.reserve(60)
    assert not budget.reserve(41)
    assert budget.reserve(40)
    assert budget.available_bytes == 0
    budget.release(60)
    assert (budget.used_bytes, budget.available_bytes) == (40, 60)


def test_more_than_everything_is_granted_alone() -> None:
    budget = MemoryBudget(100)
    assert budget.reserve(1000)
    assert not budget.has_room(1)
    budget.release(1000)
    assert budget.reserve(1)
    assert not budget.reserve(1000)


def test_the_line_is_served_in_order_and_not_overtaken() -> None:
    budget = MemoryBudget(100)
    granted: list[str] = []
    budget.reserve(90)
    budget.reserve_later(1000, lambda: granted.append("large"))
    budget.reserve_later(10, lambda: granted.append("small"))
    assert not budget.reserve(5)  # it would fit, but others were first
    assert budget.available_bytes == 0
    budget.release(80)
    assert granted == []  # the large one comes first, and needs all of it
    budget.release(10)
    assert granted == ["large"]
    budget.release(1000)
    assert granted == ["large", "small"]
    assert budget.used_bytes == 10


def test_leaving_the_line_lets_the_next_one_in() -> None:
    budget = MemoryBudget(100)
    granted: list[str] = []
    budget.reserve(50)
    large = budget.reserve_later(80, lambda: granted.append("large"))
    budget.reserve_later(20, lambda: granted.append("small"))
    budget.leave_queue(large)
    assert granted == ["small"]
    budget.leave_queue(large)
    assert budget.used_bytes == 70


def test_bytes_that_are_there_already_count() -> None:
    budget = MemoryBudget(100)
    budget.reserve_anyway(150)
    assert not budget.has_room(1)
    budget.release(150)
    assert budget.has_room(100)


def test_what_is_parked_keeps_nobody_out() -> None:
    budget = MemoryBudget(100_000)
    budget.park(95_000)
    assert budget.has_parking_room
    budget.park(SMALL_REQUEST_BYTES)  # its connection alone bounds it
    assert not budget.has_parking_room
    assert (budget.used_bytes, budget.parked_bytes) == (0, 95_000 + SMALL_REQUEST_BYTES)
    assert budget.available_bytes == 100_000
    assert budget.reserve(100_000)
    budget.release_parked(95_000 + SMALL_REQUEST_BYTES)
    assert budget.parked_bytes == 0


@given(st.integers(0, 2**32))
def test_whatever_happens_the_sum_is_right_and_everybody_is_served(seed: int) -> None:
    rng = random.Random(seed)
    budget = MemoryBudget(100)
    held: list[int] = []
    waiting: dict[BudgetTicket, None] = {}
    for _ in range(100):
        size = rng.choice([1, 10, 60, 99, 100, 150])
        action = rng.random()
        if action < 0.5:
            if budget.reserve(size):
                held.append(size)
            else:
                tickets: list[BudgetTicket] = []

                def grant(tickets: list[BudgetTicket] = tickets) -> None:
                    held.append(tickets[0].size_bytes)
                    del waiting[tickets[0]]

                tickets.append(budget.reserve_later(size, grant))
                waiting[tickets[0]] = None
        elif action < 0.9 and held:
            budget.release(held.pop(rng.randrange(len(held))))
        elif waiting:
            ticket = rng.choice(list(waiting))
            del waiting[ticket]
            budget.leave_queue(ticket)
        assert budget.used_bytes == sum(held)
        assert budget.used_bytes <= 100 or len(held) == 1
        assert budget.waiting_count == len(waiting)
    while held:
        budget.release(held.pop())
    assert not waiting
