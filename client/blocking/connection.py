"""One blocking connection to a broker: frames, correlation ids, and the versions that both sides speak.

A connection begins with ApiVersions, and with the login if there is one; each request then goes out in the newest version that
this side and the broker know, so the same client speaks to this broker, to Apache Kafka 3.9 and to Apache Kafka 4, which knows
fewer old versions. All addresses of the broker's name are tried.

Rules: one thread uses a connection; another one may `abort` it. Requests may be sent before earlier responses are received;
responses come in order. A request of a throttled client waits until the broker takes requests again; a session that ends is
authenticated again when nothing is in flight.
Errors: OSError when the connection cannot be opened or is lost, and when a response does not come in time or is malformed;
the connection is closed then. KafkaError(UNSUPPORTED_VERSION) when there is no common version. LoginRefused when the broker
does not let this client in, or its certificate is not accepted; SettingsError for a store that cannot be read.
Source: KIP-35, KIP-511 (ApiVersions), KIP-152 and KIP-368 (SASL), KIP-219 (throttling), KIP-602 (all addresses); Kafka
NetworkClient.
"""

from __future__ import annotations

import contextlib
import mmap
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from client.admin.steps import AnyRequest
from client.blocking.credentials import CREDENTIALS, ProcessCredentials
from client.blocking.names import SocketAddress, resolved
from client.errors import LoginRefused
from client.exchange import Exchange
from client.opening import (
    LARGEST_RESPONSE_BYTES,
    Ask,
    Login,
    Steps,
    VersionRanges,
    ask_versions,
    log_in,
    renewal_pause_ms,
)
from client.settings.values import ClientSettings, LoginSettings
from client.versions import common_version
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import Buffer, DecodeError, EncodeError
from protocol.schema import Request, Response
from runtime.randomness import Randomness, system_randomness

_LENGTH_BYTES: Final = 4
_MAX_FRAME_BYTES: Final = (1 << 31) - 1
_MAX_ELEMENTS: Final = 5_000_000
_LARGE_BYTES: Final = 64 * 1024
_NO_BROKER: Final = "no broker, or a listener with another protocol"

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class BrokerConnection:
    """An open connection."""

    def __init__(
        self,
        host: str,
        port: int,
        settings: ClientSettings,
        *,
        first_s: float | None = None,
        most_s: float | None = None,
        credentials: ProcessCredentials = CREDENTIALS,
        clock: Callable[[], float] = time.monotonic,  # noqa: TID251  a process without a loop and its clock
        sleep: Callable[[float], None] = time.sleep,
        randomness: Randomness | None = None,
    ) -> None:
        """Connect, ask for the broker's versions, and log in. `first_s` limits the time until the versions are known at one
        address, `most_s` that of all; without them `settings` does. Raises OSError, LoginRefused, SettingsError."""
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._settings = settings
        self._credentials = credentials
        self._clock = clock
        self._sleep = sleep
        self._randomness = randomness or system_randomness()
        self._limit_s = 0.0
        self._ends_s = 0.0
        self._quiet_until_s = 0.0
        self._login_ends_s: float | None = None
        self._is_trusted = False
        request_s = settings.request_timeout_ms / 1000
        end_s = clock() + (settings.connect_timeout_ms / 1000 + request_s if most_s is None else most_s)
        first_s = request_s if first_s is None else first_s
        problem: OSError = ConnectionError(f"{self.address}: the name has no address")
        for place in resolved(host, port, min(first_s, end_s - clock())):
            try:
                self._open(place, host, min(first_s, end_s - clock()))
                break
            except OSError as error:
                problem = error
        else:
            raise problem
        try:
            if settings.login is not None:
                self._limit(min(request_s, end_s - clock()))
                self._log_in(settings.login)
        except BaseException:
            self.close()
            raise
        self._is_trusted = True

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        """End the connection for the thread that uses it, which closes it."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    @property
    def is_usable(self) -> bool:
        """Whether nothing says that the broker has closed it: a connection on which nothing is asked has nothing to read."""
        if self._socket.fileno() < 0:
            return False
        if len(self._exchange):
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def version_of(self, request: type[Request]) -> int:
        """The newest common version. Raises KafkaError."""
        return common_version(request, self._versions, self.address)

    def ask(self, request: AnyRequest, response_type: type[R], timeout_s: float | None = None) -> R:
        """Send a request and return its response. Raises OSError, KafkaError, LoginRefused."""
        assert not len(self._exchange), "an earlier response was not received"
        self.send(request, timeout_s)
        return self._typed(response_type)

    def send(self, request: AnyRequest, timeout_s: float | None = None) -> None:
        """Send a request, whose response `receive` returns later. Raises OSError, KafkaError, LoginRefused."""
        version = self.version_of(type(request) if isinstance(request, Request) else request.kind)
        made = request if isinstance(request, Request) else request.in_version(version)
        self._limit(timeout_s)
        self._wait_while_throttled()
        if self._login_ends_s is not None and not len(self._exchange) and self._clock() >= self._login_ends_s:
            assert self._settings.login is not None
            self._log_in(self._settings.login)
        self._send(made, version)

    def receive(self, response_type: type[R], timeout_s: float | None = None) -> R:
        """The response to the oldest request that has none yet. Raises OSError."""
        self._limit(timeout_s)
        return self._typed(response_type)

    # --- how it begins ---

    def _open(self, place: SocketAddress, host: str, first_s: float) -> None:
        """Raises OSError, LoginRefused."""
        self._exchange = Exchange[None](self._settings.client_id, _MAX_ELEMENTS)
        self._versions: VersionRanges = {}
        self._limit(first_s)
        plain = socket.socket(place.family, socket.SOCK_STREAM)
        self._socket: socket.socket = plain
        try:
            connect_s = min(self._settings.connect_timeout_ms / 1000, self._left_s())
            plain.settimeout(connect_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._settings.receive_buffer_bytes)
            try:
                plain.connect(place.address)
            except TimeoutError:
                raise TimeoutError(f"{self.address}: no connection within {round(connect_s, 2):g} s") from None
            if self._settings.tls is not None:
                self._socket = self._secured(plain, host)
            self._versions = self._ask_versions()
        except BaseException:
            plain.close()
            self._socket.close()
            raise

    def _secured(self, plain: socket.socket, host: str) -> ssl.SSLSocket:
        assert self._settings.tls is not None
        context = self._credentials.context(self._settings.tls)
        plain.settimeout(self._left_s())
        try:
            return context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise LoginRefused(f"the certificate of {self.address} is not accepted: {error.verify_message}") from None

    def _log_in(self, login: LoginSettings) -> None:
        """Authenticate this connection, for the first time or again. Raises OSError, LoginRefused."""
        try:
            lifetime_ms = self._carry_out(log_in(Login(login.mechanism, lambda: self._credentials.exchange(login))))
        except LoginRefused as error:
            self.close()
            raise LoginRefused(f"{self.address} refuses the login: {error}") from None
        pause_ms = renewal_pause_ms(lifetime_ms, self._randomness)
        self._login_ends_s = None if pause_ms is None else self._clock() + pause_ms / 1000

    def _ask_versions(self) -> VersionRanges:
        try:
            return self._carry_out(ask_versions()).ranges
        except KafkaError as error:
            raise self._lost(error.message) from error

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

    # --- what goes out and comes in ---

    def _limit(self, timeout_s: float | None) -> None:
        """What follows ends within so much time."""
        self._limit_s = self._settings.request_timeout_ms / 1000 if timeout_s is None else timeout_s
        self._ends_s = self._clock() + self._limit_s

    def _left_s(self) -> float:
        """Raises TimeoutError."""
        left_s = self._ends_s - self._clock()
        if left_s <= 0:
            raise TimeoutError(f"{self.address}: no answer within {round(self._limit_s, 2):g} s")
        return left_s

    def _wait_while_throttled(self) -> None:
        """Raises OSError when that is longer than the request may take."""
        left_s = self._quiet_until_s - self._clock()
        if left_s > 0:
            if self._clock() + left_s >= self._ends_s:
                raise ConnectionError(f"{self.address}: throttles this client, for another {left_s:.1f} s")
            self._sleep(left_s)

    def _send(self, request: Request, version: int) -> None:
        try:
            chunks = self._exchange.request(request, version, None)
        except EncodeError as error:  # the newest version that the broker knows cannot say it
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{self.address} is too old for this request: {error}"
            ) from error
        try:
            self._socket.settimeout(self._left_s())
            self._socket.sendall(b"".join(chunks))
        except TimeoutError as error:
            raise self._lost(f"the request is not taken within {round(self._limit_s, 2):g} s") from error
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from error

    def _typed(self, response_type: type[R]) -> R:
        response = self._received()
        assert isinstance(response, response_type)
        return response

    def _received(self) -> Response:
        frame = self._receive_frame()
        try:
            _, response, throttle_ms = self._exchange.response(frame)
        except DecodeError as error:
            problem = "a malformed response" if self._versions else _NO_BROKER
            raise self._lost(f"{problem}: {error}") from error
        if throttle_ms:
            self._quiet_until_s = self._clock() + throttle_ms / 1000
        return response

    def _receive_frame(self) -> Buffer:
        size = int.from_bytes(self._receive(_LENGTH_BYTES), "big", signed=True)
        if not _LENGTH_BYTES <= size <= (_MAX_FRAME_BYTES if self._is_trusted else LARGEST_RESPONSE_BYTES):
            raise self._lost(_NO_BROKER)
        return self._receive(size)

    def _receive(self, size: int) -> Buffer:
        view = _buffer(size)
        filled = 0
        while filled < size:
            try:
                self._socket.settimeout(self._left_s())
                count = self._socket.recv_into(view[filled:])
            except TimeoutError as error:
                raise self._lost(f"no response within {round(self._limit_s, 2):g} s") from error
            except OSError as error:
                raise self._lost(error.strerror or str(error)) from error
            if not count:
                raise self._lost("the broker closed the connection")
            filled += count
        return view

    def _lost(self, problem: str) -> ConnectionError:
        self.close()
        return ConnectionError(f"{self.address}: {problem}")


def _buffer(size: int) -> memoryview:
    """Return memory that is not filled with zeros before it is filled with what comes, as far as it is large."""
    if size < _LARGE_BYTES:
        return memoryview(bytearray(size))
    numpy: Any = sys.modules.get("numpy")  # whose memory is used again; commands do not load it
    return memoryview(mmap.mmap(-1, size) if numpy is None else numpy.empty(size, "u1"))
