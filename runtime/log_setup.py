"""Where the log lines of a process go, in which form, and from which level on.

Rules: this is the only place that configures `logging`; lines go to standard error, in the forms of `runtime.log_forms`. Levels
have the names of Log4j, which Kafka's tools use.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from runtime.log_forms import LEVELS, TRACE, JsonFormatter, TerminalFormatter, TextFormatter

ROOT = "root"
AUTO = "auto"


def log_lines(levels: Sequence[str], form: str = AUTO, stream: TextIO | None = None) -> None:
    """Send log lines to `stream`, standard error by default. `levels` is a value of barnabas.log.level, `form` one of
    barnabas.log.format."""
    logging.addLevelName(TRACE, "TRACE")
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(form, stream))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    set_levels(levels)
    logging.captureWarnings(True)  # a library's warning is a log line too


def set_levels(levels: Sequence[str]) -> None:
    """Set the levels of a value of barnabas.log.level."""
    for text in levels:
        name, _, level = text.rpartition("=")
        logger_of(name or ROOT).setLevel(LEVELS[level.upper()])


def logger_of(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def formatter(form: str, stream: TextIO | None) -> logging.Formatter:
    """Return what formats lines for `stream`; with AUTO that is the terminal form if it is a terminal, else text."""
    is_terminal = stream is not None and stream.isatty()
    match form:
        case "json":
            return JsonFormatter()
        case "text":
            return TextFormatter()
        case "terminal":
            pass
        case _:
            assert form == AUTO
            if not is_terminal:
                return TextFormatter()
    has_colours = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return TerminalFormatter(has_colours=has_colours)
