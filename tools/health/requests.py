"""Single requests to chosen brokers, all brokers side by side, each bounded in time: one that hangs keeps nobody waiting.

Rules: a request that is not answered in time, or refused, is an `Unanswered` in the place of its answer; nothing is retried.
The connections are kept for the next round. The client library (kafka-python) does the connecting, TLS and SASL; its admin
client asks one broker after the other and therefore is not used here.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tools.cluster_access import ClusterAccess
from tools.failures import Unreachable
from tools.health.view import Validity

if TYPE_CHECKING:
    from runtime.clock import Clock

MAX_ANSWER_BYTES = 100_000_000
PROBES = 3


class Unanswered(Exception):
    """A broker has not answered a request; the text is why. `is_final`: nor will it answer another."""

    is_final = True


class BrokerRequests:
    """Opened by the constructor; `close` once. All limits are milliseconds for everything that a call asks."""

    def __init__(self, settings: ClusterAccess, clock: Clock, connect_limit_ms: int) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # its errors are told here
        from kafka.net.manager import KafkaConnectionManager  # noqa: PLC0415  a tenth of a second
        from kafka.net.selector import NetworkSelector  # noqa: PLC0415

        self._clock = clock
        self._apis: frozenset[int] = frozenset()
        self._net = NetworkSelector(client_id=settings.client.client_id)
        self._manager = KafkaConnectionManager(
            self._net,
            **settings.for_admin()
            | {
                "receive_message_max_bytes": MAX_ANSWER_BYTES,
                "socket_connection_setup_timeout_ms": connect_limit_ms,
                "reconnect_backoff_max_ms": connect_limit_ms,
            },
        )
        self._net.start()

    def close(self) -> None:
        self._net.run(self._manager.close)
        self._net.close()

    def connect(self, request: Any, limit_ms: int) -> Any:
        """Send a Metadata request to all bootstrap servers; return the first answer, and know its brokers from then on.
        Raises Unreachable."""
        answer = self._net.run(self._first_answer, request, limit_ms)
        self._manager.cluster.update_metadata(answer)
        versions = self._manager.broker_version_data
        self._apis = frozenset() if versions is None else frozenset(versions.api_versions or ())
        self._manager.broker_version_data = None  # each broker is asked for its own: they may differ
        return answer

    def has_api(self, api_key: int) -> bool:
        """Whether the broker that answered first has an API."""
        return api_key in self._apis

    def ask(self, asked: Mapping[int, Sequence[Any]], limit_ms: int) -> dict[int, list[Any]]:
        """Return the answers of each broker to its requests, in their order; an `Unanswered` where there is none."""
        found: dict[int, list[Any]] = self._net.run(self._ask_all, asked, limit_ms)
        return found

    def probe(self, brokers: Sequence[int], limit_ms: int) -> dict[int, float | Unanswered]:
        """Return how long the fastest of a few small requests took each broker, in milliseconds, once it was connected."""
        found: dict[int, float | Unanswered] = self._net.run(self._probe_all, brokers, limit_ms)
        return found

    def certificates(self, brokers: Iterable[int]) -> dict[int, Validity]:
        """Return from when to when the certificates of brokers are valid, of those that are connected over TLS."""
        found: dict[int, Validity] = self._net.run(self._certificates_of, brokers)
        return found

    async def _certificates_of(self, brokers: Iterable[int]) -> dict[int, Validity]:
        found = {}
        for broker in brokers:
            connection = self._manager.get_connection(broker, refresh_metadata_on_err=False)
            sock = getattr(connection.transport, "_sock", None)
            certificate = sock.getpeercert() if isinstance(sock, ssl.SSLSocket) else None
            if certificate:
                first, last = (ssl.cert_time_to_seconds(str(certificate[name])) for name in ("notBefore", "notAfter"))
                found[broker] = Validity(first * 1000, last * 1000)
        return found

    async def _first_answer(self, request: Any, limit_ms: int) -> Any:
        from kafka.future import Future  # noqa: PLC0415
        from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415

        servers = [server.node_id for server in self._manager.cluster.bootstrap_brokers()]
        first, left = Future(), len(servers)

        async def ask(server: Any) -> None:
            nonlocal left
            try:
                creates = request.allow_auto_topic_creation
                asked = MetadataRequest(topics=request.topics, allow_auto_topic_creation=creates)
                answer = await self._one(server, asked, limit_ms)
                if not first.is_done:
                    first.success(answer)
            except Unanswered:
                pass  # another may answer; `left` counts it
            left -= 1
            if not left and not first.is_done:
                first.failure(Unreachable())

        for server in servers:
            self._manager.call_soon(ask, server)
        return await first

    async def _ask_all(self, asked: Mapping[int, Sequence[Any]], limit_ms: int) -> dict[int, list[Any]]:
        until_ms = self._clock.monotonic_ms() + limit_ms

        async def ask(broker: int, requests: Sequence[Any]) -> list[Any]:
            answers: list[Any] = []
            for request in requests:
                try:
                    answers.append(await self._one(broker, request, until_ms - self._clock.monotonic_ms()))
                except Unanswered as error:
                    answers.append(error)
            return answers

        running = {broker: self._manager.call_soon(ask, broker, requests) for broker, requests in asked.items()}
        return {broker: await future for broker, future in running.items()}

    async def _probe_all(self, brokers: Sequence[int], limit_ms: int) -> dict[int, float | Unanswered]:
        from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415

        until_ms = self._clock.monotonic_ms() + limit_ms

        async def probe(broker: int) -> float | Unanswered:
            begun_ms = self._clock.monotonic_ms()
            try:
                await self._one(broker, MetadataRequest(topics=[]), until_ms - begun_ms)
            except Unanswered as error:
                return error
            fastest_ms = float(self._clock.monotonic_ms() - begun_ms)  # with the connection
            for _ in range(PROBES):
                begun_ms = self._clock.monotonic_ms()
                if begun_ms + fastest_ms > until_ms:
                    break
                try:
                    await self._one(broker, MetadataRequest(topics=[]), until_ms - begun_ms)
                except Unanswered as error:
                    return error
                fastest_ms = min(fastest_ms, self._clock.monotonic_ms() - begun_ms)
            return fastest_ms

        running = {broker: self._manager.call_soon(probe, broker) for broker in brokers}
        return {broker: await future for broker, future in running.items()}

    async def _one(self, broker: Any, request: Any, limit_ms: int) -> Any:
        """Raises Unanswered, caused by the error of the client library."""
        from kafka.errors import IncompatibleBrokerVersion, KafkaError, KafkaTimeoutError  # noqa: PLC0415

        try:
            if limit_ms <= 0:
                raise KafkaTimeoutError("no time was left")
            connection = self._manager.get_connection(broker, refresh_metadata_on_err=False)
            return await self._manager.wait_for(connection.send_request(request, limit_ms), limit_ms)
        except (KafkaError, OSError) as error:
            unanswered = Unanswered(_told(error))
            unanswered.is_final = not isinstance(error, IncompatibleBrokerVersion)
            raise unanswered from error


def _told(error: Exception) -> str:
    if type(error).__name__ in ("KafkaTimeoutError", "RequestTimedOutError"):
        return "no answer in time"
    if type(error).__name__ == "IncompatibleBrokerVersion":
        return "the broker is too old for this request"
    name = type(error).__name__
    return str(error).removeprefix(f"{name}: ") or name
