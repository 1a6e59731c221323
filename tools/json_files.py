"""The JSON files of the kafka-*.sh tools that name topics, partitions, or offsets of partitions. Plans of reassignments are
`tools.reassignment.plan_file`.

    {"topics": [{"topic": "orders"}], "version": 1}                                  kafka-reassign-partitions.sh --generate
    {"partitions": [{"topic": "orders", "partition": 0}]}                            kafka-leader-election.sh
    {"partitions": [{"topic": "orders", "partition": 0, "offset": 17}], "version": 1}    kafka-delete-records.sh

Invariant: what was read names each topic or partition once, and at least one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from runtime.command_line.failure import Failure
from runtime.command_line.parsing import is_text
from tools.group_lag import Key

TO_THE_END = -1
"""The offset that means everything."""
T = TypeVar("T")


def read_topics(path: str) -> tuple[str, ...]:
    """Raises Failure."""
    return tuple(
        _read(path, "topics", '{"topics": [{"topic": "orders"}], "version": 1}', lambda row: _text(row["topic"]))
    )


def read_partitions(path: str) -> list[Key]:
    """Raises Failure."""
    return _read(path, "partitions", '{"partitions": [{"topic": "orders", "partition": 0}]}', _key)


def read_offsets(path: str) -> dict[Key, int]:
    """Return the offset of each partition, TO_THE_END for everything. Raises Failure."""
    form = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 17}], "version": 1}'
    rows = _read(path, "partitions", form, lambda row: (_key(row), _number(row["offset"], TO_THE_END)))
    found = dict(rows)
    if len(found) < len(rows):
        raise Failure(f"{path} names a partition twice")
    return found


def _read(path: str, name: str, form: str, read_row: Callable[[Any], T]) -> list[T]:
    """Raises Failure."""
    try:
        with open(path, encoding="utf-8") as file:
            rows = [read_row(row) for row in json.load(file)[name]]
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError):
        raise Failure(f"{path} is not of the form {form}") from None
    if not rows:
        raise Failure(f"{path} names no {name}")
    if len(set(rows)) < len(rows):
        raise Failure(f"{path} names one of its {name} twice")
    return rows


def _key(row: Any) -> Key:
    return _text(row["topic"]), _number(row["partition"], 0)


def _text(value: Any) -> str:
    """Raises TypeError, ValueError."""
    if not isinstance(value, str):
        raise TypeError(value)
    if not is_text(value):
        raise ValueError(value)
    return value


def _number(value: Any, least: int) -> int:
    """Raises TypeError, ValueError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    if value < least:
        raise ValueError(value)
    return value
