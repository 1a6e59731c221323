"""One connection with several requests in flight.

It knows frames and headers, no cluster: the caller chooses the broker, the versions, and whether to send again. Bounded: at
most `max_in_flight` requests wait (more callers queue), and a response has at most `max_frame_bytes`. A session that ends is
authenticated again on the same connection, when nothing is in flight; nothing is sent while a broker throttles this client.

Errors: OSError when the connection cannot be opened or is lost, DecodeError when a response is malformed, LoginRefused when the
login is not repeated; the connection is closed then. There is no timeout here: wrap `send` in `asyncio.timeout`; the response
to a cancelled `send` is dropped.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from client.exchange import Exchange
from client.opening import LARGEST_RESPONSE_BYTES, Ask, Steps, log_in, renewal_pause_ms
from protocol.frame import FrameReader
from protocol.primitives import DecodeError
from protocol.schema import MAX_ELEMENTS, Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.opening import Login
    from runtime.network.transport import Connection, Network
    from runtime.randomness import Randomness
    from runtime.tls.stream import Offload

MAX_FRAME_BYTES: Final = 128 * 1024 * 1024
MAX_IN_FLIGHT: Final = 256

R = TypeVar("R", bound=Response)
T = TypeVar("T")
Answer = asyncio.Future[Response]


class OutgoingConnection:
    """A connection with its pending requests, opened by `open`. It is also its connection's handler."""

    def __init__(
        self,
        client_id: str | None,
        *,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_elements: int = MAX_ELEMENTS,
    ) -> None:
        self._frames = FrameReader(max_frame_bytes)
        self._exchange = Exchange[Answer](client_id, max_elements)
        self._room = asyncio.Semaphore(max_in_flight)
        self._connection: Connection | None = None
        self._drained: asyncio.Event | None = None  # while a request waits for it
        self._lost: Exception | None = None
        # What a request waits for before it is sent, one behind the other.
        self._turn = asyncio.Lock()
        self._waiting_count = 0
        self._throttled_until_s = 0.0
        self._session: LoginSession | None = None

    @classmethod
    async def open(
        cls,
        network: Network,
        host: str,
        port: int,
        client_id: str | None = None,
        *,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_elements: int = MAX_ELEMENTS,
    ) -> OutgoingConnection:
        """Open a connection without a login. Raises OSError."""
        made = cls(client_id, max_frame_bytes=max_frame_bytes, max_in_flight=max_in_flight, max_elements=max_elements)
        made._connection = await network.connect(host, port, made)
        return made

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._lost is None

    @property
    def is_receiving(self) -> bool:
        """Whether a response has begun to arrive."""
        return self.is_open and self._frames.has_part

    async def log_in(self, session: LoginSession) -> None:
        """Authenticate, and again whenever the session is about to end. Raises LoginRefused, OSError, DecodeError."""
        usual = self._frames.max_frame_bytes
        self._frames.max_frame_bytes = LARGEST_RESPONSE_BYTES
        await session.begin(self)
        self._frames.max_frame_bytes = usual
        self._session = session

    @overload
    async def send(self, request: Request, version: int) -> Response: ...
    @overload
    async def send(self, request: Request, version: int, response_type: type[R]) -> R: ...
    async def send(self, request: Request, version: int, response_type: type[Response] | None = None) -> Response:
        """Send `request` and return the response; pass its `response_type` to have it typed. Requests are sent in the order of
        calls."""
        assert response_type is None or response_type is type(request).response_type
        if self._waiting_count or self._throttled_until_s or self._session is not None:
            await self._wait_for_turn()
        return await self._send(request, version)

    def send_unanswered(self, request: Request, version: int) -> None:
        """Send the one request without a response: Produce with acks=0."""
        self._opened().write(self._exchange.unanswered(request, version))

    async def carry_out(self, steps: Steps[T], work: Offload) -> T:
        """Return the result of steps, which are sent at once. Raises what they raise, OSError, DecodeError."""
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Ask):
                result = await self._send(step.request, step.version)
            else:
                result = await _computed(step.function, work)

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

    async def _send(self, request: Request, version: int) -> Response:
        await self._room.acquire()  # released when the response comes, even if its caller was cancelled
        answer: Answer = asyncio.get_running_loop().create_future()
        try:
            connection = self._opened()
            chunks = self._exchange.request(request, version, answer)
        except BaseException:
            self._room.release()
            raise
        connection.write(chunks)
        return await answer

    def _opened(self) -> Connection:
        if self._lost is not None or self._connection is None:
            raise ConnectionError("the connection is closed") from self._lost
        return self._connection

    async def _wait_for_turn(self) -> None:
        """Return when this request may be sent: those before it were sent, the broker takes requests, and the session holds."""
        self._waiting_count += 1
        try:
            async with self._turn:
                loop = asyncio.get_running_loop()
                while (left_s := self._throttled_until_s - loop.time()) > 0 and self._lost is None:  # noqa: ASYNC110
                    await asyncio.sleep(left_s)
                self._throttled_until_s = 0.0
                session = self._session
                if session is not None and session.is_over(loop.time()) and self._lost is None:
                    await self._drain()
                    try:
                        await session.begin(self)
                    except BaseException:
                        self.abort()
                        raise
        finally:
            self._waiting_count -= 1

    async def _drain(self) -> None:
        """Return when no request waits for its response."""
        while len(self._exchange):
            self._drained = asyncio.Event()
            await self._drained.wait()

    def _fail(self, error: Exception) -> None:
        if self._lost is None:
            self._lost = error
        for answer in self._exchange.abandoned():
            self._room.release()
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # the caller may have ended, so the exception may stay unretrieved
        if self._drained is not None:
            self._drained.set()

    # The methods below implement runtime.network.transport.ConnectionHandler.

    def connected(self, connection: Connection) -> None:
        self._connection = connection

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._frames.receive_buffer()

    def received(self, count: int) -> None:
        try:
            for frame in self._frames.received(count):
                answer, response, throttle_ms = self._exchange.response(frame)
                self._room.release()
                if throttle_ms:
                    self._throttled_until_s = asyncio.get_running_loop().time() + throttle_ms / 1000
                if self._drained is not None:
                    self._drained.set()
                if not answer.done():
                    answer.set_result(response)
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


class LoginSession:
    """The login of one connection."""

    def __init__(self, login: Login, randomness: Randomness, work: Offload) -> None:
        self._login = login
        self._randomness = randomness
        self._work = work
        self._renewal_s: float | None = None

    def is_over(self, now_s: float) -> bool:
        """Whether it is to begin again before the next request."""
        return self._renewal_s is not None and now_s >= self._renewal_s

    async def begin(self, connection: OutgoingConnection) -> None:
        """Authenticate a connection, for the first time or again. Raises LoginRefused, OSError, DecodeError."""
        lifetime_ms = await connection.carry_out(log_in(self._login), self._work)
        pause_ms = renewal_pause_ms(lifetime_ms, self._randomness)
        self._renewal_s = None if pause_ms is None else asyncio.get_running_loop().time() + pause_ms / 1000


async def _computed(compute: Callable[[], T], work: Offload) -> T:
    """Return the result of what may take milliseconds. Raises OSError."""
    result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(value: T, error: BaseException | None) -> None:
        if result.done():
            return  # no request waits any more
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)

    work.start(compute, done)
    return await result
