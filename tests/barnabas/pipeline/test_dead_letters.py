from __future__ import annotations

import pytest

from barnabas.pipeline.dead_letters import PARKED, RETRIED, Handled, Schedule, WaitingLetter, dead_letter_headers_sql
from barnabas.pipeline.retry import plan_round


@pytest.mark.parametrize(("attempt", "delay_s"), [(1, 10), (2, 30), (3, 90), (4, 100), (5, 100), (1_000_000_000, 100)])
def test_delays_grow_up_to_the_longest(attempt: int, delay_s: float) -> None:
    assert Schedule(10, 3, 100, 2_000_000_000).delay_s(attempt) == delay_s


@pytest.mark.parametrize(
    ("attempt", "after_ms", "decision"),
    [
        (1, 9_999, None),
        (1, 10_000, RETRIED),
        (2, 10_000, None),
        (2, 20_000, RETRIED),
        (3, 0, PARKED),
        (99, 0, PARKED),
        (0, 10_000, RETRIED),
    ],
)
def test_a_letter_waits_is_retried_or_parked(attempt: int, after_ms: int, decision: str | None) -> None:
    assert Schedule(10, 2, 3600, limit=3).decide(attempt, 5_000, 5_000 + after_ms) == decision


def letters(*offsets: int, partition: int = 0) -> list[WaitingLetter]:
    return [WaitingLetter(partition, offset, 0, 1) for offset in offsets]


def test_handled_letters_advance_the_start_over_gaps_and_keep_what_is_later() -> None:
    state = Handled().after(letters(3, 4, 7, 9), letters(4, 9))
    assert (state.starts, state.later) == ({0: 3}, {0: {4, 9}})
    assert [state.has(letter) for letter in letters(2, 3, 4, 7, 9, 10)] == [True, False, True, False, True, False]
    state = state.after(letters(3, 4, 7, 9), letters(3))
    assert (state.starts, state.later) == ({0: 7}, {0: {9}})
    state = state.after(letters(7, 9, 12), letters(7, 12))
    assert (state.starts, state.later) == ({0: 13}, {})


def test_partitions_are_apart_and_a_state_without_letters_stays() -> None:
    state = Handled().after(letters(0, 1) + letters(5, partition=2), letters(0))
    assert (state.starts, state.later) == ({0: 1, 2: 5}, {})
    assert state.after([], []) == state


def test_the_state_goes_to_json_and_back() -> None:
    state = Handled({0: 7, 3: 1}, {0: {9, 12}})
    assert Handled.from_json(state.to_json()) == state  # type: ignore[arg-type]
    assert Handled.from_json({}) == Handled()


def test_a_round_takes_what_is_due_once_and_parks_what_has_no_target() -> None:
    due, waiting, handled, lost = (
        WaitingLetter(0, 5, 0, 1),
        WaitingLetter(0, 6, 90_000, 1),
        WaitingLetter(0, 1, 0, 1),
        WaitingLetter(0, 7, 99_000, 1),
    )
    rows = [(due, False), (waiting, False), (handled, False), (lost, True)]
    state = Handled({0: 2})
    assert plan_round(rows, state, Schedule(60, 2, 3600, 5), 100_000) == {due: RETRIED, lost: PARKED}


def test_headers_of_a_dead_letter_replace_older_ones() -> None:
    sql = dead_letter_headers_sql("'why'")
    for name in ("reason", "source-topic", "source-partition", "source-offset", "source-timestamp"):
        assert sql.count(f"'barnabas-{name}'") == 2, "left out of the old headers, and added"
    assert sql.count("'barnabas-attempt'") == 3, "read, left out and added"
    assert "+ 1 AS STRING" in sql
