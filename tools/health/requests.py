"""Single requests to chosen brokers, all brokers side by side, each bounded in time: one that hangs keeps nobody waiting.

Rules: a request that is not answered in time, or refused, is an `Unanswered` in the place of its response; nothing is retried.
The connections are kept for the next round.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Container, Generator, Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from client.admin.steps import AnyRequest, kind_of
from client.blocking.connection import BrokerConnection
from client.blocking.side_by_side import Round
from client.cluster_view import Address
from client.errors import LoginRefused
from client.settings.values import ClientSettings, SettingsError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.schema import Response
from tools.failures import Unreachable
from tools.health.view import Validity

if TYPE_CHECKING:
    from runtime.clock import Clock

PROBES = 3

R = TypeVar("R", bound=Response)


class Unanswered(Exception):
    """A broker has not answered a request; the text is why. `is_final`: nor will it answer another."""

    def __init__(self, text: str, *, is_final: bool = True) -> None:
        super().__init__(text)
        self.is_final = is_final


class BrokerRequests:
    """Connects when it is first asked; `close` once. All limits are milliseconds for everything that a call asks."""

    def __init__(self, settings: ClientSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._addresses: dict[int, Address] = {}
        self._kept: dict[Address, _MeasuredConnection] = {}
        self._apis: Container[int] = ()

    def close(self) -> None:
        while self._kept:
            self._kept.popitem()[1].close()

    def connect(self, request: MetadataRequest, limit_ms: int) -> MetadataResponse:
        """Ask all bootstrap servers; return the first response, and know its brokers from then on. Raises Unreachable,
        LoginRefused, SettingsError."""
        asked = {number: (server, request) for number, server in enumerate(self._settings.servers)}
        refusals = []
        with closing(self._outcomes(asked, limit_ms)) as outcomes:
            for number, response in outcomes:
                if isinstance(response, MetadataResponse):
                    self._addresses = {each.node_id: (each.host, each.port) for each in response.brokers}
                    self._apis = self._kept[self._settings.servers[number]].apis
                    return response
                if isinstance(response, LoginRefused | SettingsError):
                    refusals.append(response)
        raise refusals[0] if refusals else Unreachable

    def has_api(self, api_key: int) -> bool:
        """Whether the broker that answered first has an API."""
        return api_key in self._apis

    def ask_each(self, asked: Mapping[int, AnyRequest], limit_ms: int) -> dict[int, Any]:
        """Return the response of each broker to its request; an `Unanswered` where there is none."""
        known = {broker: (self._addresses[broker], each) for broker, each in asked.items() if broker in self._addresses}
        found = dict.fromkeys(asked, TimeoutError()) | dict(self._outcomes(known, limit_ms))
        return {broker: _unanswered(each) if isinstance(each, Exception) else each for broker, each in found.items()}

    def probe(self, brokers: Iterable[int], limit_ms: int) -> dict[int, float | Unanswered]:
        """Return how long the fastest of a few small requests took each broker, in milliseconds, once it was connected."""
        until_ms = self._clock.monotonic_ms() + limit_ms
        asked = list(brokers)
        fastest_ms: dict[int, float] = {}
        silent: dict[int, Unanswered] = {}
        for _ in range(PROBES):
            left_ms = until_ms - self._clock.monotonic_ms()
            asked = [each for each in asked if each not in silent and fastest_ms.get(each, left_ms) <= left_ms]
            for broker, response in self.ask_each(dict.fromkeys(asked, MetadataRequest(topics=[])), left_ms).items():
                if isinstance(response, Unanswered):
                    silent[broker] = response
                else:
                    took_ms = self._kept[self._addresses[broker]].took_ms
                    fastest_ms[broker] = min(fastest_ms.get(broker, took_ms), took_ms)
        return fastest_ms | silent

    def certificates(self, brokers: Iterable[int]) -> dict[int, Validity]:
        """Return from when to when the certificates of brokers are valid, of those that are connected over TLS."""
        kept = {broker: self._kept.get(self._addresses[broker]) for broker in brokers}
        return {
            broker: each.validity for broker, each in kept.items() if each is not None and each.validity is not None
        }

    def _outcomes(
        self, asked: Mapping[int, tuple[Address, AnyRequest]], limit_ms: int
    ) -> Generator[tuple[int, Any], None, None]:
        """Ask all side by side, and yield each response, or why there is none, as they come, until the time is over."""
        until_ms = self._clock.monotonic_ms() + limit_ms
        limit_s = max(0, limit_ms) / 1000

        def left_s() -> float:
            return max(0, until_ms - self._clock.monotonic_ms()) / 1000

        def ask(request: AnyRequest, connection: BrokerConnection) -> Response:
            return connection.ask(request, kind_of(request).response_type, left_s())

        round_ = Round()
        for key, (address, request) in asked.items():
            run = round_.task(
                key,
                self._usable(address),
                partial(_MeasuredConnection, *address, self._settings, first_s=limit_s, most_s=limit_s),
                partial(ask, request),
            )
            threading.Thread(target=run, daemon=True).start()
        try:
            while round_.waits_for and (found := round_.next(left_s())) is not None:
                if isinstance(found.connection, _MeasuredConnection):
                    self._kept[asked[found.broker_id][0]] = found.connection
                if not isinstance(found.value, Response | OSError | KafkaError | LoginRefused | SettingsError):
                    raise found.value
                yield found.broker_id, found.value
        finally:
            round_.abandon()

    def _usable(self, address: Address) -> _MeasuredConnection | None:
        """Return the connection that was kept, for its thread."""
        connection = self._kept.pop(address, None)
        if connection is not None and not connection.is_usable:
            connection.close()
            return None
        return connection


class _MeasuredConnection(BrokerConnection):
    """A connection that knows how long the last response has taken, which APIs its broker has, and its certificate."""

    took_ms = 0.0

    def ask(self, request: AnyRequest, response_type: type[R], timeout_s: float | None = None) -> R:
        begun_s = self._clock()
        response = super().ask(request, response_type, timeout_s)
        self.took_ms = (self._clock() - begun_s) * 1000
        return response

    @property
    def apis(self) -> Container[int]:
        return self._versions

    @property
    def validity(self) -> Validity | None:
        """From when to when the certificate is valid; None without TLS, and for one that is not checked."""
        certificate = self._socket.getpeercert() if isinstance(self._socket, ssl.SSLSocket) else None
        if not certificate:
            return None
        first, last = (ssl.cert_time_to_seconds(str(certificate[name])) for name in ("notBefore", "notAfter"))
        return Validity(first * 1000, last * 1000)


def _unanswered(error: Exception) -> Unanswered:
    if isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError):
        return Unanswered("no answer in time")
    if isinstance(error, KafkaError) and error.code is ErrorCode.UNSUPPORTED_VERSION:
        return Unanswered("the broker is too old for this request", is_final=False)
    return Unanswered(getattr(error, "strerror", None) or str(error))
