"""Checks before a request is decoded: foreign protocols, impossible sizes, APIs and versions that are not served.

Rules: pure; each function returns the reason to close the connection, which becomes its one log line, or None.
Source: Kafka NetworkReceive (sizes), RequestContext.parseRequest (versions). Kafka does not name HTTP and TLS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from broker.network.connections.connection_limits import ConnectionLimits
    from broker.network.routes import DispatchTable

HTTP_STARTS = frozenset({b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "})
TLS_HANDSHAKE = b"\x16\x03"


def foreign_protocol(first: bytes, security_protocol: str) -> str | None:
    """The protocol that begins with these bytes, which are no request's length."""
    if first in HTTP_STARTS:
        return "an HTTP request came to a Kafka listener"
    if first.startswith(TLS_HANDSHAKE):
        return f"a TLS handshake came to a {security_protocol} listener"
    return None


def impossible_length(prefix: bytes, limits: ConnectionLimits) -> str | None:
    """Why no frame begins with these four bytes."""
    return limits.refusal(int.from_bytes(prefix, "big", signed=True), may_be_large=True)


def not_served(table: DispatchTable, api_key: int, version: int) -> str | None:
    """Why such requests are not served. ApiVersions has a response in any version, so that the client learns which are."""
    if table.route(api_key, version) is not None or api_key == ApiVersionsRequest.api_key:
        return None
    handler = table.handler(api_key)
    name = f"API key {api_key}" if handler is None else handler.api_name
    return f"{name} version {version} is not served"
