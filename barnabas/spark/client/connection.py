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

import random
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from barnabas.spark.client.login import LOGINS, Logins
from barnabas.spark.client.settings import ConnectionSettings
from client.errors import LoginRefused
from client.exchange import Exchange
from client.opening import Ask, Login, Steps, VersionRanges, ask_versions, log_in, renewal_pause_ms
from client.settings.files import context_of
from client.settings.values import LoginSettings, TlsSettings
from client.versions import common_version
from protocol.errors import KafkaError
from protocol.primitives import Buffer, DecodeError
from protocol.schema import Request, Response

_LENGTH_BYTES: Final = 4
_MAX_FRAME_BYTES: Final = (1 << 31) - 1
_MAX_ELEMENTS: Final = 5_000_000
_LARGE_BYTES: Final = 64 * 1024

R = TypeVar("R", bound=Response)
T = TypeVar("T")


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
        self._exchange = Exchange[None](settings.client_id, _MAX_ELEMENTS)
        self._versions: VersionRanges = {}
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
        return common_version(request, self._versions, self.address)

    def send(self, request: Request) -> None:
        """Send a request, whose response `receive` returns later. Raises OSError, KafkaError, LoginRefused."""
        if self._login_ends_s is not None and not len(self._exchange) and self._clock() >= self._login_ends_s:
            assert self._settings.login is not None
            self._log_in(self._settings.login)
        self._send(request, self.version_of(type(request)))

    def ask(self, request: Request, response_type: type[R]) -> R:
        """Send a request and return its response. Raises OSError, KafkaError."""
        assert not len(self._exchange), "an earlier response was not received"
        self.send(request)
        return self.receive(response_type)

    def receive(self, response_type: type[R]) -> R:
        """The response to the oldest request that has none yet. Raises OSError."""
        response = self._received()
        assert isinstance(response, response_type)
        return response

    def _received(self) -> Response:
        frame = self._receive_frame()
        try:
            return self._exchange.response(frame)[1]
        except DecodeError as error:
            problem = "a malformed response" if self._versions else "no broker, or a listener with another protocol"
            raise self._lost(f"{problem}: {error}") from error

    def _carry_out(self, steps: Steps[T]) -> T:
        """Return the result of steps. Raises what they raise, OSError."""
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Ask):
                self._send(step.request, step.version)
                result = self._received()
            else:
                result = step.function()

    def _secured(self, plain: socket.socket, host: str, tls: TlsSettings) -> ssl.SSLSocket:
        try:
            return context_of(tls).wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise LoginRefused(f"the certificate of {self.address} is not accepted: {error.verify_message}") from None

    def _log_in(self, login: LoginSettings) -> None:
        """Authenticate this connection, for the first time or again. Raises OSError, LoginRefused."""
        try:
            lifetime_ms = self._carry_out(log_in(Login(login.mechanism, lambda: self._logins.exchange(login))))
        except LoginRefused as error:
            self.close()
            raise LoginRefused(f"{self.address} refuses the login: {error}") from None
        pause_ms = renewal_pause_ms(lifetime_ms, random.Random())  # noqa: S311  spreads the load
        self._login_ends_s = None if pause_ms is None else self._clock() + pause_ms / 1000

    def _ask_versions(self) -> VersionRanges:
        try:
            return self._carry_out(ask_versions())
        except KafkaError as error:
            raise self._lost(error.message) from error

    def _send(self, request: Request, version: int) -> None:
        chunks = self._exchange.request(request, version, None)
        try:
            self._socket.sendall(b"".join(chunks))
        except OSError as error:
            raise self._lost(str(error)) from error

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
