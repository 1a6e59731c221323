"""A client for one broker that connects when there is something to send, and reconnects after a loss.

Rules: one connection at a time. A request without a response in time closes the connection, because later responses would be
matched to the wrong requests; the next `send` connects again. The caller decides how long to pause before that. The address is
looked up at each connection, because a broker may return at another one. Errors: OSError (ConnectionError, TimeoutError) when
no response came: it is then unknown whether the broker handled the request.
Source: Kafka ManualMetadataUpdater with NetworkClient, BlockingSend.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from client.errors import LoginRefused
from protocol.primitives import DecodeError
from protocol.schema import MAX_ELEMENTS, Request, Response
from runtime.error_texts import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.event_loop.connection import OutgoingConnection
    from client.event_loop.connector import Connector
    from runtime.network.transport import Address

R = TypeVar("R", bound=Response)


class BrokerClient:
    """A client for one broker. `address` returns its current address, None when unknown."""

    def __init__(
        self,
        connector: Connector,
        address: Callable[[], Address | None],
        client_id: str,
        *,
        timeout_ms: int,
        max_elements: int = MAX_ELEMENTS,
    ) -> None:
        self._connector = connector
        self._address = address
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._max_elements = max_elements
        self._connection: OutgoingConnection | None = None
        self._connecting = asyncio.Lock()
        # The pending attempt to connect.
        self._attempt: asyncio.Timeout | None = None
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    @property
    def is_receiving(self) -> bool:
        """Whether a response has begun to arrive."""
        return self._connection is not None and self._connection.is_receiving

    async def send(self, request: Request, version: int, response_type: type[R], *, timeout_ms: int | None = None) -> R:
        """Send a request and return the response. `timeout_ms` is for a request that waits at the broker. Raises OSError."""
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        connection: OutgoingConnection | None = None
        try:
            async with asyncio.timeout(limit_ms / 1000):
                connection = await self._connected()
                return await connection.send(request, version, response_type)
        except (TimeoutError, DecodeError, LoginRefused) as error:
            self._drop(connection)
            raise ConnectionError(f"no answer to {request.api_name}: {reason_of(error)}") from error

    def close(self) -> None:
        """Fail pending requests with ConnectionError, without waiting: connecting to a dead host may take minutes."""
        self._is_closed = True
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.reschedule(asyncio.get_running_loop().time())
        self._drop(self._connection)

    async def _connected(self) -> OutgoingConnection:
        async with self._connecting:
            self._check_open()
            connection = self._connection
            if connection is None or not connection.is_open:
                address = self._address()
                if address is None:
                    raise ConnectionError("the broker's address is not known")
                connection = self._connection = await self._connect(address)
                self._check_open()
            return connection

    async def _connect(self, address: Address) -> OutgoingConnection:
        async with asyncio.timeout(None) as self._attempt:
            try:
                return await self._connector.open(
                    address.host, address.port, self._client_id, max_elements=self._max_elements
                )
            finally:
                self._attempt = None

    def _check_open(self) -> None:
        if self._is_closed:
            self._drop(self._connection)
            raise ConnectionError("the connection was closed")

    def _drop(self, connection: OutgoingConnection | None) -> None:
        """Abort the connection: a request that its sender has given up must not reach the broker later, after a retry of it."""
        if connection is not None:
            connection.abort()
        if self._connection is connection:
            self._connection = None
