"""One blocking connection to a broker: frames, correlation ids, and the versions that both sides speak.

A connection begins with ApiVersions, and with the login if there is one; each request then goes out in the newest version that
this side and the broker know, so the same client speaks to this broker, to Apache Kafka 3.9 and to Apache Kafka 4, which knows
fewer old versions.

Rules: blocking sockets, as executors run plain Python; one thread uses a connection. Requests may be sent before earlier
responses are received; responses come in order.
Errors: OSError when the connection cannot be opened or is lost, and when a response does not come in time or is malformed;
the connection is closed then. KafkaError(UNSUPPORTED_VERSION) when there is no common version. LoginRefused when the broker
does not let this client in, or its certificate is not accepted; SettingsError for a store that cannot be read.
Source: KIP-35, KIP-511 (ApiVersions), KIP-152 and KIP-368 (SASL), Kafka NetworkClient.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from barnabas.spark.client.login import LOGINS, Logins
from barnabas.spark.client.settings import ConnectionSettings
from client.errors import LoginRefused
from client.settings.files import context_of
from client.settings.values import LoginSettings, TlsSettings
from protocol.errors import ErrorCode, KafkaError
from protocol.header import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.primitives import Buffer, DecodeError
from protocol.schema import Request, Response
from security.sasl import AuthenticationFailed

SOFTWARE_NAME = "barnabas-spark"
_LENGTH_BYTES: Final = 4
_MAX_FRAME_BYTES: Final = (1 << 31) - 1
_MAX_ELEMENTS: Final = 5_000_000
_LARGE_BYTES: Final = 64 * 1024
_PART_OF_SESSION: Final = 0.85
"""After this part of a session's life this client authenticates again."""
_HIGHEST: Final = {
    1: 12,  # Fetch: from 13 on topics are named by their ids
    10: 3,  # FindCoordinator: from 4 on for several keys
    22: 4,  # InitProducerId, and EndTxn below: the second part of KIP-890 raises the epoch at the end of each transaction
    24: 3,  # AddPartitionsToTxn: from 4 on for brokers
    26: 4,
}

R = TypeVar("R", bound=Response)


class BrokerConnection:
    """An open connection."""

    def __init__(
        self,
        host: str,
        port: int,
        settings: ConnectionSettings,
        logins: Logins = LOGINS,
        clock: Callable[[], float] = time.monotonic,  # noqa: TID251  a user's process, not the broker
    ) -> None:
        """Connect, ask for the broker's versions, and log in. Raises OSError, LoginRefused, SettingsError."""
        self._logins = logins
        self._clock = clock
        self.address = f"{host}:{port}"
        self._settings = settings
        self._pending: deque[tuple[int, type[Response], int]] = deque()
        self._correlation_id = 0
        self._login_ends_s: float | None = None
        first_s = settings.timeout_s if settings.first_answer_timeout_s is None else settings.first_answer_timeout_s
        plain = socket.create_connection((host, port), min(first_s, settings.connect_timeout_s))
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
            self._socket = plain if settings.tls is None else self._secured(plain, host, settings.tls)
            self._socket.settimeout(min(first_s, settings.timeout_s))
            self._versions = self._ask_versions()
            self._socket.settimeout(settings.timeout_s)
            if settings.login is not None:
                self._log_in(settings.login)
        except BaseException:
            plain.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def version_of(self, request: type[Request]) -> int:
        """The newest common version. Raises KafkaError."""
        key = request.api_key
        known = self._versions.get(key)
        first, last = request.min_version, request.max_version
        last = min(last, _HIGHEST.get(key, last))
        if known is not None:
            version = min(last, known[1])
            if version >= max(first, known[0]):
                return version
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{self.address} speaks {request.api_name} in versions {known or 'none'}, this client in {first} to {last}",
        )

    def send(self, request: Request) -> None:
        """Send a request, whose response `receive` returns later. Raises OSError, KafkaError, LoginRefused."""
        if self._login_ends_s is not None and not self._pending and self._clock() >= self._login_ends_s:
            assert self._settings.login is not None
            self._log_in(self._settings.login)
        self._send(request, self.version_of(type(request)))

    def ask(self, request: Request, response_type: type[R]) -> R:
        """Send a request and return its response. Raises OSError, KafkaError."""
        assert not self._pending, "an earlier response was not received"
        self.send(request)
        return self.receive(response_type)

    def receive(self, response_type: type[R]) -> R:
        """The response to the oldest request that has none yet. Raises OSError."""
        correlation_id, expected, version = self._pending.popleft()
        assert expected is response_type
        frame = self._receive_frame()
        try:
            found, response = decode_response(frame, response_type, version, max_elements=_MAX_ELEMENTS)
        except DecodeError as error:
            raise self._lost(f"a malformed response: {error}") from error
        if found != correlation_id:
            raise self._lost(f"response {found} in place of {correlation_id}")
        return response

    def _secured(self, plain: socket.socket, host: str, tls: TlsSettings) -> ssl.SSLSocket:
        try:
            return context_of(tls).wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise LoginRefused(f"the certificate of {self.address} is not accepted: {error.verify_message}") from None

    def _log_in(self, login: LoginSettings) -> None:
        """Authenticate this connection, for the first time or again. Raises OSError, LoginRefused."""
        exchange = self._logins.exchange(login)
        token: bytes | None = exchange.first()
        self._send(SaslHandshakeRequest(mechanism=login.mechanism), 1)
        handshake = self.receive(SaslHandshakeResponse)
        code = ErrorCode(handshake.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise self._refused(f"{login.mechanism} is not enabled, but {', '.join(handshake.mechanisms)}")
        if code is not ErrorCode.NONE:
            raise self._refused(f"SaslHandshake failed: {code.message}")
        version = self.version_of(SaslAuthenticateRequest)
        lifetime_ms = 0
        while token is not None:
            self._send(SaslAuthenticateRequest(auth_bytes=token), version)
            response = self.receive(SaslAuthenticateResponse)
            if response.error_code:
                raise self._refused(response.error_message or ErrorCode(response.error_code).message)
            try:
                token = exchange.answer(response.auth_bytes)
            except AuthenticationFailed as error:
                raise self._refused(str(error)) from None
            lifetime_ms = response.session_lifetime_ms
        self._login_ends_s = self._clock() + lifetime_ms * _PART_OF_SESSION / 1000 if lifetime_ms > 0 else None

    def _refused(self, problem: str) -> LoginRefused:
        self.close()
        return LoginRefused(f"{self.address} refuses the login: {problem}")

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="1")
        self._send(request, 3)
        # A broker that does not know version 3 answers with version 0.
        correlation_id, _, version = self._pending.popleft()
        frame = self._receive_frame()
        code = int.from_bytes(frame[_LENGTH_BYTES : _LENGTH_BYTES + 2], "big", signed=True)
        if code == ErrorCode.UNSUPPORTED_VERSION:
            self._send(request, 0)
            response = self.receive(ApiVersionsResponse)
        else:
            try:
                found, response = decode_response(frame, ApiVersionsResponse, version)
            except DecodeError as error:
                raise self._lost(f"no broker, or a listener with another protocol: {error}") from error
            if found != correlation_id:
                raise self._lost("no broker, or a listener with another protocol")
        if response.error_code:
            raise self._lost(f"ApiVersions failed: {ErrorCode(response.error_code).name}")
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def _send(self, request: Request, version: int) -> None:
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        chunks = encode_request(request, version, correlation_id, self._settings.client_id)
        try:
            self._socket.sendall(b"".join(chunks))
        except OSError as error:
            raise self._lost(str(error)) from error
        self._pending.append((correlation_id, type(request).response_type, version))

    def _receive_frame(self) -> Buffer:
        length = self._receive(_LENGTH_BYTES)
        size = int.from_bytes(length, "big", signed=True)
        if not _LENGTH_BYTES <= size <= _MAX_FRAME_BYTES:
            raise self._lost("no broker, or a listener with another protocol")
        return self._receive(size)

    def _receive(self, size: int) -> Buffer:
        view = _large_buffer(size) if size >= _LARGE_BYTES else memoryview(bytearray(size))
        filled = 0
        try:
            while filled < size:
                count = self._socket.recv_into(view[filled:])
                if not count:
                    raise self._lost("the broker closed the connection")
                filled += count
        except TimeoutError as error:
            raise self._lost(f"no response within {self._socket.gettimeout():g} s") from error
        return view

    def _lost(self, problem: str) -> ConnectionError:
        self.close()
        return ConnectionError(f"{self.address}: {problem}")


def _large_buffer(size: int) -> memoryview:
    """Return one of numpy: those of Python are filled with zeros before they are filled with what comes."""
    import numpy as np  # noqa: PLC0415  requests alone do without it

    return memoryview(np.empty(size, np.uint8))
