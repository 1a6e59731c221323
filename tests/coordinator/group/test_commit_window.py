"""Whether groups keep up, by Burrow's rules."""

from __future__ import annotations

import pytest

from coordinator.group.commit_window import WINDOW_COMMITS, CommitWindow, GroupStatus

STEP_MS = 1_000
SHORTEST_MS = 5_000


def window(offsets: list[int], lags: list[int]) -> CommitWindow:
    found = CommitWindow(SHORTEST_MS)
    for number, (offset, lag) in enumerate(zip(offsets, lags, strict=True)):
        found.measure(number * STEP_MS, number * STEP_MS, offset, lag)
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
        (SAME, [3, 4, 5, 4, 5, 6, 7, 8, 9, 9], GroupStatus.OK),
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


def test_a_window_that_is_not_full_judges_only_who_has_stopped() -> None:
    few = window([5, 5, 5], [1, 2, 3])
    assert few.status(2 * STEP_MS + SHORTEST_MS, 3) is GroupStatus.OK
    assert few.status(2 * STEP_MS + SHORTEST_MS + 1, 3) is GroupStatus.STOPPED


def test_a_coordinator_that_finds_one_old_commit_waits_before_it_judges() -> None:
    """It has been moved or started just now, and knows nothing of what was before."""
    found = CommitWindow(SHORTEST_MS)
    found.measure(NOW_MS, 0, 5, 7)
    assert found.status(NOW_MS, 7) is GroupStatus.OK
    later_ms = NOW_MS + SHORTEST_MS + 1
    found.measure(later_ms, 0, 5, 9)
    assert found.status(later_ms, 9) is GroupStatus.STOPPED


def test_the_first_record_after_a_quiet_night_stops_nobody() -> None:
    night_ms = NOW_MS + 8 * 3_600_000
    found = window(GROWING, [0] * 10)
    found.measure(night_ms - 1, NOW_MS - STEP_MS, GROWING[-1], 0)
    found.measure(night_ms, NOW_MS - STEP_MS, GROWING[-1], 1)
    assert found.status(night_ms, 1) is GroupStatus.OK
    late_ms = night_ms + WINDOW_COMMITS * STEP_MS
    found.measure(late_ms, NOW_MS - STEP_MS, GROWING[-1], 5)
    assert found.status(late_ms, 5) is GroupStatus.STOPPED


def test_an_offset_that_goes_back_begins_a_new_window() -> None:
    found = window(GROWING, [3] * 10)
    found.measure(NOW_MS, NOW_MS, 0, 12)
    assert found.status(NOW_MS, 12) is GroupStatus.OK
    for number in range(1, WINDOW_COMMITS):
        found.measure(NOW_MS + number, NOW_MS + number, number, 12)
    assert found.status(NOW_MS + WINDOW_COMMITS, 12) is GroupStatus.WARNING


def test_a_commit_counts_once_and_an_unknown_lag_not_at_all() -> None:
    found = CommitWindow(SHORTEST_MS)
    for number in range(WINDOW_COMMITS * 2):
        found.measure(number, 0, 5, 3)
        found.measure(number, number, 5, None)
    assert found.status(NOW_MS // 2, 3) is GroupStatus.OK
