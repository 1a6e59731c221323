"""Records as a file: JSON lines, or CSV for spreadsheets.

    {"partition":0,"offset":0,"timestamp":1700000000000,"headers":[{"name":"h","value":"a"}],"key":"k","value":"v"}

Rules: a file has every record that was asked for up to the ends when it was begun, or it is broken off. Bytes that are
no text are base64, under a name of their own. In CSV a text that a spreadsheet would take for a formula has an
apostrophe before it.
"""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from web.messages.conditions import Contents, is_slow_for
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
_QUOTED: Final = (",", '"', "\r", "\n")
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
        pieces = [",".join(_COLUMNS).encode() + b"\r\n"] if self.is_csv else []
        size_bytes = 0
        try:
            async with self.reading, aclosing(self._rows()) as rows:
                async for row in rows:
                    if row is not None:
                        pieces.append(await self._line(*row))
                        size_bytes += len(pieces[-1])
                    if size_bytes >= PIECE_BYTES:
                        data = b"".join(pieces)
                        pieces.clear()
                        size_bytes = 0
                        for at in range(0, len(data), PIECE_BYTES):  # a server keeps what it is given in one piece
                            yield data[at : at + PIECE_BYTES]
                        data = b""
        except STREAM_ERRORS as error:
            raise BrokenOff(str(error)) from error
        yield b"".join(pieces)

    async def _line(self, partition: int, match: Match) -> bytes:
        """Return a record as a line, that of a large one made in a thread."""
        line: Callable[[dict[str, Any]], bytes] = csv_line if self.is_csv else json_line
        record = match.record
        if not is_slow_for(Contents(record.key, record.value, record.headers)):
            return line(_fields(partition, match))
        return await asyncio.get_running_loop().run_in_executor(
            self.matching.threads, lambda: line(_fields(partition, match))
        )

    async def _rows(self) -> AsyncGenerator[tuple[int, Match] | None, None]:
        """Iterate over records and their partitions. Raises STREAM_ERRORS, BrokenOff for a batch that cannot be read."""
        count = 0
        while not self.progress.is_done:
            for fetched in await self.reading.poll(_POLL_MS):
                row = self.progress.ranges[fetched.partition]
                async with aclosing(self.matching.matches(fetched, row)) as matches:
                    async for match in matches:
                        if match is None:
                            yield None
                            continue
                        yield fetched.partition, match
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
    return (",".join([_cell(cells.get(column)) for column in _COLUMNS]) + "\r\n").encode("utf-8", "replace")


def _cell(value: str | int | None) -> str:
    """Return a cell as RFC 4180 has it. The library's writer takes four bytes of memory for each character, twice."""
    text = "" if value is None else str(value)
    if isinstance(value, str) and text.lstrip(" ").startswith(_FORMULA_STARTS):
        text = f"'{text}"
    if any(each in text for each in _QUOTED):
        return '"' + text.replace('"', '""') + '"'
    return text


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
