"""SASL DIGEST-MD5 for ZooKeeper, both sides, compatible with its DigestLoginModule. Pure.

    client: ""   server: challenge (realm, nonce)   client: response   server: rspauth, its own proof

Rules: the quality of protection is always `auth`, as in ZooKeeper; TLS protects the connection. The server must prove that it
knows the password, too: without that proof nothing is sent to it. The nonces are parameters.
Source: RFC 2831; ZooKeeper ZooKeeperSaslClient, ZooKeeperSaslServer, SaslServerCallbackHandler.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from protocol.primitives import DecodeError, decode_text

DEFAULT_REALM: Final = "zk-sasl-md5"
SERVICE_URI: Final = "zookeeper/zk-sasl-md5"
SERVICE: Final = "zookeeper/"
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
        return _digest(self._credentials, realm, nonce, self._nonce, a2)


class DigestMd5Server:
    """The server's side of one exchange. `nonce` is the server's: unguessable, and never used twice."""

    def __init__(self, passwords: Mapping[str, str], nonce: str, realm: str = DEFAULT_REALM) -> None:
        self._passwords = passwords
        self._nonce = nonce
        self._realm = realm
        self._is_challenged = False
        self.username: str | None = None
        """Who it is, once the exchange is complete."""

    def answer(self, token: bytes) -> bytes:
        """Return what to send next: the challenge for the initial message, then the proof for the client's response. Raises
        DecodeError when the client does not know the password, or sends what is no response."""
        if not self._is_challenged:
            if token:
                raise DecodeError("the client has no initial response in this mechanism")
            self._is_challenged = True
            return (
                f"realm={_quoted(self._realm)},nonce={_quoted(self._nonce)},charset=utf-8,algorithm=md5-sess"
            ).encode()
        if self.username is not None:
            raise DecodeError("the exchange is complete")
        given = _directives(decode_text(token))
        uri, client_nonce = given.get("digest-uri", ""), given.get("cnonce", "")
        if given.get("nonce") != self._nonce or given.get("nc") != NONCE_COUNT or not client_nonce:
            raise DecodeError("the response is not to this challenge")
        if not uri.startswith(SERVICE) or given.get("realm") != self._realm or given.get("qop", "auth") != "auth":
            raise DecodeError("the response is for another service")
        username = given.get("username", "")
        actor = given.get("authzid")
        if actor not in (None, "", username):
            raise DecodeError("nobody may act for another user")
        credentials = SaslCredentials(username, self._passwords.get(username, ""))

        def digest(a2: str) -> str:
            return _digest(credentials, self._realm, self._nonce, client_nonce, a2, actor)

        expected = digest(f"AUTHENTICATE:{uri}")
        is_right = hmac.compare_digest(expected.encode(), given.get("response", "").encode())
        if username not in self._passwords or not is_right:
            raise DecodeError("the user is unknown, or the password is wrong")
        self.username = username
        return f"rspauth={digest(f':{uri}')}".encode()


def _digest(
    credentials: SaslCredentials, realm: str, nonce: str, client_nonce: str, a2: str, actor: str | None = None
) -> str:
    """`actor` is the user for whom the client says that it acts (authzid), as Java's does, of itself."""
    secret = f"{credentials.username}:{realm}:{credentials.password}"
    a1 = _md5(secret.encode()) + ":".join(["", nonce, client_nonce, *([actor] if actor else [])]).encode()
    parts = (_md5(a1).hex(), nonce, NONCE_COUNT, client_nonce, "auth", _md5(a2.encode()).hex())
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
