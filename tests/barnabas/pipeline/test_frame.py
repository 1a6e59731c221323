"""What a program gets when it runs a job to its end."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from barnabas.pipeline import JOBS, command, frame
from tests.barnabas.pipeline.test_command_lines import REQUIRED


@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_a_program_runs_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = command.load(name)
    found: list[argparse.Namespace] = []
    monkeypatch.setattr(frame, "run_to_end", lambda _job, options, _run, _spark: found.append(options))
    words = REQUIRED[name]
    settings: dict[str, Any] = dict(zip((word[2:] for word in words[::2]), words[1::2], strict=True))
    job.run(None, **settings)  # type: ignore[arg-type]
    assert getattr(found[0], "trigger", "available-now") == "available-now"
