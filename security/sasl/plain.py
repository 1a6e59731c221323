"""SASL PLAIN: a client sends its name and its password. Pure.

    client: [authorization id] NUL name NUL password   server: ""

Rules: names are compared as they are, passwords in constant time, also for an unknown name. The password crosses the
network in clear: the listener's TLS protects it.
Source: RFC 4616; Kafka PlainSaslServer, PlainServerCallbackHandler, PlainLoginModule.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from protocol.java_text import AS_JAVA
from security.principal import USER_TYPE, Principal
from security.sasl.mechanisms import AuthenticationFailed, Identity

SEPARATOR = "\0"
# Parts behind this one are not counted.
_PARTS_COUNTED = 4
USER_OPTION = "user_"
"""Before a user's name among the options of a login module; the value is the password."""


def users_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords by user that the options of a `PlainLoginModule` name."""
    return {name.removeprefix(USER_OPTION): value for name, value in options.items() if name.startswith(USER_OPTION)}


class PlainServer:
    """One exchange. `passwords` are those of all users, by name."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user = ""
        self.identity: Identity | None = None

    def step(self, token: bytes) -> bytes:
        parts = token.decode("utf-8", AS_JAVA).split(SEPARATOR)
        if len(parts) != 3:
            count = min(len(parts), _PARTS_COUNTED)
            raise _failed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}")
        authorization_id, name, password = parts
        self.user = name
        if not name:
            raise _failed("Authentication failed: username not specified")
        if not password:
            raise _failed("Authentication failed: password not specified")
        known = self._passwords.get(name)
        is_equal = hmac.compare_digest(_comparable(password), _comparable(password if known is None else known))
        if known is None or not is_equal:
            raise _failed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise _failed("Authentication failed: Client requested an authorization id that is different from username")
        self.identity = Identity(Principal(USER_TYPE, name))
        return b""


class PlainClient:
    """A broker that authenticates to another one."""

    def __init__(self, username: str, password: str) -> None:
        self._token = SEPARATOR.join(("", username, password)).encode()

    def first(self) -> bytes:
        return self._token

    def answer(self, _token: bytes) -> bytes | None:
        return None


def _failed(message: str) -> AuthenticationFailed:
    """Return the failure whose reason the client gets, as in Kafka: none of them names a user."""
    return AuthenticationFailed(message, client_message=message)


def _comparable(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
