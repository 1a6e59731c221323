"""SASL DIGEST-MD5 for ZooKeeper, compatible with its DigestLoginModule. Pure.

    client: ""   server: challenge (realm, nonce)   client: response   server: rspauth, its own proof

Rules: the quality of protection is always `auth`, as in ZooKeeper; TLS protects the connection. The server must prove that it
knows the password, too: without that proof nothing is sent to it. The client's nonce is a parameter.
Source: RFC 2831; ZooKeeper ZooKeeperSaslClient, SaslServerCallbackHandler.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

from protocol.primitives import DecodeError, decode_text

DEFAULT_REALM: Final = "zk-sasl-md5"
SERVICE_URI: Final = "zookeeper/zk-sasl-md5"
NONCE_COUNT: Final = "00000001"
_DIRECTIVE = re.compile(r'\s*([a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class SaslCredentials:
    username: str
    password: str = field(repr=False)


class DigestMd5:
    """One exchange. `nonce` is the client's: unguessable, and never used twice."""

    def __init__(self, credentials: SaslCredentials, nonce: str, uri: str = SERVICE_URI) -> None:
        self._credentials = credentials
        self._uri = uri
        self._nonce = nonce
        self._proof: str | None = None  # the expected response of the server

    def first(self) -> bytes:
        """Return the initial message: empty, since the server begins."""
        return b""

    def answer(self, token: bytes) -> bytes | None:
        """Return what to send next, None when both sides are authenticated. Raises DecodeError."""
        directives = _directives(decode_text(token))
        if self._proof is not None:
            if directives.get("rspauth") != self._proof:
                raise DecodeError("the server does not know the password")
            return None
        nonce = directives.get("nonce")
        if not nonce or "auth" not in directives.get("qop", "auth").split(","):
            raise DecodeError("the challenge offers no authentication that both know")
        realm = directives.get("realm", DEFAULT_REALM)
        self._proof = self._digest(realm, nonce, f":{self._uri}")
        response = self._digest(realm, nonce, f"AUTHENTICATE:{self._uri}")
        return (
            f"charset=utf-8,username={_quoted(self._credentials.username)},realm={_quoted(realm)},"
            f"nonce={_quoted(nonce)},nc={NONCE_COUNT},cnonce={_quoted(self._nonce)},"
            f'digest-uri="{self._uri}",maxbuf=65536,response={response},qop=auth'
        ).encode()

    def _digest(self, realm: str, nonce: str, a2: str) -> str:
        secret = f"{self._credentials.username}:{realm}:{self._credentials.password}"
        a1 = _md5(secret.encode()) + f":{nonce}:{self._nonce}".encode()
        parts = (_md5(a1).hex(), nonce, NONCE_COUNT, self._nonce, "auth", _md5(a2.encode()).hex())
        return _md5(":".join(parts).encode()).hex()


def _md5(data: bytes) -> bytes:
    """Return an MD5 digest, which the mechanism requires."""
    return hashlib.md5(data, usedforsecurity=False).digest()


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _directives(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _DIRECTIVE.match(text, position)
        if match is None:
            raise DecodeError("the challenge is malformed")
        name, quoted, plain = match.groups()
        found[name] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
        position = match.end()
    return found
