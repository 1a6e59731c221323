"""Whether groups keep up, by Burrow's rules."""

from __future__ import annotations

import pytest

from coordinator.group.commit_window import WINDOW_COMMITS, CommitWindow, GroupStatus

STEP_MS = 1_000


def window(offsets: list[int], lags: list[int]) -> CommitWindow:
    found = CommitWindow()
    for number, (offset, lag) in enumerate(zip(offsets, lags, strict=True)):
        found.measure(number * STEP_MS, offset, lag)
    return found


SAME, GROWING = [5] * WINDOW_COMMITS, list(range(WINDOW_COMMITS))
NOW_MS = WINDOW_COMMITS * STEP_MS


@pytest.mark.parametrize(
    ("offsets", "lags", "status"),
    [
        (GROWING, [3] * 10, GroupStatus.WARNING),
        (GROWING, list(range(1, 11)), GroupStatus.WARNING),
        (GROWING, [9, 8, 7, 6, 5, 4, 5, 6, 7, 8], GroupStatus.OK),
        (GROWING, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], GroupStatus.OK),
        (SAME, list(range(1, 11)), GroupStatus.STALLED),
        (SAME, [3] * 10, GroupStatus.STALLED),
        (SAME, [0, *range(1, 10)], GroupStatus.OK),
    ],
)
def test_rules(offsets: list[int], lags: list[int], status: GroupStatus) -> None:
    assert window(offsets, lags).status(NOW_MS, lags[-1]) is status


def test_who_does_not_commit_any_more_has_stopped_unless_nothing_is_left() -> None:
    stopped = window(GROWING, [3] * 10)
    late_ms = NOW_MS + WINDOW_COMMITS * STEP_MS
    assert stopped.status(late_ms, 3) is GroupStatus.STOPPED
    assert stopped.status(late_ms, 0) is GroupStatus.OK
    assert stopped.status(late_ms, None) is GroupStatus.OK


def test_a_window_that_is_not_full_judges_nothing() -> None:
    assert window([5, 5, 5], [1, 2, 3]).status(NOW_MS * 10, 3) is GroupStatus.OK


def test_a_commit_counts_once_and_an_unknown_lag_not_at_all() -> None:
    found = CommitWindow()
    for number in range(WINDOW_COMMITS * 2):
        found.measure(0, 5, 3)
        found.measure(number, 5, None)
    assert found.status(NOW_MS, 3) is GroupStatus.OK
