"""How connections to brokers are opened: over a network, with TLS or without, and logged in where the brokers want it.

Rules: `open` returns when the broker has accepted this client; else it raises ConnectionError with the reason, without a
secret, and NotAuthenticated where the broker refuses the login.
Source: Kafka ChannelBuilders.clientChannelBuilder, SaslClientAuthenticator.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from client.errors import LoginRefused, NotAuthenticated
from client.event_loop.connection import LoginSession, OutgoingConnection
from protocol.primitives import DecodeError
from protocol.schema import MAX_ELEMENTS
from runtime.error_texts import reason_of

if TYPE_CHECKING:
    from client.opening import Login
    from runtime.network.transport import Network
    from runtime.randomness import Randomness
    from runtime.tls.stream import Offload


class LoginTerms(NamedTuple):
    """What logs in, on which threads it computes, and within which time the broker must have accepted it."""

    login: Login
    randomness: Randomness
    work: Offload
    timeout_ms: int


class Connector:
    """Opens connections over `network`. `terms` is None where a listener does not authenticate its clients."""

    def __init__(self, network: Network, terms: LoginTerms | None = None) -> None:
        self._network = network
        self._terms = terms

    async def open(
        self, host: str, port: int, client_id: str | None, *, max_elements: int = MAX_ELEMENTS
    ) -> OutgoingConnection:
        """Raises OSError."""
        connection = await OutgoingConnection.open(self._network, host, port, client_id, max_elements=max_elements)
        if self._terms is not None:
            try:
                await self._log_in(connection, self._terms)
            except BaseException:
                connection.abort()
                raise
        return connection

    @staticmethod
    async def _log_in(connection: OutgoingConnection, terms: LoginTerms) -> None:
        try:
            async with asyncio.timeout(terms.timeout_ms / 1000):
                await connection.log_in(LoginSession(terms.login, terms.randomness, terms.work))
        except LoginRefused as error:
            raise NotAuthenticated(f"authentication failed: {error}") from error
        except (TimeoutError, DecodeError) as error:
            raise ConnectionError(f"authentication not finished: {reason_of(error)}") from error
