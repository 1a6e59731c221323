"""The endpoints of messages, below /api/topics/{topic}/messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Path, Query
from fastapi.responses import JSONResponse, Response

from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem
from web.messages.browse import Browsing
from web.messages.cursors import CursorKind
from web.messages.decoding import RecordDecoding
from web.messages.downloads import Download
from web.messages.events import ByteStream, Events, EventStream, attachment, in_pieces
from web.messages.follow import Follow
from web.messages.matching import Match, Matching
from web.messages.models import Copy, Details, NewRecord, Page, Written
from web.messages.one_record import OneRecord, details_of
from web.messages.progress import PartitionRange, Progress
from web.messages.reading import RangeReading
from web.messages.searches import Search
from web.messages.selection import Query as MessageQuery
from web.messages.selection import Selection, Start
from web.messages.shown import DETAIL_BYTES, DETAIL_HEADERS, RecordForm
from web.messages.starts import bounds, page_ranges, ranges
from web.messages.writing import write_copy, write_new
from web.parts import WebParts
from web.requests import WRITING, Cluster, Parts

router = APIRouter(prefix="/api/topics/{topic}/messages", tags=["messages"])
PAGE_LIMIT, MAX_PAGE_LIMIT = 50, 500
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
PartitionNumber = Annotated[int, Path(ge=0, le=2**31 - 1)]
Offset = Annotated[int, Path(ge=0, le=2**63 - 1)]
LastEventId = Annotated[str, Header(alias="last-event-id", max_length=8_192)]


def _search_place(parts: Parts) -> Iterator[None]:
    with parts.messages.searches.taking():
        yield


def _follower_place(parts: Parts) -> Iterator[None]:
    with parts.messages.followers.taking():
        yield


async def _large_place(parts: Parts) -> AsyncIterator[None]:
    async with parts.messages.large:
        yield


def _matching(parts: WebParts, selection: Selection, form: RecordForm | None = None) -> Matching:
    decoding = RecordDecoding(selection.topic, selection.key_format, selection.value_format, parts.schemas)
    shown_as = form or RecordForm(selection.key_format, selection.value_format)
    return Matching.of(selection.conditions, decoding, shown_as, parts.surroundings.clock, parts.surroundings.threads)


def _reading(parts: WebParts, cluster: UserCluster, selection: Selection, progress: Progress) -> RangeReading:
    return RangeReading(
        cluster,
        selection.topic,
        progress,
        is_committed=selection.is_committed,
        budget=parts.messages.budget,
        clock=parts.surroundings.clock,
    )


def _event_stream(parts: WebParts, events: Events) -> EventStream:
    clock = parts.surroundings.clock
    return EventStream(events, lambda: clock.monotonic_ms() / 1000)


@router.get("", response_model=Page)
async def browse(topic: str, query: Selected, parts: Parts, cluster: Cluster) -> Response:
    """One page of records: the last ones, those from an offset or a time on, or those next to an earlier page."""
    selection = Selection.of(
        topic,
        query,
        Start.LAST,
        (Start.LAST, Start.BEGINNING, Start.OFFSET, Start.TIME),
        (CursorKind.OLDER, CursorKind.NEWER),
        default_limit=PAGE_LIMIT,
        max_limit=MAX_PAGE_LIMIT,
    )
    clock = parts.surroundings.clock
    found = await bounds(cluster, selection)
    chosen, is_backward = await page_ranges(cluster, selection, found)
    reading = _reading(parts, cluster, selection, Progress((), clock.monotonic_ms()))
    browsing = Browsing(
        _matching(parts, selection), reading, clock, selection.limit or PAGE_LIMIT, found.first, found.end, found.failed
    )
    page = browsing.backward if is_backward else browsing.forward
    return JSONResponse(await page(chosen, selection.about))


@router.get("/follow", response_class=Response, dependencies=[Depends(_follower_place)])
async def follow(
    topic: str, query: Selected, parts: Parts, cluster: Cluster, last_event_id: LastEventId = ""
) -> Response:
    """Follow a topic live: server-sent events `record`, `progress`, `problem`."""
    selection = Selection.of(
        topic,
        query.going_on(last_event_id),
        Start.END,
        (Start.END,),
        (CursorKind.FOLLOW,),
        default_limit=None,
        max_limit=None,
    )
    clock = parts.surroundings.clock
    found = await bounds(cluster, selection)
    starts = await ranges(cluster, selection, found)
    progress = Progress(
        [PartitionRange(each.partition, each.start, None, each.note) for each in starts], clock.monotonic_ms()
    )
    reading = _reading(parts, cluster, selection, progress)
    made = Follow(_matching(parts, selection), reading, progress, clock, selection.about, found.failed)
    return _event_stream(parts, made.events())


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
    return _event_stream(parts, made.events())


@router.get("/download", response_class=Response, dependencies=[Depends(_search_place)])
async def download(
    topic: str,
    query: Selected,
    parts: Parts,
    cluster: Cluster,
    form: Annotated[Literal["jsonl", "csv"], Query(alias="format")] = "jsonl",
) -> Response:
    """Records as a file: one of JSON in each line, or CSV."""
    selection = Selection.of(
        topic,
        query,
        Start.BEGINNING,
        (Start.BEGINNING, Start.OFFSET, Start.TIME),
        (),
        default_limit=None,
        max_limit=None,
    )
    found = await bounds(cluster, selection)
    if found.failed:
        partition, reason = next(iter(found.failed.items()))
        raise HttpProblem(503, f"partition {partition} cannot be read now: {reason}", code="LEADER_NOT_AVAILABLE")
    progress = Progress(await ranges(cluster, selection, found), parts.surroundings.clock.monotonic_ms())
    made = Download(
        _matching(parts, selection),
        _reading(parts, cluster, selection, progress),
        progress,
        selection.limit,
        form == "csv",
    )
    media_type = "text/csv; charset=utf-8" if form == "csv" else "application/jsonl"
    return ByteStream(made.parts(), media_type, attachment(f"{topic}.{form}"))


async def _one(
    parts: WebParts, cluster: UserCluster, topic: str, partition: int, offset: int, query: MessageQuery
) -> tuple[Selection, Match, Matching]:
    selection = Selection.of(
        topic,
        replace(query, partitions=str(partition)),
        Start.BEGINNING,
        (Start.BEGINNING,),
        (),
        default_limit=None,
        max_limit=None,
    )
    clock = parts.surroundings.clock
    form = RecordForm(
        selection.key_format,
        selection.value_format,
        DETAIL_BYTES,
        max_header_bytes=DETAIL_BYTES,
        max_headers=DETAIL_HEADERS,
    )
    matching = _matching(parts, selection, form)
    reading = _reading(parts, cluster, selection, Progress((), clock.monotonic_ms()))
    found = await bounds(cluster, selection)
    return selection, await OneRecord(matching, reading, clock).read(found, partition, offset), matching


@router.post("", status_code=201, dependencies=[WRITING])
async def produce(topic: str, record: NewRecord, cluster: Cluster) -> Written:
    """Write one record."""
    return await write_new(cluster, topic, record)


@router.post("/copy", status_code=201, dependencies=[WRITING, Depends(_large_place)])
async def copy(topic: str, asked: Copy, parts: Parts, cluster: Cluster) -> Written:
    """Write a record again, to this topic."""
    source = asked.from_
    _, match, _ = await _one(parts, cluster, source.topic, source.partition, source.offset, MessageQuery())
    return await write_copy(cluster, topic, match.record, asked.partition, keeps_timestamp=asked.keep_timestamp)


@router.get("/{partition}/{offset}", response_model=Details, dependencies=[Depends(_large_place)])
async def details(
    topic: str,
    partition: PartitionNumber,
    offset: Offset,
    parts: Parts,
    cluster: Cluster,
    key_format: str = "auto",
    value_format: str = "auto",
) -> Response:
    """One record, with its key and value in every form that they have."""
    query = MessageQuery(key_format=key_format, value_format=value_format)
    _, match, matching = await _one(parts, cluster, topic, partition, offset, query)
    made = await details_of(match, matching, parts.schemas, partition, parts.surroundings.threads)
    return JSONResponse(made)


@router.get("/{partition}/{offset}/{part}", response_class=Response, dependencies=[Depends(_large_place)])
async def whole(
    topic: str,
    partition: PartitionNumber,
    offset: Offset,
    part: Literal["key", "value"],
    parts: Parts,
    cluster: Cluster,
) -> Response:
    """The bytes of a key or value, as a file."""
    _, match, _ = await _one(parts, cluster, topic, partition, offset, MessageQuery())
    return _file(match.record.key if part == "key" else match.record.value, f"{topic}-{partition}-{offset}-{part}")


@router.get("/{partition}/{offset}/headers/{index}", response_class=Response, dependencies=[Depends(_large_place)])
async def whole_header(
    topic: str, partition: PartitionNumber, offset: Offset, index: Offset, parts: Parts, cluster: Cluster
) -> Response:
    """The bytes of a header's value, as a file."""
    _, match, _ = await _one(parts, cluster, topic, partition, offset, MessageQuery())
    headers = match.record.headers
    data = headers[index][1] if index < len(headers) else None
    return _file(data, f"{topic}-{partition}-{offset}-header-{index}")


def _file(data: bytes | None, name: str) -> Response:
    if data is None:
        raise HttpProblem(404, "the record has none", code="MESSAGE_NOT_FOUND")
    return ByteStream(in_pieces(data), "application/octet-stream", attachment(f"{name}.bin"))
