from __future__ import annotations

import math

from runtime.recent_times import WINDOW_MS, RecentTimes


def test_the_mean_and_the_longest_of_the_last_loads() -> None:
    times = RecentTimes()
    assert math.isnan(times.average_ms(0)) and math.isnan(times.max_ms(0))
    times.record(10, 100)
    times.record(40, 200)
    assert (times.average_ms(300), times.max_ms(300)) == (25, 40)
    assert (times.average_ms(100 + WINDOW_MS), times.max_ms(100 + WINDOW_MS)) == (40, 40)
    assert math.isnan(times.average_ms(200 + WINDOW_MS)) and math.isnan(times.max_ms(200 + WINDOW_MS))
