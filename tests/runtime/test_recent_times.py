from __future__ import annotations

import math

from runtime.recent_times import BUCKET_MS, WINDOW_MS, RecentTimes


def test_the_mean_and_the_longest_of_the_last_loads() -> None:
    times = RecentTimes()
    assert math.isnan(times.average_ms(0)) and math.isnan(times.max_ms(0))
    times.record(10, 100)
    times.record(40, 200)
    assert (times.average_ms(300), times.max_ms(300)) == (25, 40)
    assert (times.average_ms(100 + WINDOW_MS), times.max_ms(100 + WINDOW_MS)) == (40, 40)
    assert math.isnan(times.average_ms(200 + WINDOW_MS)) and math.isnan(times.max_ms(200 + WINDOW_MS))


def test_many_times_are_kept_together() -> None:
    times = RecentTimes()
    for now_ms in range(2 * WINDOW_MS):
        times.record(now_ms % 10, now_ms)
    assert len(times._buckets) <= WINDOW_MS // BUCKET_MS + 1
    assert (times.average_ms(now_ms), times.max_ms(now_ms)) == (4.5, 9)
