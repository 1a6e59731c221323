"""Log lines: logfmt on stderr, one line an event, and the levels of loggers as Kafka's tools see and set them.

Rules: this is the only place that configures `logging`. A message is `event: key=value key=value`; the line
adds time, level and logger. A traceback is one escaped field at the end, so that a line is always a record.
Levels have the names of Log4j, which Kafka's tools use (TRACE and FATAL are DEBUG and ERROR's neighbours there).
Source of the logger levels: KIP-412; Kafka Log4jController.
"""

from __future__ import annotations

import datetime
import logging
import sys

ROOT = "root"
TRACE = 5
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": TRACE,
    "WARN": logging.WARNING,
}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_NAMES = {number: name for name, number in LEVELS.items()}


class LogfmtFormatter(logging.Formatter):
    """`time=... level=info logger=broker.server msg="..."`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = (
            f"time={moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z level={level_name(record.levelno).lower()} "
            f"logger={record.name} msg={quoted(record.getMessage())}"
        )
        if record.exc_info:
            line += f" error={quoted(self.formatException(record.exc_info))}"
        return line


def quoted(text: str) -> str:
    """Return a logfmt value: unquoted if it is one plain word, else in double quotes with escapes."""
    if text and not any(character in '" =\\' or character < " " for character in text):
        return text
    return f'"{text.translate(_ESCAPES)}"'


def set_up_logging(level: str) -> None:
    """Send log lines of `level` (a name in LEVELS, in any case) and above to stderr."""
    logging.addLevelName(TRACE, "TRACE")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogfmtFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level.upper()])
    logging.captureWarnings(True)  # a library's warning is a log line too


# --- loggers over the wire ---


def level_name(number: int) -> str:
    """Return the name of the nearest level at or below `number`."""
    return _NAMES[max((known for known in _NAMES if known <= number), default=TRACE)]


def loggers() -> dict[str, str]:
    """Return every logger with its effective level."""
    known = logging.root.manager.loggerDict
    levels = {
        name: level_name(logger.getEffectiveLevel())
        for name, logger in known.items()
        if isinstance(logger, logging.Logger)
    }
    return {ROOT: level_name(logging.root.level), **levels}


def set_logger_level(name: str, level: str) -> None:
    """Set the level of a logger. `level` is in LEVELS, `name` in `loggers()`."""
    _logger(name).setLevel(LEVELS[level])


def unset_logger_level(name: str) -> None:
    """Remove the level of a logger, so that its parent's applies. The root logger keeps its level."""
    assert name != ROOT
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)
