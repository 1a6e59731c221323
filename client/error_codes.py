"""The error codes of a response, wherever they are in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from protocol.schema import Message


def error_codes(message: Message) -> Iterator[int]:
    """Iterate over the error codes that are not 0: a response's own first, then those of its rows."""
    rows: list[Iterable[Message]] = []
    for field in message.__fields__:
        if field.name.endswith("error_code"):
            if code := getattr(message, field.name):
                yield code
        elif field.kind == "array" and isinstance(field.element, type):
            rows.append(getattr(message, field.name) or ())
    for row in (each for some in rows for each in some):
        yield from error_codes(row)
