"""What the audit log says of a request of administration: what it is about, and what became of it. Pure.

Rules: a handler of administration declares its `Audit`. The rows of its messages are found by the names of their fields, and a
row is called by its first field: a name, or the index of a partition behind the name of its topic.
Names only: what is secret (credentials, values of settings, HMACs of tokens) is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from security.access import Operation

Names = Iterable[str]
Results = Iterable[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Audit:
    """`asked` returns the names in a request, `done` those in a request and its response, with their error codes."""

    operation: Operation
    kind: str
    asked: Callable[[Any], Names]
    done: Callable[[Any, Any], Results]


def audit(
    operation: Operation,
    kind: str,
    asked: str | Callable[[Any], Names],
    done: str | Callable[[Any, Any], Results],
    name_of: Callable[[Any], str] | None = None,
) -> Audit:
    """Return the row of an API. In place of a function there may be the field with the rows, such as "topics.partitions", or
    several fields. `name_of` returns the name of a row, if it is not its first field."""
    return Audit(
        operation,
        kind,
        (lambda request: (name for name, _ in _named(request, asked, name_of))) if isinstance(asked, str) else asked,
        (lambda _, response: ((name, row.error_code) for name, row in _named(response, done, name_of)))
        if isinstance(done, str)
        else done,
    )


def as_a_whole(_request: Any, response: Any) -> Results:
    return [("", response.error_code)]


def _named(message: Any, fields: str, name_of: Callable[[Any], str] | None) -> Iterator[tuple[str, Any]]:
    for field in fields.split():
        *around, last = field.split(".")
        outer = [message]
        for name in around:
            outer = [row for each in outer for row in getattr(each, name) or ()]
        for each in outer:
            for row in getattr(each, last) or ():
                name = name_of(row) if name_of is not None else str(_first(row))
                yield f"{_first(each)}-{name}" if around else name, row


def _first(row: Any) -> Any:
    return getattr(row, row.__fields__[0].name) if hasattr(row, "__fields__") else row
