"""Reads server-sent events while they come, of the application in this process: httpx would wait for their end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx

PATIENCE_S = 30


class LiveStream:
    """`is_read`: whether parts are taken; while it is clear, the application waits as for a slow reader."""

    def __init__(self) -> None:
        self.status = 0
        self.last_id = ""
        self.is_read = asyncio.Event()
        self.is_read.set()
        self.sent_bytes = 0
        self._events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._asked = False
        self._rest = ""

    async def next(self, name: str) -> dict[str, Any]:
        """Return the data of the next event of this name; others are passed over."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found, data = await self._events.get()
                if found == name:
                    result: dict[str, Any] = data
                    return result

    def close(self) -> None:
        self._gone.set()

    async def receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        await self.is_read.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        self.sent_bytes += len(message["body"])
        self._rest += message["body"].decode()
        *blocks, self._rest = self._rest.split("\n\n")
        for block in blocks:
            fields = dict(line.partition(": ")[::2] for line in block.split("\n"))
            self.last_id = fields.get("id", self.last_id)
            if "event" in fields:
                self._events.put_nowait((fields["event"], json.loads(fields["data"])))


@asynccontextmanager
async def live(
    client: httpx.AsyncClient, path: str, query: Mapping[str, str] | None = None, last_event_id: str = ""
) -> AsyncIterator[LiveStream]:
    """A request to the application of `client`, which its reader leaves at the end."""
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    headers = [(b"host", b"127.0.0.1:8082")]
    if client.cookies:
        headers.append((b"cookie", "; ".join(f"{name}={value}" for name, value in client.cookies.items()).encode()))
    if last_event_id:
        headers.append((b"last-event-id", last_event_id.encode()))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": urlencode(query or {}).encode(), "root_path": "",
        "headers": headers, "server": ("127.0.0.1", 8082), "client": ("127.0.0.1", 9),
    }  # fmt: skip
    stream = LiveStream()
    task = asyncio.ensure_future(transport.app(scope, stream.receive, stream.send))  # type: ignore[arg-type]
    try:
        yield stream
    finally:
        stream.close()
        stream.is_read.set()
        async with asyncio.timeout(PATIENCE_S):
            await task
