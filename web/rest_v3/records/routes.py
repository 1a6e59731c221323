"""The endpoints that produce records."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request
from fastapi.responses import Response

from web.errors import HttpProblem
from web.requests import WRITING, Parts
from web.rest_v3.asked import V3, answer, v3_router
from web.rest_v3.errors import EMPTY_PAYLOAD, MAY_PASS
from web.rest_v3.records.json_stream import JsonStream, JsonStreamError
from web.rest_v3.records.record import success_of
from web.rest_v3.records.sending import SENDING_S, RecordSender, Sent, error_data
from web.rest_v3.records.stream import RecordStream
from web.rest_v3.resources import BatchReport, ErrorData, ProduceReport

if TYPE_CHECKING:
    from web.rest_v3.resources import BatchFailure, BatchSuccess

router = v3_router("Records (v3)")
_TOPIC: Final = "/clusters/{cluster_id}/topics/{topic_name}"
JSON_TYPE: Final = "application/json"
MAX_ENTRIES: Final = 1_000
_ENTRY_ID: Final = re.compile(r"[0-9a-zA-Z_-]{1,80}")
_PART: Final = {
    "type": ["object", "null"],
    "properties": {"type": {"type": "string", "enum": ["BINARY", "JSON", "STRING"]}, "data": {}},
}
_RECORD: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "partition_id": {"type": ["integer", "null"]},
        "headers": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "value": {"type": ["string", "null"], "description": "base64"},
                },
                "required": ["name"],
            },
        },
        "key": _PART,
        "value": _PART,
        "timestamp": {"type": ["string", "null"], "format": "date-time"},
    },
}


def _body(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"requestBody": {"description": text, "required": True, "content": {JSON_TYPE: {"schema": schema}}}}


@router.post(
    _TOPIC + "/records",
    response_model=ProduceReport | ErrorData,
    response_description="A report for each record, in their order; error_code is 200 for one that is stored.",
    dependencies=[WRITING],
    max_body_size=sys.maxsize,  # of the stream, which has no end; each record has a limit
    openapi_extra=_body(_RECORD, "One record, or many, one after the other, for as long as the connection is open."),
)
async def produce(request: Request, v3: V3, parts: Parts, topic_name: str) -> Response:
    """Produce records, and report on each of them while more come."""
    _require_json(request)
    sender = RecordSender(v3, topic_name)
    await sender.check_topic()
    return RecordStream(sender, parts.large_records, v3.clock, parts.settings.barnabas_web_request_max_bytes)


@router.post(
    _TOPIC + "/records:batch",
    response_model=BatchReport,
    status_code=207,
    dependencies=[WRITING],
    openapi_extra=_body(
        {
            "type": "object",
            "properties": {
                "entries": {
                    "type": "array",
                    "items": {
                        **_RECORD,
                        "properties": {"id": {"type": "string"}, **_RECORD["properties"]},
                        "required": ["id"],
                    },
                }
            },
            "required": ["entries"],
        },
        "Records with an id each, by which the answer tells what became of them.",
    ),
)
async def produce_batch(request: Request, v3: V3, parts: Parts, topic_name: str) -> Response:
    """Produce several records, and tell which are stored."""
    _require_json(request)
    sender = RecordSender(v3, topic_name)
    await sender.check_topic()
    entries = await _entries(request, parts.settings.barnabas_web_request_max_bytes)
    try:
        async with asyncio.timeout(SENDING_S):
            sent = [(each.pop("id"), await sender.send(each)) for each in entries]
    except TimeoutError as error:
        raise HttpProblem(500, "the cluster is too slow; some of the records may be stored", number=MAY_PASS) from error
    deliveries = [each.delivery for _, each in sent if isinstance(each, Sent)]
    if deliveries:
        await asyncio.wait(deliveries)
    successes: list[BatchSuccess] = []
    failures: list[BatchFailure] = []
    for entry_id, each in sent:
        found = sender.outcome(each) if isinstance(each, Sent) else each
        if isinstance(found, HttpProblem):
            failures.append({"id": entry_id, **error_data(found)})
        else:
            successes.append(success_of(entry_id, found))
    return answer({"successes": successes, "failures": failures}, 207)


async def _entries(request: Request, limit_chars: int) -> list[dict[str, Any]]:
    """Return the entries of a batch. Raises HttpProblem."""
    stream, found = JsonStream(limit_chars), []
    try:
        async for chunk in request.stream():
            found += list(stream.feed(chunk))
        stream.end()
    except JsonStreamError as error:
        raise HttpProblem(error.status, str(error)) from error
    entries = found[0].get("entries") if len(found) == 1 else None
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_ENTRIES:
        raise HttpProblem(422, f"entries is a list of 1 to {MAX_ENTRIES} records", number=EMPTY_PAYLOAD)
    ids = [each.get("id") if isinstance(each, dict) else None for each in entries]
    if any(not isinstance(each, str) or _ENTRY_ID.fullmatch(each) is None for each in ids):
        raise HttpProblem(422, "id of an entry has 1 to 80 letters, digits, - or _", number=EMPTY_PAYLOAD)
    if len(set(ids)) < len(ids):
        raise HttpProblem(422, "two entries have the same id", number=EMPTY_PAYLOAD)
    return entries


def _require_json(request: Request) -> None:
    """Raises HttpProblem 415, 422. Pages of other sites can send other types without being asked."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise HttpProblem(415, f"Content-Type is to be {JSON_TYPE}")
    if request.headers.get("content-length") == "0":
        raise HttpProblem(422, "The request has no record.", number=EMPTY_PAYLOAD)
