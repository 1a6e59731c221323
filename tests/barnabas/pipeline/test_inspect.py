from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipeline.frame import JobFailed
from barnabas.pipeline.inspect import batch_rows, key_text, log_files
from barnabas.pipeline.replay import value_sql


@pytest.mark.parametrize(
    ("key", "text"), [(None, "(none)"), (b"", ""), (b"Lyon", "Lyon"), (b"\xff", "0xff"), (b"a\nb", "0x610a62")]
)
def test_a_key_is_text_when_it_can_be_printed(key: bytes | None, text: str) -> None:
    assert key_text(key) == text


def test_log_files_of_a_topic_and_of_no_other_are_found_once(tmp_path: Path) -> None:
    for name in (
        "a/t-0/0.log",
        "a/t-0/0.index",
        "a/t-x-0/0.log",
        "a/tt-0/0.log",
        "b/t-0/0.log",
        "b/t-1/0.log",
        "b/t-1/5.log",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    found = log_files([str(tmp_path / "a"), str(tmp_path / "b")], "t")
    assert [str(Path(each).relative_to(tmp_path)) for each in found] == ["a/t-0/0.log", "b/t-1/0.log", "b/t-1/5.log"]
    with pytest.raises(JobFailed, match="have no log files of topic u"):
        log_files([str(tmp_path / "a")], "u")


def test_figures_of_batches_become_ratios() -> None:
    from barnabas.spark.files.batch_figures import BatchFigures

    assert batch_rows([BatchFigures("lz4", 4, 10, 200, 500)]) == [("lz4", 4, 10, 2.5, 50.0, 200, 500, 2.5)]


@pytest.mark.parametrize(
    ("types", "sql"),
    [
        ({"value": "binary"}, "value"),
        ({"value": "string", "undecoded": "binary"}, "COALESCE(CAST(value AS BINARY), undecoded)"),
        (
            {"value": "struct<n:int>", "undecoded": "binary"},
            "COALESCE(CAST(TO_JSON(value, MAP('timeZone', 'UTC')) AS BINARY), undecoded)",
        ),
    ],
)
def test_a_replay_writes_values_of_every_form(types: dict[str, str], sql: str) -> None:
    assert value_sql(types) == sql
