"""SASL mechanisms as their users see them: one exchange, from the client's first token to who the client is. Pure.

A listener has a table of mechanisms by name; for each exchange it makes a `SaslServer`, whose `step` answers one token after
the other until it has an `identity`, or raises `AuthenticationFailed`. A broker that connects to another one is the
`SaslClient`.

Rules: a step decides from memory, without awaiting: it is called on the event loop, and the client has not authenticated yet.
Secrets are compared in constant time, and appear in no exception. An exchange that has failed is used no more.
Source: RFC 4422; Kafka SaslServer of each mechanism, SaslServerAuthenticator, SaslClientAuthenticator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from security.principal import Principal

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"


class AuthenticationFailed(Exception):
    """A client, or another broker, did not prove its identity. The text goes to the log, `client_message` to the client; with
    None the client learns no more than that its credentials are invalid."""

    def __init__(self, reason: str, *, client_message: str | None = None) -> None:
        super().__init__(reason)
        self.client_message = client_message


class Identity(NamedTuple):
    """Who a client is. `expires_ms` (wall clock) is when its credentials end, None for never. `is_by_token`: a delegation token
    has shown it, with which no other token may be made."""

    principal: Principal
    expires_ms: int | None = None
    is_by_token: bool = False


class SaslServer(Protocol):
    """The server's side of one exchange."""

    @property
    def user(self) -> str:
        """The name that the client claims; it is not proven. Empty while there is none."""

    @property
    def identity(self) -> Identity | None:
        """Who the client is; None until the exchange is complete."""

    def step(self, token: bytes) -> bytes:
        """Return the answer to a client's token; it is sent even if it is empty. Raises AuthenticationFailed."""


SaslServerFactory = Callable[[], SaslServer]
MechanismTable = Mapping[str, SaslServerFactory]
"""The mechanisms of a listener, in the order in which clients get them."""


class SaslClient(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """Return the first token."""

    def answer(self, token: bytes) -> bytes | None:
        """Return what to send after the server's token, None when the exchange is complete. May compute for milliseconds: it is
        called in a thread. Raises AuthenticationFailed."""


SaslClientFactory = Callable[[], SaslClient]
