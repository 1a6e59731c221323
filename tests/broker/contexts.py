"""The context of a request, as a connection of a client makes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from broker.network.connections.client_connection import ClientConnection
from broker.network.request_context import RequestContext
from broker.services import Services
from runtime.network.transport import Address
from security.principal import ANONYMOUS, Principal

LOCAL = Address("127.0.0.1", 9092)


def context_of(
    services: object = None,
    version: int = 0,
    *,
    client_id: str | None = "test",
    principal: Principal = ANONYMOUS,
    host: str = "127.0.0.1",
    listener: str = "PLAINTEXT",
    protocol: str = "PLAINTEXT",
    **connection: Any,
) -> RequestContext:
    """`services` are those of a broker, or a dictionary of the few that a test needs."""
    given = SimpleNamespace(**services) if isinstance(services, dict) else services
    made = ClientConnection("1", listener, protocol, Address(host, 5), LOCAL, principal, **connection)
    return RequestContext(version, 1, client_id, made, cast(Services, given))
