"""How far a long command has come."""

from __future__ import annotations

import pytest

from runtime.command_line import progress
from runtime.command_line.progress import Progress
from runtime.status_line import PLAIN_PAUSE_MS, StatusLine
from runtime.texts import size_text
from tests.doubles.clock import ManualClock


def test_a_long_command_tells_it_every_few_seconds_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(progress, "STATUS", StatusLine(clock))
    reading = Progress("records read", 100_000, clock)
    for second in range(12):
        reading.show(second * 1000, "3 hits")
        clock.now_ms += 1000
    reading.close()
    assert capsys.readouterr().err.splitlines() == [
        "5000 of 100000 records read, 5 %, 1000/s, 1 min 35 s left, 3 hits",
        "10000 of 100000 records read, 10 %, 1000/s, 1 min 30 s left, 3 hits",
    ]


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [
        (0, 0, "0 B of 0 B copied, 0 B/s"),
        (0, 10**9, "0 B of 1.0 GB copied, 0 %, 0 B/s"),
        (5 * 10**8, 10**10, "500 MB of 10.0 GB copied, 5 %, 100 MB/s, 1 min 35 s left"),
        (5_000_000, 10**11, "5.0 MB of 100 GB copied, 0 %, 1.0 MB/s, 27 h 46 min left"),
        (20, 10, "20 B of 10 B copied, 200 %, 4 B/s"),
    ],
)
def test_amounts_and_times_are_in_their_units(done: int, total: int, text: str) -> None:
    clock = ManualClock()
    copying = Progress("copied", total, clock, size_text)
    clock.now_ms += PLAIN_PAUSE_MS
    assert copying.text(done) == text
