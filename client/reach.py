"""Why no broker answers at an address: it is tried step by step, and the step that fails is the answer.

    its name -> a connection -> TLS -> ApiVersions -> SaslHandshake

Rules: blocking; each address has a thread, each step a limit. Nothing is asked that changes anything, and there is no login:
that a password is wrong, the client library says. Where TLS and plain text, or a login and none, are confused, the other is
tried, so that the answer names the setting.
Source: KIP-35, KIP-43; RFC 8446 (alerts), RFC 9112.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from client.settings.files import context_of
from client.settings.values import ClientSettings
from protocol.errors import ErrorCode
from protocol.header import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.primitives import DecodeError

LIMIT_S = 1.0
"""For a connection."""
ANSWER_S = 0.8
"""For each answer, those of a TLS handshake included."""
WAITED_S = 3.0
"""For all addresses together."""
DEFAULT_PORT = 9092
_MOST_BYTES = 100_000_000
_CORRELATION_ID = 0x42617262
_NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)
_SILENT, _REFUSED = "does not answer", "refuses connections"
_TLS_ALERT = b"\x15\x03"
_HTTP_REQUEST = b"HEAD / HTTP/1.0\r\n\r\n"
_HTTP_BEGINS = b"HTTP"
_CERTIFICATE_WANTED = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE")
"""Alerts to a client without a certificate: of RFC 8446, and of Java."""
_NOT_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST", "RECORD_LAYER_FAILURE",
            "PACKET_LENGTH_TOO_LONG", "INTERNAL_ERROR")  # fmt: skip
"""What OpenSSL calls an answer that is no TLS."""


@dataclass(frozen=True, slots=True)
class Access:
    """How a client would talk to the address. `context` is None without TLS, `mechanism` without a login."""

    protocol: str
    context: ssl.SSLContext | None
    mechanism: str | None

    @classmethod
    def of(cls, settings: ClientSettings) -> Access:
        """Raises SettingsError."""
        context = None if settings.tls is None else context_of(settings.tls)
        return cls(settings.protocol, context, None if settings.login is None else settings.login.mechanism)


class _Unreached(Exception):
    """The text is why."""


class _NoAnswer(Exception):
    """A connection gave something else than the answer to a request."""

    def __init__(self, begun: bytes, *, is_silent: bool = False, reason: str = "") -> None:
        """`reason` is OpenSSL's."""
        super().__init__()
        self.begun = begun
        self.is_silent = is_silent
        self.reason = reason


def why_unreached(servers: Sequence[str], access: Access, *, are_brokers: bool = False) -> dict[str, str | None]:
    """Return for each address why a client does not reach a broker there; None where nothing hinders it. Of those that are
    known to be brokers it is only asked whether they answer."""
    found: dict[str, str | None] = {}

    def probe(server: str) -> None:
        try:
            _try(server, access, is_broker=are_brokers)
        except _Unreached as error:
            found[server] = str(error)
        else:
            found[server] = None

    threads = {server: threading.Thread(target=probe, args=(server,), daemon=True) for server in servers}
    for thread in threads.values():
        thread.start()
    for server, thread in threads.items():
        thread.join(WAITED_S)
        found.setdefault(server, f"{server} {_SILENT} within {WAITED_S:g} s, or its name is not resolved")
    return {server: found[server] for server in servers}


def unreached_text(servers: Sequence[str], access: Access) -> str | None:
    """Return why no broker answers at any of the addresses; None where one has nothing that hinders a client."""
    found = why_unreached(servers, access)
    if None in found.values():
        return None
    return "; ".join(str(why) for why in found.values())


def is_final(why: str) -> bool:
    """Return whether waiting does not help: something else answers there, or by another protocol. A silent server may be slow,
    one that refuses may be starting."""
    return not any(each in why for each in (_SILENT, _REFUSED))


def is_silent(why: str) -> bool:
    """Return whether somebody takes connections there and does not answer, or nothing is known."""
    return _SILENT in why


def address_of(server: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `PROTOCOL://HOST:PORT` or `[HOST]`."""
    server = server.strip().rpartition("://")[2]
    host, separator, port = server.rpartition(":")
    if not separator or not port.isdecimal():
        host, port = server, str(DEFAULT_PORT)
    return host.strip("[]"), int(port)


def _try(server: str, access: Access, *, is_broker: bool) -> None:
    """Raises _Unreached."""
    host, port = address_of(server)
    addresses = _resolved(host, port)
    with contextlib.ExitStack() as open_until_then:
        connection = open_until_then.enter_context(_connected(server, addresses))
        if access.context is not None:
            connection = open_until_then.enter_context(_with_tls(server, host, addresses, connection, access))
        try:
            _ask(connection, ApiVersionsRequest(), 0)
        except _NoAnswer as error:
            if is_broker:
                raise _Unreached(_silence(server) if error.is_silent else f"{server} closes the connection") from error
            raise _Unreached(_wrong_answer(server, addresses, access, error)) from error
        if not is_broker:
            _check_login(server, connection, access)


def _resolved(host: str, port: int) -> list[Any]:
    """Raises _Unreached."""
    try:
        return [info[4] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (socket.gaierror, UnicodeError) as error:
        raise _Unreached(f"the name {host} does not resolve ({getattr(error, 'strerror', None) or error})") from error


@contextlib.contextmanager
def _connected(server: str, addresses: Sequence[Any]) -> Iterator[socket.socket]:
    """Give a connection to the first address that takes one. Raises _Unreached."""
    why = OSError(f"{server} has no address")
    for address in addresses:
        try:
            connection = socket.create_connection(address[:2], LIMIT_S)
        except OSError as error:
            why = error
            continue
        with connection:
            yield connection
        return
    raise _Unreached(_no_connection(server, why)) from why


def _no_connection(server: str, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"{server} {_REFUSED}: nothing listens there"
    if error.errno in _NO_ROUTE:
        return f"there is no route to {server} ({error.strerror})"
    if isinstance(error, TimeoutError):
        return f"{server} {_SILENT}: no connection within {LIMIT_S:g} s (a firewall, or a host that is off)"
    return f"{server} cannot be reached: {error.strerror or error}"


def _with_tls(server: str, host: str, addresses: Sequence[Any], plain: socket.socket, access: Access) -> ssl.SSLSocket:
    """Raises _Unreached."""
    assert access.context is not None
    try:
        plain.settimeout(ANSWER_S)
        return access.context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise _Unreached(
            f"the certificate of {server} is not accepted: {error.verify_message or error}; "
            "ssl.truststore.location names the authorities that are"
        ) from error
    except TimeoutError as error:
        raise _Unreached(_silence(server)) from error
    except OSError as error:
        begun = _begun(server, addresses)
        if begun is not None:
            raise _Unreached(_http(server, begun) or _no_tls(server, access)) from error
        raise _Unreached(
            f"TLS with {server} fails: {getattr(error, 'reason', None) or error.strerror or error}"
        ) from error


def _begun(server: str, addresses: Sequence[Any]) -> bytes | None:
    """Return how the answer to a plain request begins, b"" for a broker's; None where none comes, as from who wants TLS."""
    try:
        with _connected(server, addresses) as connection:
            _ask(connection, ApiVersionsRequest(), 0)
    except _NoAnswer as error:
        begun = error.begun or (_begin_of_http(server, addresses) if error.is_silent else b"")
        return begun if begun and not begun.startswith(_TLS_ALERT) else None
    except _Unreached:
        return None
    return b""


def _wrong_answer(server: str, addresses: Sequence[Any], access: Access, error: _NoAnswer) -> str:
    text = _http(server, error.begun or (_begin_of_http(server, addresses) if error.is_silent else b""))
    if text is not None:
        return text
    if any(alert in error.reason for alert in _CERTIFICATE_WANTED):
        return f"{server} wants another certificate of the client, or one at all: ssl.keystore.location names it"
    if access.context is None and (
        error.begun.startswith(_TLS_ALERT) or (not error.begun and _speaks_tls(server, addresses))
    ):
        return f"{server} speaks TLS: security.protocol={access.protocol} does not, {_other(access, 'SSL')} does"
    if error.is_silent:
        return _silence(server)
    if error.begun:
        return f"what answers at {server} is no Kafka broker"
    return f"{server} closes the connection: it is no Kafka broker, or does not want this client"


def _silence(server: str) -> str:
    return f"{server} takes the connection and {_SILENT} within {ANSWER_S:g} s"


def _http(server: str, begun: bytes) -> str | None:
    return f"an HTTP server answers at {server}, no Kafka broker" if begun.startswith(_HTTP_BEGINS) else None


def _begin_of_http(server: str, addresses: Sequence[Any]) -> bytes:
    """Return how the answer to a request of HTTP begins: its servers wait for the end of a line."""
    with contextlib.suppress(OSError, _Unreached), _connected(server, addresses) as connection:
        connection.settimeout(ANSWER_S)
        connection.sendall(_HTTP_REQUEST)
        return connection.recv(len(_HTTP_BEGINS), socket.MSG_WAITALL)
    return b""


def _no_tls(server: str, access: Access) -> str:
    return f"{server} speaks no TLS: security.protocol={access.protocol} does, {_other(access, 'PLAINTEXT')} does not"


def _other(access: Access, transport: str) -> str:
    """Return the protocol of the other kind of transport, with a login or without as the client's own."""
    return f"SASL_{transport}" if access.mechanism is not None else transport


def _speaks_tls(server: str, addresses: Sequence[Any]) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _connected(server, addresses) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:  # an alert is TLS, too
        return error.reason not in _NOT_TLS
    except (OSError, _Unreached):
        return False


def _check_login(server: str, connection: socket.socket, access: Access) -> None:
    """Raises _Unreached when the listener wants a login and the client has none, or the other way round."""
    try:
        frame = _ask(connection, SaslHandshakeRequest(mechanism=access.mechanism or ""), 1)
        answer = decode_response(frame, SaslHandshakeResponse, 1)[1]
    except (_NoAnswer, DecodeError):  # the client library will say more
        return
    protocol, offered = access.protocol, ", ".join(answer.mechanisms)
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        if access.mechanism is not None:
            raise _Unreached(
                f"{server} takes no login: security.protocol={protocol} has one, {protocol.removeprefix('SASL_')} has none"
            )
    elif access.mechanism is None:
        other = "SASL_SSL" if access.context is not None else "SASL_PLAINTEXT"
        raise _Unreached(f"{server} wants a login ({offered}): security.protocol={protocol} has none, {other} has one")
    elif answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise _Unreached(f"{server} does not take sasl.mechanism={access.mechanism}, but {offered}")


def _ask(connection: socket.socket, request: Any, version: int) -> bytes:
    """Return the frame of the answer. Raises _NoAnswer."""
    answer = b""
    try:
        connection.settimeout(ANSWER_S)
        connection.sendall(b"".join(map(bytes, encode_request(request, version, _CORRELATION_ID, "barnabas"))))
        while len(answer) < 8:
            answer += _received(connection, 8 - len(answer), answer)
        size, correlation_id = struct.unpack(">iI", answer)
        if correlation_id != _CORRELATION_ID or not 4 <= size <= _MOST_BYTES:
            raise _NoAnswer(answer)
        while len(answer) < size + 4:
            answer += _received(connection, size + 4 - len(answer), answer)
    except TimeoutError:
        raise _NoAnswer(answer, is_silent=True) from None
    except OSError as error:
        raise _NoAnswer(answer, reason=getattr(error, "reason", None) or "") from None
    return answer[4:]


def _received(connection: socket.socket, most: int, before: bytes) -> bytes:
    data = connection.recv(most)
    if not data:
        raise _NoAnswer(before)
    return data
