"""An HTTP port for monitoring: requests are read, limited, and answered with pages that somebody else makes.

Rules: GET and HEAD only, one response a connection; a request head of at most MAX_HEAD_BYTES within HEAD_TIMEOUT_S, a
response that is received within RESPONSE_TIMEOUT_S, at most MAX_CONNECTIONS at a time: one more takes the place of the oldest
that has not asked yet, so that idle connections do not keep others from asking whether the process lives.
Source: RFC 9112.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.network.listen_errors import listen_error
from runtime.network.transport import Address, Connection, Listener, Network
from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from runtime.disk.filesystem import Buffer

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 8 * 1024
MAX_SKIPPED_BYTES = 256 * 1024
"""Of a head that is too long, what is read to its end, for its client to get an answer."""
MAX_CONNECTIONS = 32
HEAD_TIMEOUT_S = 10
RESPONSE_TIMEOUT_S = 30
OK = "200 OK"
UNAVAILABLE = "503 Service Unavailable"
TEXT_TYPE = "text/plain; charset=utf-8"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_LINE = re.compile(rb"([A-Z]+) (?:http://[^/\s]*)?(/[^?\s]*|\*)(?:\?\S*)?(?: HTTP/1\.[0-9])?\r?\n")
_HEAD_END = re.compile(rb"\n\r?\n")

Pages = Callable[[bytes], Awaitable[tuple[str, bytes | bytearray]]]
"""Makes the page of a path: its status, and its content."""


class HttpPort:
    """Answers with `pages`. `types` has the content types, by path, of those that are no plain text; `setting` is what the
    settings of its host and port begin with, for the error."""

    def __init__(self, pages: Pages, types: Mapping[bytes, str], setting: str = "barnabas.http") -> None:
        self._setting = setting
        self._pages = pages
        self._types = types
        self._tasks = TaskScope("http")
        self._listener: Listener | None = None
        self.open_count = 0
        self.not_asked: dict[_Exchange, None] = {}  # connections without a complete head, the oldest first

    @property
    def address(self) -> Address:
        assert self._listener is not None, "the HTTP port is not open"
        return self._listener.address

    async def start(self, network: Network, host: str, port: int) -> None:
        """Open the port. Raises OSError."""
        try:
            self._listener = await network.listen(host, port, lambda: _Exchange(self))
        except OSError as error:
            raise listen_error(f"{self._setting}.host={host}, {self._setting}.port={port}", error) from error

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
        await self._tasks.close()

    def respond(self, head: bytes | None, exchange: _Exchange) -> None:
        """Respond to a complete request head, None when it was too long, and close the connection."""
        self._tasks.spawn(self._respond(head, exchange), name="HTTP response")

    async def _respond(self, head: bytes | None, exchange: _Exchange) -> None:
        asked = None if head is None else _REQUEST_LINE.match(head)
        method, path = asked.groups() if asked is not None else (b"", b"")
        body: bytes | bytearray
        try:
            if head is None:
                status, body = "431 Request Header Fields Too Large", b"a request has at most 8 KiB\n"
            elif asked is None:
                status, body = "400 Bad Request", b"not a request of HTTP/1.1 without TLS\n"
            elif method not in (b"GET", b"HEAD"):
                status, body = "405 Method Not Allowed", b"only GET and HEAD\n"
            else:
                status, body = await self._pages(path)
        except Exception:
            logger.exception("HTTP page not served: path=%r", path.decode("latin-1"))
            status, body = "500 Internal Server Error", b"the log says why\n"
        content_type = self._types.get(path, TEXT_TYPE) if status == OK else TEXT_TYPE
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
        lines += ["Allow: GET, HEAD", "Connection: close", "", ""]
        exchange.send(["\r\n".join(lines).encode(), *([] if method == b"HEAD" else [body])])


class _Exchange:
    """One connection: receives a request head, sends a response."""

    def __init__(self, server: HttpPort) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._buffer = bytearray(1024)
        self._head = bytearray()
        self._skipped_bytes = 0
        self._is_complete = False
        self._timeout: asyncio.TimerHandle | None = None

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        server = self._server
        server.open_count += 1
        server.not_asked[self] = None
        self._abort_after(HEAD_TIMEOUT_S)
        if server.open_count > MAX_CONNECTIONS:
            next(iter(server.not_asked)).abort()

    def abort(self) -> None:
        """Another takes this connection's place."""
        self._server.not_asked.pop(self, None)
        if self._connection is not None:
            self._connection.abort()

    def receive_buffer(self, size_hint: int) -> memoryview:
        return memoryview(self._buffer)

    def received(self, count: int) -> None:
        assert self._connection is not None
        if self._is_complete:
            return
        head = self._head
        head += self._buffer[:count]
        if _HEAD_END.search(head) is not None:
            self._is_complete = True
            self._server.not_asked.pop(self, None)
            self._cancel_timeout()
            self._server.respond(None if self._skipped_bytes else bytes(head), self)
        elif len(head) > MAX_HEAD_BYTES:
            self._skipped_bytes += len(head) - len(b"\n\r")
            del head[: -len(b"\n\r")]
            if self._skipped_bytes > MAX_SKIPPED_BYTES:
                self._connection.abort()

    def send(self, response: Sequence[Buffer]) -> None:
        """Send the response, and close the connection when the client has received it, or after a timeout: otherwise its
        memory, and one of MAX_CONNECTIONS, would remain in use."""
        connection = self._connection
        if connection is not None:
            connection.write(response)
            connection.close()
            self._abort_after(RESPONSE_TIMEOUT_S)

    def writing_paused(self) -> None:
        """Do nothing: only the queued response is written."""

    def writing_resumed(self) -> None:
        """Do nothing, as above."""

    def disconnected(self, error: Exception | None) -> None:
        self._connection = None
        self._server.open_count -= 1
        self._server.not_asked.pop(self, None)
        self._cancel_timeout()

    def _abort_after(self, timeout_s: float) -> None:
        assert self._connection is not None
        self._timeout = asyncio.get_running_loop().call_later(timeout_s, self.abort)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
