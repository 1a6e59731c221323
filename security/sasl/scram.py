"""SASL SCRAM: client and server prove to each other that they know a password, without sending it. Pure.

    client: n,,n=name,r=nonce                server: r=nonces,s=salt,i=iterations
    client: c=header,r=nonces,p=proof        server: v=signature

The server keeps `ScramCredential`s, from which the password cannot be computed; its text is how Kafka's nodes have it. The
extension `tokenauth=true` says that name and password are those of a delegation token.

Rules: as Kafka does, the server takes no channel binding (`y` and `p`) and names of ASCII characters only. What both sides sign
are the messages as they were sent. A user who is not there is refused at the first message.
Invariants: proofs are compared in constant time; no credential is in a repr or an error; the client takes nothing from a server
that has not shown its signature.
Source: RFC 5802, RFC 7677; KIP-84; Kafka ScramSaslServer, ScramSaslClient, ScramFormatter, ScramMessages, ScramCredentialUtils.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from protocol.java_text import AS_JAVA
from security.principal import USER_TYPE, Principal
from security.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512, AuthenticationFailed, Identity

MIN_ITERATIONS = 4096
DEFAULT_ITERATIONS = 4096
MAX_ITERATIONS = 16_384
"""Of credentials that are made now; others are taken as they are."""
MOST_CLIENT_ITERATIONS = 1_000_000
"""That a server may ask a broker for: each of them takes a microsecond."""
SALT_BYTES = 24
NONCE_BYTES = 24
TOKEN_EXTENSION = "tokenauth"  # noqa: S105  a name of the protocol


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """`code` is its number in requests; `digest` the name of its hash function."""

    name: str
    code: int
    digest: str

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return what a password becomes. Takes a microsecond for each iteration, without the interpreter's lock."""
        return hashlib.pbkdf2_hmac(self.digest, password.encode("utf-8", "surrogatepass"), salt, iterations)

    def credential(self, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
        client_key = self.hmac(salted_password, b"Client Key")
        server_key = self.hmac(salted_password, b"Server Key")
        return ScramCredential(salt, self.hash(client_key), server_key, iterations)

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.digest, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.digest)


MECHANISMS = {
    each.name: each for each in (ScramMechanism(SCRAM_SHA_256, 1, "sha256"), ScramMechanism(SCRAM_SHA_512, 2, "sha512"))
}
MECHANISMS_BY_CODE = {each.code: each for each in MECHANISMS.values()}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server knows of a user's password."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @property
    def text(self) -> str:
        """As in the node of a user."""
        salt, stored_key, server_key = (_encoded(each) for each in (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"

    @classmethod
    def parse(cls, text: str) -> ScramCredential:
        """Return the credential of its text. Raises ValueError, without any part of it."""
        parts = dict(_pair(part) for part in text.split(","))
        if parts.keys() != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError("Credentials not valid")
        try:
            salt, stored_key, server_key = (
                base64.b64decode(parts[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
            return cls(salt, stored_key, server_key, int(parts["iterations"]))
        except (binascii.Error, ValueError):
            raise ValueError("Credentials not valid") from None


def _pair(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return name.strip(), value


class TokenLogin(NamedTuple):
    """The credential of a delegation token, whom it stands for, and until when (wall clock)."""

    credential: ScramCredential
    owner: Principal
    expires_ms: int


class ScramSource(Protocol):
    """Where a server finds credentials: in memory."""

    def user(self, mechanism: str, name: str) -> ScramCredential | None: ...

    def token(self, mechanism: str, token_id: str) -> TokenLogin | None:
        """Of a delegation token that holds."""


_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*)"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<signed>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE})(?:,[A-Za-z]+={_VALUE})*?),p=(?P<proof>{_BASE64})"
)
_SERVER_FIRST = re.compile(
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,10}}){_EXTENSIONS}"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^,=]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class ScramServer:
    """One exchange. `nonce` is the server's part: unguessable, and never used twice."""

    def __init__(self, mechanism: ScramMechanism, source: ScramSource, nonce: str) -> None:
        self._mechanism = mechanism
        self._source = source
        self._nonce = nonce
        self._credential: ScramCredential | None = None
        self._to_sign = ""
        self._claimed: Identity | None = None
        self.user = ""
        self.identity: Identity | None = None

    def step(self, token: bytes) -> bytes:
        text = token.decode("utf-8", AS_JAVA)
        return self._on_first(text) if self._claimed is None else self._on_final(text)

    def _on_first(self, text: str) -> bytes:
        first = _CLIENT_FIRST.fullmatch(text)
        if first is None:
            raise AuthenticationFailed("a first message that is not SCRAM's")
        name = self.user = _plain_name(first["name"])
        extensions = dict(part.split("=", 1) for part in first["extensions"].split(",")[1:])
        if extensions.get(TOKEN_EXTENSION, "").lower() == "true":
            login = self._source.token(self._mechanism.name, name)
            if login is None:
                raise AuthenticationFailed("an unknown delegation token, or one that has expired")
            credential, claimed = login.credential, Identity(login.owner, login.expires_ms, is_by_token=True)
        else:
            known = self._source.user(self._mechanism.name, name)
            if known is None:
                raise AuthenticationFailed("a user without credentials of this mechanism")
            credential, claimed = known, Identity(Principal(USER_TYPE, name))
        if first["authorization"] is not None and first["authorization"] != name:
            message = "Authentication failed: Client requested an authorization id that is different from username"
            raise AuthenticationFailed(message, client_message=message)
        if credential.iterations < MIN_ITERATIONS:
            raise AuthenticationFailed(
                f"a credential of {credential.iterations} iterations, fewer than {MIN_ITERATIONS}"
            )
        self._credential, self._claimed = credential, claimed
        self._nonce = first["nonce"] + self._nonce
        answer = f"r={self._nonce},s={_encoded(credential.salt)},i={credential.iterations}"
        self._to_sign = f"{first['bare']},{answer}"
        return answer.encode()

    def _on_final(self, text: str) -> bytes:
        credential, mechanism = self._credential, self._mechanism
        assert credential is not None
        final = _CLIENT_FINAL.fullmatch(text)
        if final is None:
            raise AuthenticationFailed("a final message that is not SCRAM's")
        if final["nonce"] != self._nonce:
            raise AuthenticationFailed("another nonce in the final message")
        signed = f"{self._to_sign},{final['signed']}".encode("utf-8", "surrogatepass")
        signature = mechanism.hmac(credential.stored_key, signed)
        proof = base64.b64decode(final["proof"])
        if len(proof) != len(signature):
            raise AuthenticationFailed("a proof of another length")
        stored_key = mechanism.hash(_xor(proof, signature))
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise AuthenticationFailed("a wrong password")
        self.identity = self._claimed
        return f"v={_encoded(mechanism.hmac(credential.server_key, signed))}".encode()


class SaltedPasswords:
    """The last password that was salted: a broker that connects again computes nothing."""

    def __init__(self, mechanism: ScramMechanism, password: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._last: tuple[bytes, int] | None = None
        self._salted = b""

    def salted(self, salt: bytes, iterations: int) -> bytes:
        if self._last != (salt, iterations):
            self._salted = self._mechanism.salted_password(self._password, salt, iterations)
            self._last = (salt, iterations)
        return self._salted


class ScramClient:
    """One exchange of a broker with another one. `nonce` as in `ScramServer`; with `is_token` name and password are those of a
    delegation token."""

    def __init__(
        self, mechanism: ScramMechanism, name: str, passwords: SaltedPasswords, nonce: str, *, is_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._passwords = passwords
        self._nonce = nonce
        self._bare = f"n={_sasl_name(name)},r={nonce}" + (f",{TOKEN_EXTENSION}=true" if is_token else "")
        self._signature: bytes | None = None  # the server's, which it must send

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def answer(self, token: bytes) -> bytes | None:
        text = token.decode("utf-8", AS_JAVA)
        if self._signature is None:
            return self._on_challenge(text)
        final = _SERVER_FINAL.fullmatch(text)
        if final is None or final["signature"] is None:
            raise AuthenticationFailed("the other broker refused the password")
        if not hmac.compare_digest(base64.b64decode(final["signature"]), self._signature):
            raise AuthenticationFailed("the other broker does not know the password")
        return None

    def _on_challenge(self, text: str) -> bytes:
        mechanism = self._mechanism
        challenge = _SERVER_FIRST.fullmatch(text)
        if challenge is None or not challenge["nonce"].startswith(self._nonce):
            raise AuthenticationFailed("the other broker's challenge is not SCRAM's")
        iterations = int(challenge["iterations"])
        if not MIN_ITERATIONS <= iterations <= MOST_CLIENT_ITERATIONS:
            raise AuthenticationFailed(f"the other broker asks for {iterations} iterations")
        salted = self._passwords.salted(base64.b64decode(challenge["salt"]), iterations)
        final = f"c={_encoded(b'n,,')},r={challenge['nonce']}"
        signed = f"{self._bare},{text},{final}".encode("utf-8", "surrogatepass")
        client_key = mechanism.hmac(salted, b"Client Key")
        proof = _xor(client_key, mechanism.hmac(mechanism.hash(client_key), signed))
        self._signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), signed)
        return f"{final},p={_encoded(proof)}".encode()


def _plain_name(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")


def _sasl_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
