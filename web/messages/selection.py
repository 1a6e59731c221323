"""Which records a request asks for, of what its query says. Pure.

Rules: every wrong parameter is told with what is expected. `about` is what a cursor goes on with: the same parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Final

from web.errors import HttpProblem
from web.messages.conditions import HOW, Conditions, InvalidCondition
from web.messages.cursors import Cursor, CursorKind, InvalidCursor
from web.messages.partition_lists import parse_partitions, partitions_text
from web.messages.shown import Format

MAX_TOPIC_CHARS: Final = 249
_MAX_MS: Final = (1 << 63) - 1


class Start(Enum):
    BEGINNING = "beginning"
    LAST = "last"
    END = "end"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters as they came."""

    partitions: str = ""
    start: str = ""
    offset: int | None = None
    since: str = ""
    until: str = ""
    limit: int | None = None
    where: tuple[str, ...] = ()
    key_format: str = "auto"
    value_format: str = "auto"
    isolation: str = "uncommitted"
    cursor: str = ""

    def going_on(self, last_event_id: str) -> Query:
        """Return the query with the cursor that a browser sends when it connects again."""
        return replace(self, cursor=last_event_id) if last_event_id else self


@dataclass(frozen=True, slots=True)
class Selection:
    """`partitions` None are all; `limit` None is none."""

    topic: str
    partitions: tuple[int, ...] | None
    start: Start
    offset: int
    conditions: Conditions
    limit: int | None
    key_format: Format
    value_format: Format
    is_committed: bool
    about: str
    cursor: Cursor | None

    @classmethod
    def of(
        cls,
        topic: str,
        query: Query,
        default_start: Start,
        starts: tuple[Start, ...],
        cursors: tuple[CursorKind, ...],
        *,
        default_limit: int | None,
        max_limit: int | None,
    ) -> Selection:
        """Raises HttpProblem 400."""
        since_ms, until_ms = _time("since", query.since), _time("until", query.until)
        start = _start(query, since_ms, default_start, starts)
        if since_ms is not None and until_ms is not None and until_ms <= since_ms:
            raise _wrong("until", "it is not after since")
        try:
            conditions = Conditions.parse(query.where, since_ms, until_ms)
        except InvalidCondition as error:
            raise HttpProblem(400, str(error), code="INVALID_CONDITION", next_step=HOW) from None
        try:
            partitions = tuple(parse_partitions(query.partitions)) if query.partitions else None
        except ValueError as error:
            raise _wrong("partitions", str(error)) from None
        if query.isolation not in ("committed", "uncommitted"):
            raise _wrong("isolation", "it is committed or uncommitted")
        key_format, value_format = _format("key_format", query.key_format), _format("value_format", query.value_format)
        about = "\n".join(
            (
                topic, "" if partitions is None else partitions_text(partitions), *query.where, str(since_ms),
                str(until_ms), key_format.value, value_format.value, query.isolation,
            )
        )  # fmt: skip
        try:
            cursor = Cursor.parse(query.cursor, about, *cursors) if query.cursor else None
        except InvalidCursor as error:
            raise HttpProblem(
                400, str(error), code="INVALID_CURSOR", next_step="begin again without a cursor"
            ) from None
        limit = default_limit if query.limit is None else query.limit
        if limit is not None and (limit < 1 or (max_limit is not None and limit > max_limit)):
            raise _wrong("limit", f"it is from 1 to {max_limit}" if max_limit is not None else "it is at least 1")
        return cls(
            topic,
            partitions,
            start,
            query.offset or 0,
            conditions,
            limit,
            key_format,
            value_format,
            query.isolation == "committed",
            about,
            cursor,
        )


def _start(query: Query, since_ms: int | None, default: Start, starts: tuple[Start, ...]) -> Start:
    if not query.start:
        if query.offset is not None:
            return Start.OFFSET
        return Start.TIME if since_ms is not None and Start.TIME in starts else default
    start = next((each for each in starts if each.value == query.start), None)
    if start is None:
        raise _wrong("start", f"it is one of {', '.join(each.value for each in starts)}")
    if start is Start.OFFSET and (query.offset is None or query.offset < 0):
        raise _wrong("offset", "start=offset needs one, from 0 on")
    if start is Start.TIME and since_ms is None:
        raise _wrong("since", "start=time needs it")
    return start


def _format(name: str, text: str) -> Format:
    try:
        return Format(text)
    except ValueError:
        raise _wrong(name, f"it is one of {', '.join(each.value for each in Format)}") from None


def _time(name: str, text: str) -> int | None:
    """Return milliseconds since 1970 of a number or of ISO 8601 with a zone."""
    if not text:
        return None
    if text.isascii() and text.isdigit() and int(text[:20]) <= _MAX_MS:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise _wrong(name, "it is milliseconds since 1970, or a time as 2026-01-31T10:00:00Z, with its zone")
    return max(round(found.timestamp() * 1000), 0)


def _wrong(name: str, problem: str) -> HttpProblem:
    return HttpProblem(400, f"{name}: {problem}", code="INVALID_PARAMETER")
