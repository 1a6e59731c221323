"""The endpoints of messages, below /api/topics/{topic}/messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import Response

from web.messages.cursors import CursorKind
from web.messages.decoding import RecordDecoding
from web.messages.events import EventStream
from web.messages.matching import Matching
from web.messages.progress import Progress
from web.messages.reading import RangeReading
from web.messages.searches import Search
from web.messages.selection import Query as MessageQuery
from web.messages.selection import Selection, Start
from web.messages.shown import RecordForm
from web.messages.starts import bounds, ranges
from web.parts import WebParts
from web.requests import Cluster, Parts

router = APIRouter(prefix="/api/topics/{topic}/messages", tags=["messages"])
SEARCH_LIMIT = 500
MAX_SEARCH_LIMIT = 10_000


def _query(
    partitions: Annotated[str, Query(max_length=8_000, description="such as 0,3,5-7; all without it")] = "",
    start: Annotated[str, Query(description="beginning, last, end, offset or time")] = "",
    offset: Annotated[int | None, Query(ge=0, description="for start=offset")] = None,
    since: Annotated[str, Query(description="milliseconds since 1970 or ISO 8601 with a zone")] = "",
    until: Annotated[str, Query(description="the same; records before it")] = "",
    limit: Annotated[int | None, Query(description="how many records")] = None,
    where: Annotated[list[str] | None, Query(description="TARGET:TEST:TEXT; all must hold")] = None,
    key_format: Annotated[str, Query(description="auto, text, json, hex, schema or internal")] = "auto",
    value_format: Annotated[str, Query(description="as key_format")] = "auto",
    isolation: Annotated[str, Query(description="committed or uncommitted")] = "uncommitted",
    cursor: Annotated[str, Query(max_length=8_192, description="from an earlier answer")] = "",
) -> MessageQuery:
    return MessageQuery(
        partitions, start, offset, since, until, limit, tuple(where or ()), key_format, value_format, isolation, cursor
    )


Selected = Annotated[MessageQuery, Depends(_query)]
LastEventId = Annotated[str, Header(alias="last-event-id", max_length=8_192)]


def _search_place(parts: Parts) -> Iterator[None]:
    with parts.messages.searches.taking():
        yield


def _matching(parts: WebParts, selection: Selection) -> Matching:
    decoding = RecordDecoding(selection.topic, selection.key_format, selection.value_format, parts.schemas)
    form = RecordForm(selection.key_format, selection.value_format)
    return Matching.of(selection.conditions, decoding, form, parts.surroundings.clock, parts.surroundings.threads)


def _reading(parts: WebParts, cluster: Cluster, selection: Selection, progress: Progress) -> RangeReading:
    return RangeReading(
        cluster,
        selection.topic,
        progress,
        is_committed=selection.is_committed,
        budget=parts.messages.budget,
        clock=parts.surroundings.clock,
    )


@router.get("/search", response_class=Response, dependencies=[Depends(_search_place)])
async def search(
    topic: str, query: Selected, parts: Parts, cluster: Cluster, last_event_id: LastEventId = ""
) -> Response:
    """Search records: server-sent events `hit`, `progress`, `paused`, `end`, `problem`."""
    selection = Selection.of(
        topic,
        query.going_on(last_event_id),
        Start.BEGINNING,
        (Start.BEGINNING, Start.OFFSET, Start.TIME),
        (CursorKind.SEARCH,),
        default_limit=SEARCH_LIMIT,
        max_limit=MAX_SEARCH_LIMIT,
    )
    clock = parts.surroundings.clock
    found = await bounds(cluster, selection)
    progress = Progress(await ranges(cluster, selection, found), clock.monotonic_ms())
    made = Search(
        _matching(parts, selection),
        _reading(parts, cluster, selection, progress),
        progress,
        clock,
        selection.about,
        selection.limit or SEARCH_LIMIT,
        parts.messages.max_search_ms,
        selection.cursor.done if selection.cursor is not None else frozenset(),
        found.failed,
    )
    return EventStream(made.events(), lambda: clock.monotonic_ms() / 1000)
