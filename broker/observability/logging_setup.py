"""The loggers of a broker, and their levels as Kafka's tools see and set them.

Rules: lines go where `runtime.log_setup` sends them. Levels have the names of Log4j, which Kafka's tools use (TRACE and FATAL
are DEBUG and ERROR's neighbours there). Loggers have the names of modules, so that a package is the logger of all that is in
it; those of LOGGERS are there from the start, whether a module has asked for them or not.
Source of the logger levels: KIP-412; Kafka Log4jController; its config/log4j.properties.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TextIO

from runtime.command_line.output import print_problem
from runtime.log_forms import LEVELS, JsonFormatter, level_name
from runtime.log_setup import AUTO, ROOT, log_lines, logger_of, set_levels

logger = logging.getLogger("broker")

REQUEST_LOGGER = "kafka.request.logger"

LOGGERS = {
    "broker": "start and stop, and every logger below whose name begins with `broker`",
    "broker.cluster": "this broker as a member of a cluster: registration, requests of the controller, internal topics",
    "broker.network": "connections: those that are refused, closed, or cannot authenticate",
    "broker.observability.audit": "what clients are denied (INFO) and allowed (DEBUG)",
    "broker.settings": "changes of settings while the broker runs",
    "controller": "elections, reassignments, deletions of topics",
    "coordinator.group": "groups: members that join and leave, rebalances, expired offsets",
    "coordinator.runtime": "partitions of internal topics that are loaded and given up",
    "coordinator.transaction": "transactions: those that end, expire, or are fenced",
    REQUEST_LOGGER: "each request with its duration (DEBUG), and with its contents (TRACE)",
    "metadata.store": "the store: ZooKeeper sessions, or the file of a standalone broker",
    "replication": "partitions: leaders and followers, in-sync replicas, truncation",
    "security": "authorisation and authentication as far as they are rules",
    "storage": "logs: recovery, segments, retention, compaction, full and failed disks",
}
"""The loggers that an operator has use for, and what they write. Each module below them has one, too."""
_REQUEST_LEVEL = "WARN"
"""As in Apache Kafka, a lower level of the root logger does not log requests."""

_followers: list[Callable[[], None]] = []


def set_up_logging(levels: Sequence[str], form: str = AUTO, stream: TextIO | None = None) -> None:
    """Send log lines to `stream`, standard error by default. `levels` is a value of barnabas.log.level, `form` one of
    barnabas.log.format."""
    log_lines((), form, stream)
    for name in LOGGERS:
        logging.getLogger(name)
    logging.getLogger(REQUEST_LOGGER).setLevel(LEVELS[_REQUEST_LEVEL])
    set_levels(levels)


def report_refusal(reason: str) -> None:
    """Say on standard error why there is no broker: in one line for people, or for programs that read JSON as a record like
    any other."""
    if any(isinstance(handler.formatter, JsonFormatter) for handler in logging.root.handlers):
        logger.critical("broker not started: reason=%s", reason)
    else:
        print_problem(f"barnabas: {reason}")


# --- loggers over the wire ---


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
    logger_of(name).setLevel(LEVELS[level])
    _notify_followers()


def unset_logger_level(name: str) -> None:
    """Remove the level of a logger, so that its parent's applies. The root logger keeps its level."""
    assert name != ROOT
    logger_of(name).setLevel(logging.NOTSET)
    _notify_followers()


def follow_levels(callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` whenever the level of a logger has changed, until the function that is returned is called."""
    _followers.append(callback)
    return lambda: _followers.remove(callback)


def _notify_followers() -> None:
    for callback in _followers:
        callback()
