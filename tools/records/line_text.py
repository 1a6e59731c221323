"""The texts of a record's line: how its bytes become text for a terminal, for a file or a pipe, or stay bytes. Pure.

Rules: a terminal gets no character that it would obey or not show (`runtime.texts.visible`); a value keeps its line feeds and
tabs. A file or a pipe gets text as it is, with what is no UTF-8 escaped. With `--raw` both get the bytes: what is no UTF-8 is
surrogates until the line is written, as of Python's "surrogateescape". What there is not is "null", as
kafka-console-consumer.sh prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.texts import visible
from tools.records.record_view import RecordView

Line = Callable[[RecordView], str | bytes]
"""Makes the line of a record, with its end; bytes with `--raw`."""


@dataclass(frozen=True, slots=True)
class LineText:
    """For one output."""

    is_raw: bool = False
    is_terminal: bool = False
    null: str = "null"

    def text(self, data: bytes | None) -> str:
        """Return a key or the value of a header."""
        return self.null if data is None else self.name(self._decoded(data))

    def value(self, data: bytes | None) -> str:
        """Return the value of a record."""
        if data is None:
            return self.null
        text = self._decoded(data)
        return visible(text, keeps_lines=True) if self._is_shown else text

    def name(self, text: str) -> str:
        return visible(text) if self._is_shown else text

    def literal(self, data: bytes) -> str:
        """Return what the user has given as a part of each line."""
        return self._decoded(data)

    def headers(self, record: RecordView, separator: str, between: str, none: str) -> str:
        """Return the headers, `between` name and value; `none` where a record has none."""
        if record.unreadable_name is not None:
            return f"(unreadable, a name is no UTF-8: {self.name(record.unreadable_name)})"
        shown = [f"{self.name(name)}{between}{self.text(value)}" for name, value in record.headers]
        return separator.join(shown) if shown else none

    def line(self, made: Callable[[RecordView], str]) -> Line:
        """Return what makes the line for this output."""
        if not self.is_raw:
            return made
        return lambda record: made(record).encode("utf-8", "surrogateescape")

    @property
    def _is_shown(self) -> bool:
        return self.is_terminal and not self.is_raw

    def _decoded(self, data: bytes) -> str:
        return data.decode("utf-8", "surrogateescape" if self.is_raw else "backslashreplace")
