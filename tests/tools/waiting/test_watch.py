"""When and how it is shown why a command waits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest

from runtime.clock import SystemClock
from runtime.status_line import StatusLine
from tests.doubles.clock import ManualClock
from tools.waiting.watch import ASKED_EVERY_MS, SHOWN_AFTER_MS, Cause, Watch

LOST = Cause("connection lost, retrying", "it is gone", is_lost=True)
FULL = Cause("waiting: the disk is full", "the disk is full")
IDLE = Cause("waiting for new records")


class Stage:
    """A watch, the time and what is shown; `cause` is what its wait returns."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.clock = ManualClock()
        self.watch = Watch(self.clock, StatusLine(self.clock), has_thread=False)
        self.cause: Cause | None = FULL
        self.asked = 0
        self._capsys = capsys

    def answer(self) -> Cause | None:
        self.asked += 1
        return self.cause

    def after(self, passed_ms: int) -> list[str]:
        """What is shown by a check so much later."""
        self.clock.now_ms += passed_ms
        self.watch.check()
        return self.shown()

    def shown(self) -> list[str]:
        return self._capsys.readouterr().err.splitlines()


@pytest.fixture
def stage(capsys: pytest.CaptureFixture[str]) -> Stage:
    return Stage(capsys)


def test_a_wait_is_shown_once_and_asked_again_and_again(stage: Stage) -> None:
    assert stage.after(10_000) == [], "nothing waits"
    with stage.watch.over(stage.answer):
        assert stage.after(SHOWN_AFTER_MS - 1) == []
        assert stage.after(1) == ["waiting: the disk is full"]
        assert stage.watch.last_why == "the disk is full"
        assert stage.after(ASKED_EVERY_MS - 1) == []
        assert stage.asked == 1
        assert stage.after(1) == []
        assert stage.asked == 2
        stage.cause = LOST
        assert stage.after(ASKED_EVERY_MS) == ["connection lost, retrying"]
        stage.watch.moved()
        assert stage.watch.last_why is None
        stage.cause = FULL
        asked = stage.asked
        assert stage.after(1) == [], "that it is connected again, the cause has said"
        assert stage.asked == asked + 1
        assert stage.after(SHOWN_AFTER_MS - 2) == []
    assert stage.after(10_000) == []


def test_a_connection_that_was_lost_to_the_end_is_checked_once_more(stage: Stage) -> None:
    with stage.watch.over(stage.answer):
        stage.cause = LOST
        assert stage.after(SHOWN_AFTER_MS) == ["connection lost, retrying"]
    assert stage.asked == 2
    with contextlib.suppress(KeyError), stage.watch.over(stage.answer):
        stage.after(SHOWN_AFTER_MS)
        raise KeyError
    assert stage.asked == 3, "what ends with an error says it itself"


def test_a_wait_may_have_no_cause_any_more(stage: Stage) -> None:
    with stage.watch.over(stage.answer):
        stage.cause = IDLE
        assert stage.after(SHOWN_AFTER_MS) == ["waiting for new records"]
        assert stage.watch.last_why is None
        stage.cause = None
        assert stage.after(ASKED_EVERY_MS) == []


def test_an_error_is_checked_at_once(stage: Stage) -> None:
    with stage.watch.over(stage.answer):
        stage.watch.hurry()
        assert stage.after(1) == [], "it was no lost connection, and nothing has waited for long"
        stage.cause = LOST
        stage.watch.hurry()
        assert stage.after(1) == ["connection lost, retrying"]


def test_the_innermost_wait_counts(stage: Stage) -> None:
    with stage.watch.over(stage.answer):
        stage.clock.now_ms += SHOWN_AFTER_MS
        with stage.watch.over(lambda: LOST):
            assert stage.after(0) == [], "it has just begun"
            assert stage.after(SHOWN_AFTER_MS) == ["connection lost, retrying"]
        assert stage.after(SHOWN_AFTER_MS) == ["waiting: the disk is full"]


def test_what_says_no_more_than_that_nobody_answers_is_for_terminals(stage: Stage) -> None:
    stage.cause = Cause("no answer yet", is_vague=True)
    with stage.watch.over(stage.answer):
        assert stage.after(SHOWN_AFTER_MS) == []
        assert stage.watch.last_why is None


@pytest.mark.parametrize("end", [lambda watch: watch.moved(), lambda watch: watch.close()])
def test_a_cause_that_comes_too_late_is_not_shown(stage: Stage, end: Callable[[Watch], None]) -> None:
    def late() -> Cause:
        end(stage.watch)
        return FULL

    with stage.watch.over(late):
        assert stage.after(SHOWN_AFTER_MS) == []


def test_a_thread_shows_it_while_the_command_waits(capsys: pytest.CaptureFixture[str]) -> None:
    asked = threading.Event()

    def cause() -> Cause:
        asked.set()
        return FULL

    watch = Watch(SystemClock(), StatusLine(SystemClock()))
    with watch.over(cause):
        assert asked.wait(60)
    watch.close()
