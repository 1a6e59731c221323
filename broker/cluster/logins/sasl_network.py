"""SASL for connections to other brokers: a `Network` over another one, whose connections have authenticated.

    SaslHandshake  ->  SaslAuthenticate, until the mechanism is complete  ->  the handler is `connected`

Sessions end where the other broker says so. A connection tells shortly before (`is_ending`) that it should be replaced:
who uses it connects again for the next request, so that none comes to a session that is over.

Rules: `connect` returns when the other broker has accepted this one; else it raises ConnectionError with the reason. The steps
of a mechanism are computed by `Offload`, since SCRAM takes milliseconds for a password. Listening is passed on to the inner
network.
Invariants: the handler is called with `connected` first and `disconnected` last, once each, or not at all; it is called when
the exchange is complete, and so writes nothing before.
Source: Kafka SaslClientAuthenticator; KIP-152, KIP-368.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from protocol.client import Client
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.primitives import DecodeError
from runtime.error_texts import reason_of
from security.sasl import AuthenticationFailed

if TYPE_CHECKING:
    from broker.cluster.logins.broker_login import BrokerLogin
    from runtime.clock import Clock
    from runtime.network.transport import Connection, ConnectionHandler, Listener, Network
    from runtime.randomness import Randomness
    from runtime.tls.stream import Offload
    from security.sasl import SaslClient

T = TypeVar("T")

# A session is replaced after so much of its life, and up to as much more: brokers that have started together do not connect
# together. As Kafka's clients do.
RENEWAL_PERCENT = 85
RENEWAL_SPREAD_PERCENT = 10
LARGEST_RESPONSE_BYTES = 512 * 1024


class AuthenticatedConnection:
    """A `Connection` to another broker. It is not the one that moves the bytes: that one's methods are called directly."""

    def __init__(self, connection: Connection, clock: Clock, renewal_ms: int | None) -> None:
        """`renewal_ms` is when it should be replaced, None for never."""
        self.peer, self.local = connection.peer, connection.local
        self.takes_ranges = connection.takes_ranges
        self.write = connection.write
        self.unsent_bytes = connection.unsent_bytes
        self.pause_reading = connection.pause_reading
        self.resume_reading = connection.resume_reading
        self.close = connection.close
        self.abort = connection.abort
        self._clock = clock
        self._renewal_ms = renewal_ms

    @property
    def is_ending(self) -> bool:
        return self._renewal_ms is not None and self._clock.monotonic_ms() >= self._renewal_ms


class _Stream:
    """The handler of a connection: a client for the exchange at first, then the handler that wants the connection."""

    def __init__(self, client: Client, handler: ConnectionHandler) -> None:
        self._client = client
        self._handler: ConnectionHandler = client
        self._wanted_by = handler
        self._connection: Connection | None = None
        self._is_lost = False
        self.error: Exception | None = None  # with which it was lost
        self.is_connected = asyncio.Event()

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self._client.connected(connection)
        self.is_connected.set()

    def receive_buffer(self, size_hint: int) -> memoryview:
        return self._handler.receive_buffer(size_hint)

    def received(self, count: int) -> None:
        self._handler.received(count)

    def writing_paused(self) -> None:
        self._handler.writing_paused()

    def writing_resumed(self) -> None:
        self._handler.writing_resumed()

    def disconnected(self, error: Exception | None) -> None:
        self._is_lost, self.error = True, error
        self._handler.disconnected(error)
        self.is_connected.set()

    def hand_over(self, connection: Connection) -> None:
        """The exchange is complete. Raises ConnectionError when the connection was lost meanwhile."""
        if self._is_lost:
            raise ConnectionError("the connection was lost")
        self._handler = self._wanted_by
        self._handler.connected(connection)


class SaslNetwork:
    """A `runtime.network.transport.Network` whose outgoing connections authenticate by `login`."""

    def __init__(
        self,
        network: Network,
        login: BrokerLogin,
        *,
        client_id: str,
        clock: Clock,
        randomness: Randomness,
        work: Offload,
        timeout_ms: int,
    ) -> None:
        self._network = network
        self._login = login
        self._client_id = client_id
        self._clock = clock
        self._randomness = randomness
        self._work = work
        self._timeout_ms = timeout_ms

    async def listen(self, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> Listener:
        return await self._network.listen(host, port, factory)

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        client = Client(self._client_id, max_frame_bytes=LARGEST_RESPONSE_BYTES)
        stream = _Stream(client, handler)
        inner = await self._network.connect(host, port, stream)
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await stream.is_connected.wait()  # with TLS, the handshake is done
                if stream.error is not None:
                    raise stream.error
                lifetime_ms = await self._authenticate(client)
            connection = AuthenticatedConnection(inner, self._clock, self._renewal_ms(lifetime_ms))
            stream.hand_over(connection)
        except AuthenticationFailed as error:
            inner.abort()
            raise ConnectionError(f"authentication failed: {self._login.mechanism}: {error}") from error
        except (TimeoutError, DecodeError) as error:
            inner.abort()
            raise ConnectionError(f"authentication not finished: {reason_of(error)}") from error
        except BaseException:
            inner.abort()
            raise
        return connection

    async def _authenticate(self, client: Client) -> int:
        """Return for how long the session holds in milliseconds, 0 for no end. Raises AuthenticationFailed, OSError,
        DecodeError."""
        login = self._login
        handshake = await client.send(SaslHandshakeRequest(mechanism=login.mechanism), 1, SaslHandshakeResponse)
        if handshake.error_code:
            raise AuthenticationFailed(f"the other broker has {', '.join(handshake.mechanisms) or 'no mechanism'}")

        exchange, token = await self._computed(lambda: _begun(login))
        while True:
            answer = await client.send(
                SaslAuthenticateRequest(auth_bytes=token), login.version, SaslAuthenticateResponse
            )
            if answer.error_code:
                raise AuthenticationFailed(answer.error_message or f"error {answer.error_code}")
            next_token = await self._computed(lambda answer=answer: exchange.answer(answer.auth_bytes))  # type: ignore[misc]
            if next_token is None:
                return answer.session_lifetime_ms
            token = next_token

    async def _computed(self, compute: Callable[[], T]) -> T:
        """Return the result of what may take milliseconds. Raises what it raises of AuthenticationFailed and OSError."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def job() -> T | AuthenticationFailed:
            try:
                return compute()
            except AuthenticationFailed as error:
                return error

        def done(value: T | AuthenticationFailed, error: BaseException | None) -> None:
            if result.done():
                return  # nobody waits any more
            if error is not None:
                result.set_exception(error)
            elif isinstance(value, AuthenticationFailed):
                result.set_exception(value)
            else:
                result.set_result(value)

        self._work.start(job, done)
        return await result

    def _renewal_ms(self, lifetime_ms: int) -> int | None:
        if lifetime_ms <= 0:
            return None
        spread_ms = lifetime_ms * RENEWAL_SPREAD_PERCENT // 100
        return (
            self._clock.monotonic_ms()
            + lifetime_ms * RENEWAL_PERCENT // 100
            + self._randomness.randrange(0, spread_ms + 1)
        )


def _begun(login: BrokerLogin) -> tuple[SaslClient, bytes]:
    client = login.make_client()
    return client, client.first()
