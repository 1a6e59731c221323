"""A small client with one connection and several requests in flight. Used between brokers and by tools.

It knows frames and headers, no cluster: the caller chooses the broker, retries and negotiates versions. Kafka responds in
order on a connection, so a response without the oldest correlation id means that the stream is broken. Bounded:
at most `max_in_flight` requests wait (more callers queue), and a response has at most `max_frame_bytes`. Errors: OSError when
the connection cannot be opened or is lost, DecodeError when the response is malformed (the connection is closed then). There is
no timeout here: wrap `send` in `asyncio.timeout`; the response to a cancelled `send` is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, TypeVar, overload

from protocol.frame import FrameReader
from protocol.header import decode_response, encode_request
from protocol.primitives import DecodeError
from protocol.schema import MAX_ELEMENTS, Request, Response
from runtime.network.transport import Connection, EndingConnection, Network

MAX_FRAME_BYTES: Final = 128 * 1024 * 1024
MAX_IN_FLIGHT: Final = 256

R = TypeVar("R", bound=Response)


class _Pending:
    __slots__ = ("answer", "correlation_id", "response_type", "version")

    def __init__(
        self, correlation_id: int, response_type: type[Response], version: int, answer: asyncio.Future[Response]
    ) -> None:
        self.correlation_id = correlation_id
        self.response_type = response_type
        self.version = version
        self.answer = answer


class Client:
    """A connection with its pending requests. Create one with `Client.connect`. It is also its connection's handler."""

    def __init__(
        self,
        client_id: str | None,
        *,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_elements: int = MAX_ELEMENTS,
    ) -> None:
        self.client_id = client_id
        self._frames = FrameReader(max_frame_bytes)
        self._max_elements = max_elements
        self._room = asyncio.Semaphore(max_in_flight)
        self._pending: deque[_Pending] = deque()
        self._connection: Connection | None = None
        self._ending: EndingConnection | None = None
        self._drained: asyncio.Event | None = None  # while somebody waits for it
        self._lost: Exception | None = None
        self._next_correlation_id = 0

    @classmethod
    async def connect(
        cls,
        network: Network,
        host: str,
        port: int,
        client_id: str | None = None,
        *,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_elements: int = MAX_ELEMENTS,
    ) -> Client:
        """Open a connection. Raises OSError."""
        client = cls(client_id, max_frame_bytes=max_frame_bytes, max_in_flight=max_in_flight, max_elements=max_elements)
        connection = client._connection = await network.connect(host, port, client)
        client._ending = connection if isinstance(connection, EndingConnection) else None
        return client

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._lost is None

    @property
    def is_ending(self) -> bool:
        """Whether the next request should go over another connection."""
        return self._ending is not None and self._ending.is_ending

    @property
    def is_receiving(self) -> bool:
        """Whether a response has begun to arrive."""
        return self.is_open and self._frames.has_part

    async def drain(self) -> None:
        """Return when no request waits for its response."""
        while self._pending:
            self._drained = asyncio.Event()
            await self._drained.wait()

    @overload
    async def send(self, request: Request, version: int) -> Response: ...
    @overload
    async def send(self, request: Request, version: int, response_type: type[R]) -> R: ...
    async def send(self, request: Request, version: int, response_type: type[Response] | None = None) -> Response:
        """Send `request` and return the response; pass its `response_type` to have it typed. Requests are sent in the order of
        calls."""
        expected = type(request).response_type
        assert response_type is None or response_type is expected
        await self._room.acquire()  # released when the response comes, even if its caller was cancelled
        try:
            correlation_id = self._write(request, version)
        except BaseException:
            self._room.release()
            raise
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(correlation_id, expected, version, answer))
        return await answer

    def send_unanswered(self, request: Request, version: int) -> None:
        """Send the one request without a response: Produce with acks=0."""
        self._write(request, version)

    def close(self) -> None:
        """Send what is queued, then close. Pending requests fail with ConnectionError."""
        self._fail(ConnectionError("the client was closed"))
        if self._connection is not None:
            self._connection.close()

    def abort(self) -> None:
        """Close without sending what is queued. Pending requests fail with ConnectionError."""
        self._fail(ConnectionError("the client was closed"))
        if self._connection is not None:
            self._connection.abort()

    def _write(self, request: Request, version: int) -> int:
        if self._lost is not None or self._connection is None:
            raise ConnectionError("the connection is closed") from self._lost
        correlation_id = self._next_correlation_id
        chunks = encode_request(request, version, correlation_id, self.client_id)
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        self._connection.write(chunks)
        return correlation_id

    def _fail(self, error: Exception) -> None:
        if self._lost is None:
            self._lost = error
        while self._pending:
            pending = self._pending.popleft()
            self._room.release()
            if not pending.answer.done():
                pending.answer.set_exception(error)
                pending.answer.exception()  # the caller may have ended, so the exception may stay unretrieved
        if self._drained is not None:
            self._drained.set()

    def _on_frame(self, frame: bytes | bytearray) -> None:
        if not self._pending:
            raise DecodeError("a response came that nobody waits for")
        pending = self._pending[0]
        correlation_id, response = decode_response(
            frame, pending.response_type, pending.version, max_elements=self._max_elements
        )
        if correlation_id != pending.correlation_id:
            raise DecodeError(f"response {correlation_id} came instead of {pending.correlation_id}")
        self._pending.popleft()
        self._room.release()
        if self._drained is not None:
            self._drained.set()
        if not pending.answer.done():
            pending.answer.set_result(response)

    # The methods below implement runtime.network.transport.ConnectionHandler.

    def connected(self, connection: Connection) -> None:
        self._connection = connection

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._frames.receive_buffer()

    def received(self, count: int) -> None:
        try:
            for frame in self._frames.received(count):
                self._on_frame(frame)
        except DecodeError as error:
            self._fail(error)
            assert self._connection is not None
            self._connection.abort()

    def writing_paused(self) -> None:
        """Do nothing: `max_in_flight` bounds the unsent requests."""

    def writing_resumed(self) -> None:
        """Do nothing, as in `writing_paused`."""

    def disconnected(self, error: Exception | None) -> None:
        self._fail(error if isinstance(error, OSError) else ConnectionError("the connection was lost"))
