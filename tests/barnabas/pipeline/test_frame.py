"""What a program gets when it runs a job to its end, and what a job prints while it runs."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.pipeline import JOBS, command, frame
from barnabas.pipeline.options import Options
from tests.barnabas.pipeline.test_command_lines import REQUIRED


@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_a_program_runs_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = command.load(name)
    found: list[Options] = []
    monkeypatch.setattr(frame, "run_to_end", lambda _job, options, _run, _spark: found.append(options))
    words = REQUIRED[name]
    settings: dict[str, Any] = dict(zip((word[2:] for word in words[::2]), words[1::2], strict=True))
    job.run(None, **settings)  # type: ignore[arg-type]
    assert getattr(found[0], "trigger", "available-now") == "available-now"


class Tracker:
    """Spark's StatusTracker, with these stages: number, tasks, tasks that are done. One has ended since it was listed."""

    def __init__(self, *stages: tuple[int, int, int]) -> None:
        self._stages = {
            each[0]: SimpleNamespace(stageId=each[0], numTasks=each[1], numCompletedTasks=each[2]) for each in stages
        }

    def getActiveStageIds(self) -> list[int]:  # noqa: N802, RUF100  Spark's names
        return [*self._stages, 99]

    def getStageInfo(self, number: int) -> SimpleNamespace | None:  # noqa: N802, RUF100
        return self._stages.get(number)


def test_a_report_shows_its_tasks_every_few_seconds_off_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 100.0
    monkeypatch.setattr(frame.time, "monotonic", lambda: now_s)
    run = frame.Run("inspect", is_report=True)
    run.announce("starting Spark")
    for _ in range(12):
        frame.show_tasks(Tracker((4, 12, int(now_s - 100))), run, now_s - 100)
        now_s += 1
    frame.show_tasks(Tracker(), run, 15)
    run.report("a table")
    run.say("done")
    printed = capsys.readouterr()
    assert printed.out == "a table\n"
    assert printed.err.splitlines() == [
        "inspect: starting Spark",
        "inspect: stage 4: 0 of 12 tasks done; 0 s",
        "inspect: stage 4: 5 of 12 tasks done; 5 s",
        "inspect: stage 4: 10 of 12 tasks done; 10 s",
        "inspect: done",
    ]


def test_a_job_that_waits_shows_no_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    frame.show_tasks(Tracker(), frame.Run("mirror"), 15)
    frame.show_tasks(Tracker((1, 1, 0)), frame.Run("mirror", is_quiet=True), 15)
    assert capsys.readouterr().err == ""
    frame.show_tasks(Tracker((1, 2, 1)), frame.Run("mirror"), 15)
    assert capsys.readouterr().err == "mirror: stage 1: 1 of 2 tasks done; 15 s\n"


def test_tasks_give_way_to_a_line_of_batches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 100.0
    monkeypatch.setattr(frame.time, "monotonic", lambda: now_s)
    run = frame.Run("archive")
    for _ in range(8):
        frame.show_tasks(Tracker((1, 2, 1)), run, now_s - 100)
        if now_s >= 102:
            run.show()
        now_s += 1
    assert capsys.readouterr().err.splitlines() == [
        "archive: stage 1: 1 of 2 tasks done; 0 s",
        "archive: waiting for the first batch",
        "archive: stage 1: 1 of 2 tasks done; 7 s",
        "archive: waiting for the first batch",
    ]


def test_on_a_terminal_the_progress_line_gives_way_to_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run = frame.Run("audit", is_report=True)
    frame.show_tasks(Tracker(), run, 1)
    frame.show_tasks(Tracker(), run, 2)
    run.report("a table")
    run.report("another")
    run.say("done")
    printed = capsys.readouterr()
    assert printed.out == "a table\nanother\n"
    lines = re.split(re.escape("\r\x1b[J"), printed.err)
    assert lines == ["", "Spark plans the next step; 1 s", "Spark plans the next step; 2 s", "audit: done\n"]


def test_a_failure_names_the_flag_and_not_the_option_that_it_sets() -> None:
    assert frame.with_flag("gone. Set option failOnDataLoss to false to read what is left.") == (
        "gone. Use --tolerate-loss to read what is left."
    )
    assert frame.with_flag('set "failOnDataLoss" to "false"') == (
        'set "failOnDataLoss" to "false" (--tolerate-loss does that)'
    )
    assert frame.with_flag("no memory") == "no memory"
