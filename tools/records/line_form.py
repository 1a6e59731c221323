"""How a line of text is a record: its headers, its key and its value. Pure.

The properties are those of kafka-console-producer.sh: `parse.key`, `key.separator`, `parse.headers`, `headers.delimiter`,
`headers.separator`, `headers.key.separator`, `ignore.error`, `null.marker`. Their defaults are that tool's, too: a line is
`h1:v1,h2:v2 TAB key TAB value`.
Source: kafka-console-producer.sh, ConsoleProducer.LineMessageReader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import click

Header = tuple[str, bytes | None]
_TEXTS = {
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
_SWITCHES = ("parse.key", "parse.headers", "ignore.error")


@dataclass(frozen=True, slots=True)
class LineForm:
    """What is not parsed is the value. `null_marker` is the text that means that there is none."""

    key_separator: bytes | None = None
    headers_delimiter: bytes | None = None
    headers_separator: bytes = b","
    header_key_separator: bytes = b":"
    ignores_errors: bool = False
    null_marker: bytes | None = None

    @classmethod
    def of(cls, given: Iterable[str], key_separator: str | None) -> LineForm:
        """From NAME=VALUE texts and the option that is one of them. Raises click.BadParameter."""
        properties = properties_of(given, (*_TEXTS, *_SWITCHES, "null.marker"))
        texts = {name: properties.get(name, default).encode() for name, default in _TEXTS.items()}
        empty = [name for name, text in texts.items() if not text]
        if empty:
            raise click.BadParameter(f"{empty[0]} is empty", param_hint="--property")
        if key_separator is not None:
            if not key_separator:
                raise click.BadParameter("it is empty", param_hint="--key-separator")
            texts["key.separator"] = key_separator.encode()
        marker = properties.get("null.marker")
        parses_key = key_separator is not None or switch(properties, "parse.key")
        return cls(
            texts["key.separator"] if parses_key else None,
            texts["headers.delimiter"] if switch(properties, "parse.headers") else None,
            texts["headers.separator"],
            texts["headers.key.separator"],
            switch(properties, "ignore.error"),
            None if marker is None else marker.encode(),
        )

    def parse(self, line: bytes) -> tuple[list[Header], bytes | None, bytes | None]:
        """Return headers, key and value of a line, which has no end of line any more. Raises ValueError."""
        headers: list[Header] = []
        if self.headers_delimiter is not None:
            head, line = self._cut(line, self.headers_delimiter, "headers delimiter")
            if head is not None and self._or_none(head) is not None:
                headers = [self._header(pair) for pair in head.split(self.headers_separator)]
        key = None
        if self.key_separator is not None:
            key, line = self._cut(line, self.key_separator, "key separator")
        return headers, self._or_none(key), self._or_none(line)

    def _cut(self, line: bytes, separator: bytes, what: str) -> tuple[bytes | None, bytes]:
        head, found, rest = line.partition(separator)
        if found:
            return head, rest
        if self.ignores_errors:
            return None, line
        raise ValueError(f"has no {what} {separator.decode()!r}")

    def _header(self, pair: bytes) -> Header:
        name, found, value = pair.partition(self.header_key_separator)
        shown = pair.decode(errors="backslashreplace")
        if not found and not self.ignores_errors:
            raise ValueError(f"has no header key separator {self.header_key_separator.decode()!r} in {shown!r}")
        if self._or_none(name) is None:
            raise ValueError(f"has a header without a name: {shown!r}")
        return name.decode(), self._or_none(value) if found else None

    def _or_none(self, text: bytes | None) -> bytes | None:
        return None if text is not None and text == self.null_marker else text


def properties_of(given: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return the properties of NAME=VALUE texts; a value may be blanks. Raises click.BadParameter for another name."""
    names = tuple(known)
    properties = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or name not in names:
            raise click.BadParameter(
                f"{text!r} is not of the form NAME=VALUE with one of {', '.join(names)}", param_hint="--property"
            )
        properties[name] = value
    return properties


def switch(properties: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Raises click.BadParameter for what is neither true nor false."""
    text = properties.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise click.BadParameter(f"{name}={text} is neither true nor false", param_hint="--property")
    return text == "true"
