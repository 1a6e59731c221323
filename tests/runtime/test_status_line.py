"""The line that says what a command does or waits for."""

from __future__ import annotations

import sys

import pytest

from runtime.status_line import PLAIN_PAUSE_MS, REPEATED_AFTER_MS, TERMINAL_PAUSE_MS, StatusLine
from tests.doubles.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def plain(clock: ManualClock) -> StatusLine:
    return StatusLine(clock)


def test_a_terminal_has_one_line(
    clock: ManualClock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    terminal = StatusLine(clock)
    terminal.show("1 of 3")
    assert capsys.readouterr().err == "", "what is over at once is not told"
    clock.now_ms += TERMINAL_PAUSE_MS
    assert terminal.is_due
    terminal.show("2 of 3")
    terminal.show("3 of 3")
    assert capsys.readouterr().err == "\r\x1b[J2 of 3"
    terminal.tell("a\nb")
    terminal.tell("a\nb")
    terminal.say("again")
    assert capsys.readouterr().err == "\r\x1b[Ja\\nb\r\x1b[Jagain\n"
    terminal.tell("x" * 80)
    terminal.tell("x" * 100)
    terminal.clear()
    terminal.clear()
    assert capsys.readouterr().err == "\r\x1b[J" + "x" * 80 + "\r\x1b[J" + "x" * 100 + "\x1b[A\r\x1b[J", (
        "it was wider than the terminal"
    )


def test_elsewhere_progress_is_a_line_now_and_then(
    plain: StatusLine, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3 * PLAIN_PAUSE_MS // 100):
        plain.show(str(number))
        clock.now_ms += 100
    plain.clear()
    assert capsys.readouterr().err == "50\n100\n"


def test_elsewhere_what_is_told_is_not_repeated(
    plain: StatusLine, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("lost", "lost", "slow", "lost"):
        plain.tell(text)
    assert capsys.readouterr().err == "lost\nslow\nlost\n"
    plain.say("again")
    plain.tell("lost")
    assert capsys.readouterr().err == "again\nlost\n", "another time is told"
    clock.now_ms += REPEATED_AFTER_MS
    plain.tell("lost")
    assert capsys.readouterr().err == "lost\n"
