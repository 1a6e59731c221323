"""The check of a history of transactions finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.interop.transactions.transaction_load import Ended, Outcome, verify

pytestmark = pytest.mark.interop

ENDED = [
    Ended("a", 1, Outcome.COMMITTED, 0.0),
    Ended("b", 1, Outcome.COMMITTED, 0.0),
    Ended("a", 2, Outcome.ABORTED, 0.0),
    Ended("b", 2, Outcome.UNKNOWN, 0.0),
    Ended("a", 3, Outcome.COMMITTED, 0.0),
]
A1, A2, A3, B1, B2 = ("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)


@pytest.mark.parametrize(
    "found",
    [[[A1, B1, A3], [B1, A1, A3]], [[A1, B1, B2, A3], [A1, A3, B1, B2]]],
    ids=["unknown-aborted", "unknown-committed"],
)
def test_a_right_history_is_accepted(found: list[list[tuple[str, int]]]) -> None:
    verify(ENDED, found)


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([[A1, B1, A3], [A1, A3]], "not whole"),
        ([[A1, B1], [A1, B1]], "not whole"),
        ([[A1, A2, B1, A3], [A1, B1, A3]], "aborted and visible"),
        ([[A1, B1, B2, A3], [A1, B1, A3]], "torn"),
        ([[A1, B1, A3, A3], [A1, B1, A3]], "twice"),
        ([[A1, B1, A3, ("b", 3)], [A1, B1, A3]], "nobody ended"),
        ([[A3, B1, A1], [A1, B1, A3]], "out of order"),
    ],
)
def test_a_wrong_history_is_refused(found: list[list[tuple[str, int]]], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        verify(ENDED, found)
