"""Records as a file: JSON lines, or CSV for spreadsheets.

    {"partition":0,"offset":0,"timestamp":1700000000000,"headers":[{"name":"h","value":"a"}],"key":"k","value":"v"}

Rules: a file has every record that was asked for up to the ends when it was begun, or it is broken off. Bytes that are
no text are base64, under a name of their own. In CSV a text that a spreadsheet would take for a formula has an
apostrophe before it.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from web.messages.events import PIECE_BYTES, STREAM_ERRORS, BrokenOff

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from web.messages.matching import Match, Matching
    from web.messages.progress import Progress
    from web.messages.reading import RangeReading
    from web.messages.shown import Decoded

_POLL_MS: Final = 250
_COLUMNS: Final = (
    "partition", "offset", "timestamp", "headers", "key", "key_base64", "value", "value_base64",
)  # fmt: skip
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@dataclass(slots=True)
class Download:
    """Reads ranges into a file. `max_records` None is no limit."""

    matching: Matching
    reading: RangeReading
    progress: Progress
    max_records: int | None
    is_csv: bool

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Return the file in pieces. Raises BrokenOff when it cannot be finished."""
        line: Callable[[dict[str, Any]], bytes] = csv_line if self.is_csv else json_line
        pieces = [",".join(_COLUMNS).encode() + b"\r\n"] if self.is_csv else []
        size_bytes = 0
        try:
            async with self.reading, aclosing(self._rows()) as rows:
                async for row in rows:
                    if row is not None:
                        pieces.append(line(row))
                        size_bytes += len(pieces[-1])
                    if size_bytes >= PIECE_BYTES:
                        yield b"".join(pieces)
                        pieces.clear()
                        size_bytes = 0
        except STREAM_ERRORS as error:
            raise BrokenOff(str(error)) from error
        yield b"".join(pieces)

    async def _rows(self) -> AsyncGenerator[dict[str, Any] | None, None]:
        """Iterate over records. Raises STREAM_ERRORS, BrokenOff for a batch that cannot be read."""
        count = 0
        while not self.progress.is_done:
            for fetched in await self.reading.poll(_POLL_MS):
                row = self.progress.ranges[fetched.partition]
                async with aclosing(self.matching.matches(fetched, row)) as matches:
                    async for match in matches:
                        if match is None:
                            yield None
                            continue
                        yield _fields(fetched.partition, match)
                        count += 1
                        if count == self.max_records:
                            return
                if row.has_gaps:
                    raise BrokenOff(f"partition {row.partition}: {row.note}")


def json_line(fields: dict[str, Any]) -> bytes:
    """Return a line of JSON."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def csv_line(fields: dict[str, Any]) -> bytes:
    """Return a line of CSV that no spreadsheet calculates."""
    cells = dict(fields)
    cells["headers"] = json.dumps(fields["headers"], ensure_ascii=False, separators=(",", ":"))
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_MINIMAL, lineterminator="\r\n").writerow(
        [_cell(cells.get(column)) for column in _COLUMNS]
    )
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> object:
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value


def _fields(partition: int, match: Match) -> dict[str, Any]:
    record = match.record
    headers = [{"name": name, **_named("value", data, None)} for name, data in record.headers]
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "headers": headers,
        **_named("key", record.key, match.key),
        **_named("value", record.value, match.value),
    }


def _named(name: str, data: bytes | None, decoded: Decoded | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    if decoded is not None and decoded.text is not None:
        return {name: decoded.text}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
