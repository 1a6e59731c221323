"""Plans as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.command_line.failure import Failure
from tools.reassignment.plan_file import Target, parse_plan, plan_of, plan_text, read_plan, write_plan


def test_a_plan_is_what_was_written(tmp_path: Path) -> None:
    plan = {("a", 1): Target((1, 2), ("any", "/d/2")), ("a", 0): Target((3,))}
    path = str(tmp_path / "plan.json")
    write_plan(path, plan)
    assert read_plan(path) == plan
    assert plan["a", 1].directories == {2: "/d/2"}
    assert plan_text(plan_of({("t", 0): [1, 2]})) == (
        '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not the JSON"),
        ("[]", "not of the form"),
        ("{}", "not of the form"),
        ('{"version": 2, "partitions": []}', "version 2 is not known"),
        ('{"partitions": [1]}', "a row is not of the form"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "a row is not of the form"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', "t-0 has no replicas"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "two replicas on one broker"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}]}', "2 replicas and 1"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}, {"topic": "t", "partition": 0, "replicas": [2]}]}',
         "t-0 is there twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plan_is_told(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_plan(text)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"cannot read .*missing"):
        read_plan(str(tmp_path / "missing"))
    with pytest.raises(Failure, match="cannot write"):
        write_plan(str(tmp_path / "no" / "plan"), {})
