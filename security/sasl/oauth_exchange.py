"""The mechanism OAUTHBEARER: a client shows a bearer token in one message, and fails in two. Pure.

    client: n,a=alice,^A auth=Bearer <token> ^A key=value ^A ^A     (^A is the byte 1)
    server: an empty token, or a JSON text that says why not; the client then sends ^A, and the exchange fails

Rules: an authorization id must be the name that the token stands for. Extensions (key=value) are checked and have no effect.
Source: RFC 7628; Kafka OAuthBearerSaslServer, OAuthBearerClientInitialResponse, OAuthBearerSaslClient; KIP-255, KIP-342.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from security.principal import USER_TYPE, Principal
from security.sasl.mechanisms import AuthenticationFailed, Identity
from security.sasl.oauth_token import TokenRefused, TokenValidator

SEPARATOR: Final = "\x01"
_CONTROL_A: Final = b"\x01"
_AUTH: Final = "auth"
_AUTHORIZATION_ID: Final = re.compile(r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+")
_KEY: Final = re.compile("[A-Za-z]+")
_VALUE: Final = re.compile("[\x21-\x7e \t\r\n]+")
_BEARER: Final = re.compile(r"(\w+) +([-_.a-zA-Z0-9]+)", re.ASCII)
EXTENSIONS_MAX: Final = 100


class FirstMessage(NamedTuple):
    """What a client says. `authorization_id` is empty if it names none."""

    authorization_id: str
    token: str
    extensions: dict[str, str]

    @classmethod
    def parse(cls, data: bytes) -> FirstMessage:
        """Raises AuthenticationFailed."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise _malformed("it is no UTF-8") from None
        header, _, rest = text.partition(SEPARATOR)
        flag, _, identity = header.partition(",")
        if flag != "n" or not identity.endswith(",") or not rest.endswith(SEPARATOR):
            raise _malformed("its form is wrong")
        name = identity[:-1]
        if name and not (name.startswith("a=") and _AUTHORIZATION_ID.fullmatch(name[2:])):
            raise _malformed("its authorization id is wrong")
        pairs = cls._pairs(rest[:-1])
        auth = pairs.pop(_AUTH, None)
        match = None if auth is None else _BEARER.fullmatch(auth)
        if match is None or match[1].lower() != "bearer":
            raise _malformed("it shows no bearer token")
        return cls(name[2:], match[2], pairs)

    @staticmethod
    def _pairs(text: str) -> dict[str, str]:
        if text and not text.endswith(SEPARATOR):
            raise _malformed("its form is wrong")
        pairs: dict[str, str] = {}
        for pair in text.split(SEPARATOR)[:-1]:
            key, separator, value = pair.partition("=")
            if not separator or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value) or len(pairs) == EXTENSIONS_MAX:
                raise _malformed("an extension is wrong")
            pairs[key] = value
        return pairs

    def encode(self) -> bytes:
        identity = f"a={self.authorization_id}" if self.authorization_id else ""
        extensions = "".join(f"{SEPARATOR}{key}={value}" for key, value in self.extensions.items())
        return f"n,{identity},{SEPARATOR}auth=Bearer {self.token}{extensions}{SEPARATOR}{SEPARATOR}".encode()


def _malformed(reason: str) -> AuthenticationFailed:
    return AuthenticationFailed(f"the first message of OAUTHBEARER is malformed: {reason}")


class OAuthBearerServer:
    """The server's side of one exchange: a `security.sasl.mechanisms.SaslServer`."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._failure: tuple[str, str] | None = None  # the reason, and the message to the client
        self.user = ""
        self.identity: Identity | None = None

    def step(self, token: bytes) -> bytes:
        if self._failure is not None:
            reason, client_message = self._failure
            raise AuthenticationFailed(reason, client_message=client_message)
        message = FirstMessage.parse(token)
        try:
            bearer = self._validator.validated(message.token)
        except TokenRefused as refused:
            client_message = _error_text(refused)
            self._failure = (str(refused), client_message)
            return client_message.encode()
        self.user = bearer.name
        if message.authorization_id not in ("", bearer.name):
            raise AuthenticationFailed(
                "the authorization id is not the name of the token",
                client_message="Authentication failed: Client requested an authorization id "
                f"({message.authorization_id}) that is different from the token's principal name ({bearer.name})",
            )
        self.identity = Identity(Principal(USER_TYPE, bearer.name), bearer.expires_ms)
        return b""


def _error_text(refused: TokenRefused) -> str:
    """Return the JSON text for the client, in the form of Apache Kafka."""
    text = f'{{"status":"{refused.status}"'
    if refused.scope is not None:
        text += f', "scope":{json.dumps(refused.scope)}'
    return text + "}"


class OAuthBearerClient:
    """The client's side of one exchange: a `security.sasl.mechanisms.SaslClient`. `current_token` returns the token to show."""

    def __init__(self, current_token: Callable[[], str], extensions: dict[str, str] | None = None) -> None:
        """Raises ValueError for an extension that cannot be sent."""
        for name, text in (extensions or {}).items():
            if name == _AUTH or not _KEY.fullmatch(name) or not _VALUE.fullmatch(text):
                raise ValueError(f"the extension {name} cannot be sent")
        self._current_token = current_token
        self._extensions = extensions or {}

    def first(self) -> bytes:
        return FirstMessage("", self._current_token(), self._extensions).encode()

    def answer(self, token: bytes) -> bytes | None:
        """Return None after an empty token; any other is an error, which the protocol wants to be acknowledged."""
        return _CONTROL_A if token else None
