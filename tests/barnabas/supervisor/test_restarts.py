"""Pauses before a restart."""

from __future__ import annotations

from barnabas.supervisor.restarts import LIVED_MS, LONGEST_PAUSE_MS, RestartPauses


def test_who_ends_at_once_again_and_again_waits_longer_each_time() -> None:
    pauses = RestartPauses()
    expected = [0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, LONGEST_PAUSE_MS, LONGEST_PAUSE_MS]
    assert [pauses.after(10) for _ in expected] == expected
    assert pauses.after(LIVED_MS) == 0
    assert [pauses.after(10) for _ in range(2)] == [0, 500], "it had run for a while"
