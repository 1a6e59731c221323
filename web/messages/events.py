"""Sends events and files as they come, to whoever reads them, however slowly: as ASGI wants it.

    EventStream(events)           server-sent events
    ByteStream(parts, ...)        a file

Rules: a part that is not taken within `PATIENCE_S` ends the stream, so that who stops reading holds no search; nothing
is kept for a slow reader but one part. What makes the parts is closed when the reader goes. A file that cannot be
finished is broken off: the connection is closed in the middle, so that nobody takes it for whole.
Source: the HTML standard, server-sent events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from protocol.errors import KafkaError
from protocol.records.invalid import InvalidBatch
from runtime.tasks import TaskScope
from web.errors import API, HttpProblem

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PATIENCE_S: Final = 30.0
ALIVE_S: Final = 15.0
PIECE_BYTES: Final = 256 << 10
_ALIVE: Final = b": alive\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    """`event_id` is what a browser sends as Last-Event-ID when it connects again."""

    name: str
    data: Mapping[str, Any]
    event_id: str = ""

    def encoded(self) -> bytes:
        head = f"id: {self.event_id}\n" if self.event_id else ""
        data = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        return f"{head}event: {self.name}\ndata: {data}\n\n".encode("utf-8", "replace")


Events = AsyncGenerator[Event | None, None]
"""None: nothing has happened, which is the moment to let connections in between know that the stream is alive."""


class ByteStream(Response):
    """`parts` begin when the response does, and are closed with it."""

    def __init__(
        self, parts: AsyncGenerator[bytes, None], media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None, 200, {"Cache-Control": "no-store", **(headers or {})}, media_type)
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the parts end, or the reader goes or stops reading."""
        del scope
        async with TaskScope("stream") as tasks:
            sending = tasks.spawn(self._send(send), name="send")
            leaving = tasks.spawn(_left(receive), name="reader")
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)

    async def _send(self, send: Send) -> None:
        async with aclosing(self._parts) as parts:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                async for part in parts:
                    async with asyncio.timeout(PATIENCE_S):
                        await send({"type": "http.response.body", "body": part, "more_body": True})
            except (TimeoutError, BrokenOff):
                return  # without the end of the body, for which the server closes the connection
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventStream(ByteStream):
    """Events, and a comment each `ALIVE_S` in which there is none. `now_s` is a monotonic time."""

    def __init__(self, events: Events, now_s: Callable[[], float]) -> None:
        super().__init__(
            _encoded(events, now_s), "text/event-stream", {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )


class BrokenOff(Exception):
    """A file cannot be finished."""


STREAM_ERRORS: Final = (HttpProblem, InvalidBatch, KafkaError, OSError)
"""What ends reading."""


def problem_event(error: Exception, cursor: str) -> Event:
    """Return the last event of a stream that one of STREAM_ERRORS ends, with where it may be gone on."""
    return Event("problem", {**problem_of(error).body(API), "cursor": cursor, "is_final": True}, cursor)


def problem_of(error: Exception) -> HttpProblem:
    """Return what one of STREAM_ERRORS is to who has asked."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, InvalidBatch):
        return HttpProblem.of(KafkaError(error.code, str(error)))
    assert isinstance(error, (KafkaError, OSError))
    return HttpProblem.of(error)


async def in_pieces(data: bytes) -> AsyncGenerator[bytes, None]:
    """Return bytes as the parts of a stream."""
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]


def attachment(name: str) -> dict[str, str]:
    """Return the header by which a browser saves the answer as a file."""
    plain = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in name)
    return {"Content-Disposition": f'attachment; filename="{plain}"'}


async def _encoded(events: Events, now_s: Callable[[], float]) -> AsyncGenerator[bytes, None]:
    sent_s = now_s()
    async with aclosing(events):
        async for event in events:
            if event is None and now_s() - sent_s < ALIVE_S:
                continue
            sent_s = now_s()
            yield _ALIVE if event is None else event.encoded()


async def _left(receive: Receive) -> None:
    """Return when the reader has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
