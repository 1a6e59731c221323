from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable

import pytest

from pipelines import aggregate, archive

JOBS = [
    pytest.param(archive.parser, ["--topics", "a,b", "--output", "/o", "--checkpoint", "/c"], id="archive"),
    pytest.param(aggregate.parser, ["--source", "a", "--target", "b", "--checkpoint", "/c"], id="aggregate"),
]


@pytest.mark.parametrize(("parser", "arguments"), JOBS)
def test_what_a_job_cannot_do_without_is_required(
    parser: Callable[[], argparse.ArgumentParser], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    parser().parse_args(arguments)
    for position in range(0, len(arguments), 2):
        with pytest.raises(SystemExit):
            parser().parse_args(arguments[:position] + arguments[position + 2 :])
        assert arguments[position] in capsys.readouterr().err


@pytest.mark.parametrize("job", ["archive", "aggregate"])
def test_help_needs_no_spark(job: str) -> None:
    code = f"import sys; sys.modules['pyspark'] = None; from pipelines.{job} import main; main(['--help'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode == 0, run.stderr
    assert "--checkpoint" in run.stdout


def test_a_batch_of_the_archive_has_one_name_however_often_it_is_tried() -> None:
    first = archive.batch_name("0b5a7c1e-1111-2222-3333-444444444444", 7)
    assert first == "0000000007-0b5a7c1e"
    assert first < archive.batch_name("0b5a7c1e-1111-2222-3333-444444444444", 10)
    assert first != archive.batch_name("9b5a7c1e-1111-2222-3333-444444444444", 7), "another checkpoint, other folders"


def test_the_aggregates_fields_are_named_as_wished() -> None:
    arguments = ["--source", "a", "--target", "b", "--checkpoint", "/c"]
    assert aggregate.event_schema(aggregate.parser().parse_args(arguments)) == (
        "`key` STRING, `amount` STRING, `time` STRING"
    )
    arguments += ["--key-field", "shop id", "--amount-field", "a`b", "--time-field", "at"]
    assert aggregate.event_schema(aggregate.parser().parse_args(arguments)) == (
        "`shop id` STRING, `a``b` STRING, `at` STRING"
    )


@pytest.mark.parametrize("option", ["--window", "--late", "--ahead"])
def test_the_aggregates_durations_are_checked_before_spark_starts(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        aggregate.parser().parse_args(["--source", "a", "--target", "b", "--checkpoint", "/c", option, "-5 minutes"])
    with pytest.raises(SystemExit):
        aggregate.parser().parse_args(["--source", "a", "--target", "b", "--checkpoint", "/c", option, "5 minuets"])
    assert "is not a duration" in capsys.readouterr().err
