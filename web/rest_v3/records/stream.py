"""An ASGI response that reads the request while it answers: each record is sent when it has come, each report goes out, in the
order of the records, when its record is stored.

Rules: the status is 200 from the first byte; what became of a record says its report. What cannot be read ends the stream, with
a report that says why. Bounded: at most `PENDING_COUNT` records and `PENDING_BYTES` have no report yet, then nothing more is
read: a client that does not read its reports, or a slow cluster, slows down the client, and takes no memory. A client that goes
away is told nothing; its records are stored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from fastapi.responses import Response

from runtime.slices import Slices
from web.errors import HttpProblem
from web.rest_v3.errors import MAY_PASS
from web.rest_v3.records.json_stream import JsonStream, JsonStreamError
from web.rest_v3.records.large import SMALL_CHARS, STALLED_S
from web.rest_v3.records.sending import SENDING_S, Sent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from starlette.types import Receive, Scope, Send

    from runtime.clock import Clock
    from web.rest_v3.records.large import LargePlace, LargeRecords
    from web.rest_v3.records.sending import RecordSender

PENDING_COUNT: Final = 2_000
PENDING_BYTES: Final = 1 << 20
REPORTS_AT_ONCE: Final = 500
JSON_TYPE: Final = b"application/json"


class ClientGone(Exception):
    """The client has closed its connection."""


class RecordStream(Response):
    """The answer to one request, made of reports."""

    def __init__(self, sender: RecordSender, large: LargeRecords, clock: Clock, max_chars: int) -> None:
        super().__init__(media_type="application/json")
        self._sender = sender
        self._large = large
        self._clock = clock
        self._json = JsonStream(max_chars)
        self._pending: deque[Sent | HttpProblem] = deque()
        self._pending_bytes = 0
        self._is_read = False
        self._place: LargePlace | None = None
        self._came = asyncio.Event()
        self._went = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_gone = False
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read(receive), name="read records")
                await asyncio.sleep(0)  # the reader goes first: it says "100 Continue" to a client that waits for it
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", JSON_TYPE)]})
                await self._write(send)
        except* ClientGone:
            is_gone = True
        finally:
            self._give_back()
        if not is_gone:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    # --- what comes ---

    async def _read(self, receive: Receive) -> None:
        slices = Slices(self._clock)
        try:
            async for chunk in self._chunks(receive):
                async with asyncio.timeout(SENDING_S):
                    for fields in self._json.feed(chunk):
                        await self._take(fields)
                        if slices.is_over:
                            await slices.yield_if_due()
                if self._json.waiting_chars > SMALL_CHARS and self._place is None:
                    self._place = await self._large.place()
            self._json.end()
        except JsonStreamError as error:
            self._append(HttpProblem(error.status, str(error)))
        except TimeoutError:
            self._append(HttpProblem(500, "the client or the cluster is too slow", number=MAY_PASS))
        finally:
            self._is_read = True
            self._came.set()

    async def _chunks(self, receive: Receive) -> AsyncIterator[bytes]:
        """Raises ClientGone; TimeoutError when the client stops in the middle of a large record."""
        is_over = False
        while not is_over:
            async with asyncio.timeout(None if self._place is None else STALLED_S):
                message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            is_over = not message.get("more_body", False)
            yield message.get("body", b"")

    async def _take(self, fields: dict[str, Any]) -> None:
        while len(self._pending) >= PENDING_COUNT or self._pending_bytes > PENDING_BYTES:
            self._went.clear()
            await self._went.wait()
        sent = await self._sender.send(fields)
        if self._place is not None:
            if isinstance(sent, Sent):
                sent.delivery.add_done_callback(self._place.give_back)
                self._place = None
            else:
                self._give_back()
        self._append(sent)

    def _append(self, sent: Sent | HttpProblem) -> None:
        self._pending.append(sent)
        if isinstance(sent, Sent):
            self._pending_bytes += sent.record.size_bytes
        self._came.set()

    def _give_back(self) -> None:
        if self._place is not None:
            self._place.give_back()
            self._place = None

    # --- what goes ---

    async def _write(self, send: Send) -> None:
        while True:
            while not self._pending:
                if self._is_read:
                    return
                self._came.clear()
                await self._came.wait()
            first = self._pending[0]
            if isinstance(first, Sent) and not first.delivery.done():
                await asyncio.wait([first.delivery])
            lines: list[bytes] = []
            while self._pending and len(lines) < REPORTS_AT_ONCE and _is_ready(self._pending[0]):
                lines.append(self._line(self._pending.popleft()))
            self._went.set()
            await send({"type": "http.response.body", "body": b"".join(lines), "more_body": True})

    def _line(self, sent: Sent | HttpProblem) -> bytes:
        if isinstance(sent, Sent):
            self._pending_bytes -= sent.record.size_bytes
        return self._sender.report(sent)


def _is_ready(sent: Sent | HttpProblem) -> bool:
    return isinstance(sent, HttpProblem) or sent.delivery.done()
