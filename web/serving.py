"""The HTTP server: uvicorn with limits, for clients that send slowly, read slowly, or never end what they have begun.

Rules: a connection is closed when it is one too many, when its request's headers are too long, when it sends ever more requests
before it has its answers, and when its client lets the server wait: for headers or the next part of a body, or for room to
write an answer. What waits for the application, or for its back-pressure, has no limit here. At a stop, streams of events end
at once, since browsers ask for them again, and other answers have STOP_S.
Source: uvicorn's protocol on httptools, which has none of these limits.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from runtime.error_texts import reason_of
from runtime.log_forms import LEVELS

if TYPE_CHECKING:
    import socket
    import ssl

    from config.web import WebSettings
    from runtime.tasks import TaskScope

HEADERS_MAX_BYTES: Final = 64 * 1024
PIPELINED_MAX: Final = 20
"""Requests of one connection that wait for the answer to the one before; clients of today send none."""
HANDSHAKE_S: Final = 10
BACKLOG: Final = 1024
QUIET_LOGGERS: Final = {
    "httpcore": "WARN",
    "httpx": "WARN",
    "uvicorn.access": "FATAL",
    "uvicorn.error": "ERROR",
}
"""The least level that the loggers of libraries log."""
STOP_S: Final = 5
_TOO_LONG: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_ACCEPT_PAUSE_S: Final = 0.1
_EVENTS: Final = b"text/event-stream"
_STREAM_OF_RECORDS: Final = re.compile(r"/v3/clusters/[^/]+/topics/[^/]+/records/?")

logger = logging.getLogger(__name__)


def is_stream_of_records(path: str) -> bool:
    """Whether a request to this path may be a stream without an end."""
    return _STREAM_OF_RECORDS.fullmatch(path) is not None


@dataclass(slots=True)
class ConnectionLimits:
    """`wait_s` is for how long a client may let the server wait, `idle_s` for how long nothing is asked, or a stream of records
    pauses."""

    connections_max: int
    wait_s: float
    idle_s: float
    handshakes: int = field(default=0, init=False)
    """Connections that have been accepted, and are not in use yet."""
    is_full: bool = field(default=False, init=False)

    def admits(self, count: int) -> bool:
        """Return whether there may be `count` connections."""
        if count > self.connections_max:
            if not self.is_full:
                logger.warning("connections are refused, there are too many: connections=%d", count - 1)
            self.is_full = True
            return False
        self.is_full = self.is_full and count > self.connections_max * 9 // 10
        return True

    @classmethod
    def of(cls, settings: WebSettings) -> ConnectionLimits:
        return cls(
            settings.barnabas_web_connections_max,
            settings.barnabas_web_request_timeout_ms / 1000,
            settings.barnabas_web_connections_max_idle_ms / 1000,
        )


class LimitedHttp(HttpToolsProtocol):
    """One connection."""

    def __init__(self, limits: ConnectionLimits, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._limits = limits
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._is_in_headers = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(self._limits.wait_s)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._reading, self._writing):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    # --- what the client sends ---

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > HEADERS_MAX_BYTES and not self.transport.is_closing():
                self.transport.write(_TOO_LONG)
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_headers = True
        self._header_bytes = 0
        self._expect(self._limits.wait_s)

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINED_MAX:  # uvicorn would read on with every answer, faster than it answers
            raise ValueError("too many requests are waiting")  # which the parser makes an invalid request of
        self._expect(self._pause_s())

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._expect(self._pause_s())

    def on_message_complete(self) -> None:
        self._expect(None)
        super().on_message_complete()

    def _pause_s(self) -> float:
        return self._limits.idle_s if is_stream_of_records(self.scope["path"]) else self._limits.wait_s

    def _expect(self, wait_s: float | None) -> None:
        """Close the connection unless the client goes on in time; None: nothing is expected of it."""
        if self._reading is not None:
            self._reading.cancel()
        self._reading = None if wait_s is None else self.loop.call_later(wait_s, self._on_silence, wait_s)

    def _on_silence(self, wait_s: float) -> None:
        if self.flow.read_paused:  # the application takes its time
            self._expect(wait_s)
        else:
            self.transport.abort()

    # --- what the client takes ---

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self.loop.call_later(self._limits.wait_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # it does not take the end of its answer
        else:
            super().timeout_keep_alive_handler()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            return
        if self.cycle is None or _EVENTS in dict(self.scope["headers"]).get(b"accept", b""):
            self.transport.abort()


class Acceptor:
    """Accepts connections, and counts them before their TLS handshake: uvicorn's own server would let any number of them in.
    `context` None is for no TLS, `make` makes what answers on a connection, `tasks` are those of the process."""

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], LimitedHttp],
        limits: ConnectionLimits,
        context: ssl.SSLContext | None,
        tasks: TaskScope,
    ) -> None:
        self._listener = listener
        self._make = make
        self._limits = limits
        self._context = context
        self._tasks = tasks
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._accepting = tasks.spawn(self._accept(), name="accept connections")

    def close(self) -> None:
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        await asyncio.wait((self._accepting,))

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # no descriptor is left
                logger.warning("connection not accepted: error=%s", reason_of(error))
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            http = self._make()
            if self._limits.admits(len(http.connections) + self._limits.handshakes + 1):
                self._limits.handshakes += 1
                self._tasks.spawn(self._connect(connection, http), name="new connection")
            else:
                connection.close()

    async def _connect(self, connection: socket.socket, http: LimitedHttp) -> None:
        wait_s = None if self._context is None else min(self._limits.wait_s, HANDSHAKE_S)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: http, connection, ssl=self._context, ssl_handshake_timeout=wait_s
            )
        except OSError:  # it is no client of TLS, or takes too long, or has gone meanwhile
            connection.close()
        finally:
            self._limits.handshakes -= 1


class WebServer(uvicorn.Server):
    """`on_started` is called when connections are accepted. Signals are the caller's."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_started: Callable[[], None],
        *,
        limits: ConnectionLimits,
        context: ssl.SSLContext | None,
        tasks: TaskScope,
    ) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._limits = limits
        self._context = context
        self._tasks = tasks

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections on `sockets`, where uvicorn would make servers of the event loop."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        self.servers = [
            cast("Any", Acceptor(each, self._connection, self._limits, self._context, self._tasks))
            for each in sockets or ()
        ]
        self.started = True
        self._on_started()

    def _connection(self) -> LimitedHttp:
        return LimitedHttp(
            self._limits, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def quiet_libraries() -> None:
    """Leave out what uvicorn logs of every stop, and of every client that sends no HTTP, and httpx of every request with its
    address, whose query may have what nobody else should read. A level in `barnabas.log.level` holds."""
    for name, level in QUIET_LOGGERS.items():
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(LEVELS[level])
