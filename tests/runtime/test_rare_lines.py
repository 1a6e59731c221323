"""One line of a kind in a while, and a count of the others."""

from __future__ import annotations

from runtime.rare_lines import RareLines
from tests.doubles.clock import ManualClock


def test_lines_of_one_kind_are_left_out_for_a_while() -> None:
    clock = ManualClock()
    lines = RareLines(clock, quiet_ms=100)
    assert [lines.left_out("full"), lines.left_out("full"), lines.left_out("lost"), lines.left_out("full")] == [
        0,
        None,
        0,
        None,
    ]
    clock.now_ms += 99
    assert lines.left_out("full") is None
    clock.now_ms += 1
    assert [lines.left_out("full"), lines.left_out("full")] == [3, None]
