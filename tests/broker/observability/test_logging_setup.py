"""Log lines have the form and the levels that are asked for; loggers are changed while the broker runs."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.observability import logging_setup
from broker.observability.logging_setup import LOGGERS, REQUEST_LOGGER, follow_levels, set_up_logging
from runtime.log_forms import JsonFormatter, TerminalFormatter, TextFormatter
from runtime.log_setup import ROOT, formatter

LOGGER = "tests.some.logger"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, names = logging.getLogger(), (*LOGGERS, LOGGER)
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, each in levels.items():
        logging.getLogger(name).setLevel(each)
    logging.captureWarnings(False)


@pytest.mark.parametrize(
    ("form", "stream", "kind"),
    [
        ("auto", Terminal(), TerminalFormatter),
        ("auto", io.StringIO(), TextFormatter),
        ("auto", None, TextFormatter),
        ("terminal", io.StringIO(), TerminalFormatter),
        ("text", Terminal(), TextFormatter),
        ("json", Terminal(), JsonFormatter),
    ],
)
def test_the_form_is_that_of_the_setting_or_of_the_stream(
    form: str, stream: io.StringIO | None, kind: type[logging.Formatter]
) -> None:
    assert type(formatter(form, stream)) is kind


@pytest.mark.parametrize(
    ("stream", "environment", "has_colours"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, environment: dict[str, str], has_colours: bool
) -> None:
    monkeypatch.setattr(os, "environ", environment)
    line = formatter("terminal", stream).format(logging.LogRecord("a", logging.INFO, "f", 1, "event", (), None))
    assert ("\033[" in line) is has_colours


def test_levels_of_all_loggers_and_of_single_ones() -> None:
    stream = io.StringIO()
    set_up_logging(("warn", f"{LOGGER}=DEBUG"), "json", stream)
    logging.getLogger("tests.other").info("not written")
    logging.getLogger(LOGGER).debug("written: topic=%s", "t")
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert (line["logger"], line["level"], line["topic"]) == (LOGGER, "debug", "t")
    assert logging_setup.loggers()[ROOT] == "WARN"


def test_packages_are_loggers_from_the_start_and_requests_are_not_logged_with_everything_else() -> None:
    set_up_logging(("DEBUG",), "text", io.StringIO())
    known = logging_setup.loggers()
    assert known.keys() >= LOGGERS.keys()
    assert known[REQUEST_LOGGER] == "WARN"
    assert known["broker.network"] == "DEBUG"


def test_who_follows_levels_is_told_of_each_change_until_it_does_no_longer() -> None:
    seen: list[int] = []
    end = follow_levels(lambda: seen.append(logging.getLogger(LOGGER).level))
    logging_setup.set_logger_level(LOGGER, "ERROR")
    logging_setup.unset_logger_level(LOGGER)
    end()
    logging_setup.set_logger_level(LOGGER, "INFO")
    assert seen == [logging.ERROR, logging.NOTSET]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_refusal_is_one_line_in_the_form_of_the_log(capsys: pytest.CaptureFixture[str], form: str) -> None:
    stream = io.StringIO()
    set_up_logging((), form, stream)
    logging_setup.report_refusal("the port is in use")
    printed = capsys.readouterr().err
    if form == "json":
        assert not printed
        assert json.loads(stream.getvalue())["reason"] == "the port is in use"
    else:
        assert printed == "barnabas: the port is in use\n" and not stream.getvalue()


def test_the_table_of_loggers_names_what_is_there() -> None:
    root = os.path.dirname(os.path.dirname(os.path.abspath(logging_setup.__file__)))
    for name in LOGGERS.keys() - {REQUEST_LOGGER}:
        path = os.path.join(os.path.dirname(root), *name.split("."))
        assert os.path.isdir(path) or os.path.isfile(f"{path}.py"), name


def test_the_page_for_operators_has_the_loggers_and_the_events_that_there_are() -> None:
    root = Path(logging_setup.__file__).resolve().parents[2]
    page = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z._]+)` \| (.+) \|$", page.partition("## The broker logs too little")[2], re.MULTILINE)
    assert LOGGERS.items() <= dict(rows).items()
    table = page.partition("## Which line tells that ...")[2].partition("\n## ")[0]
    events = re.findall(r"^\| [^|]+ \| `([^`]+)` \| `([^`]+)`, ", table, re.MULTILINE)
    assert len(events) > 15
    for event, name in events:
        source = root.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        assert f'"{event}' in source, (event, name)
