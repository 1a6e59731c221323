"""The quotas of clients: charges each request, and says for how long its client must wait.

    produce     bytes of Produce requests a second                          producer_byte_rate
    fetch       bytes of responses to consumers' fetches a second         consumer_byte_rate
    request     time of the event loop, in percent                          request_percentage
    mutation    partitions created and deleted a second                     controller_mutation_rate

The response is sent at once, with its throttle time, and the connection is muted afterwards. A fetch above its quota gets no
records, so that nothing is lost by throttling, and its bytes are taken back; it is charged before its response is built, all
others when theirs is encoded. Mutations are charged by the handler, one topic after the other (`Mutations`). Of several quotas
that are exceeded, the longest throttle time counts; one for `request` is at most a window.

The time of a request is that of its handler on the event loop, without what it waits for; it is measured only while a request
quota is set. Brokers' requests, and what needs no response, are charged nothing for it.

Rules: no IO. Settings are applied by `apply_entity`. While no quota is set, a request costs one test.
Source: KIP-13, KIP-55, KIP-124, KIP-219, KIP-599; Kafka KafkaApis, RequestHandlerHelper, ClientRequestQuotaManager,
ControllerMutationQuotaManager.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from broker.network.quotas.client_quota import ClientQuota, ClientRate, Windows
from metadata.client_quotas import CLIENT_KINDS, QuotaEntity, QuotaKind, quotas_in
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.share_fetch import ShareFetchRequest
from runtime.distribution import Distribution
from security.access import Operation

if TYPE_CHECKING:
    from broker.network.connections.client_connection import ClientConnection, RequestFacts
    from broker.network.routes import Route
    from protocol.schema import Response
    from runtime.clock import Clock

T = TypeVar("T")

_PRODUCE = ProduceRequest.api_key
_FETCHES = frozenset((FetchRequest.api_key, ShareFetchRequest.api_key))
# Their handlers, like those of fetches, set the throttle time themselves.
_MUTATIONS = frozenset(each.api_key for each in (CreateTopicsRequest, DeleteTopicsRequest, CreatePartitionsRequest))
_NANOSECONDS_PERCENT = 1e9 / 100
_NS_PER_MS = 1_000_000


class Mutations:
    """The charge of one request that changes topics. Fits `metadata.admin.topic_admin.Permits`.

    Strict: once the bucket is empty, nothing more is permitted, and one topic may take more than is there. Otherwise, for
    versions whose clients do not know the error, everything is permitted, and the client waits afterwards.
    """

    __slots__ = ("_clock", "_is_strict", "_rate", "_recorded_ms", "_throttle_ms")

    def __init__(self, rate: ClientRate, clock: Clock, *, is_strict: bool) -> None:
        self._rate = rate
        self._clock = clock
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._recorded_ms = 0

    def take(self, partitions_count: int) -> None:
        """Raises KafkaError when the quota is used up."""
        now_ms = self._clock.monotonic_ms()
        if not self._is_strict:
            self._rate.take(partitions_count, now_ms)
        throttle_ms = self._rate.bucket_throttle_ms(now_ms)
        if throttle_ms:
            self._throttle_ms, self._recorded_ms = throttle_ms, now_ms
        if not self._is_strict:
            return
        if throttle_ms:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._rate.take(partitions_count, now_ms)

    @property
    def throttle_time_ms(self) -> int:
        """What is left of the throttle time: the request may have waited since."""
        return max(self._throttle_ms - (self._clock.monotonic_ms() - self._recorded_ms), 0) if self._throttle_ms else 0


class Quotas:
    """Fits `broker.network.gate.Charging` and `Meter`. The public quotas are read by the metrics."""

    __slots__ = (
        "_clock",
        "_exempt",
        "_is_on",
        "_kinds",
        "_now_ms",
        "_window_ms",
        "counts_fetches",
        "fetch",
        "mutation",
        "produce",
        "request",
        "throttles",
        "times_requests",
    )

    def __init__(self, clock: Clock, windows: Windows, mutation_windows: Windows, rates_max: int) -> None:
        self._clock = clock
        self._now_ms = clock.monotonic_ms
        self._window_ms = windows.window_ms
        self.produce = ClientQuota(windows, rates_max)
        self.fetch = ClientQuota(windows, rates_max)
        self.request = ClientQuota(windows, rates_max)
        self.mutation = ClientQuota(mutation_windows, rates_max, has_buckets=True)
        self._kinds = {
            QuotaKind.PRODUCE: self.produce,
            QuotaKind.FETCH: self.fetch,
            QuotaKind.REQUEST: self.request,
            QuotaKind.MUTATION: self.mutation,
        }
        self._is_on = False
        self.times_requests = False
        self.counts_fetches = False
        self.throttles: dict[str, Distribution] = {}
        """For how long requests were throttled, by API, fetches by who fetches as well."""
        self._exempt: dict[Route, bool] = {}

    def apply_entity(self, path: str, settings: Mapping[str, str]) -> None:
        """Apply the settings of a user or client. Fits `EntityListener`."""
        entity = QuotaEntity.of_path(path)
        if entity is None or entity.address is not None:
            return
        given = quotas_in(settings, CLIENT_KINDS)
        for kind, quota in self._kinds.items():
            quota.limit(entity, given.get(kind))
        self.times_requests = self.request.is_on
        self.counts_fetches = self.fetch.is_on or self.request.is_on
        self._is_on = any(quota.is_on for quota in self._kinds.values())

    # --- charging ---

    def charge(
        self, route: Route, context: RequestFacts, request_bytes: int, response_bytes: int, response: Response | None
    ) -> int:
        if not self._is_on:
            return 0
        api_key, now_ms = route.handler.api_key, self._now_ms()
        if api_key in _FETCHES and response is not None and not response.error_code:  # type: ignore[attr-defined]
            throttle_ms: int = response.throttle_time_ms  # type: ignore[attr-defined]
            if throttle_ms:
                self._note(route, throttle_ms)
            return throttle_ms
        user, client_id = context.connection.principal.name, context.client_id or ""
        longest_ms, exceeded = 0, None
        if api_key == _PRODUCE and self.produce.is_on:
            rate = self.produce.rate_of(user, client_id, now_ms)
            longest_ms = rate.record(request_bytes, now_ms)
            exceeded = rate
        elif api_key in _MUTATIONS and self.mutation.is_on and response is not None:
            longest_ms = response.throttle_time_ms  # type: ignore[attr-defined]
            exceeded = self.mutation.rate_of(user, client_id, now_ms)
        if self.times_requests:
            time_ns = self._take_time(context.connection)
            if response_bytes and time_ns and not self._is_exempt(route):
                rate = self.request.rate_of(user, client_id, now_ms)
                throttle_ms = min(rate.record(time_ns / _NANOSECONDS_PERCENT, now_ms), self._window_ms)
                if throttle_ms >= longest_ms:
                    longest_ms, exceeded = throttle_ms, rate
        if longest_ms and exceeded is not None:
            exceeded.throttled(longest_ms, now_ms)
            self._note(route, longest_ms)
        return longest_ms

    def throttle_fetch(self, context: RequestFacts, response_bytes: int) -> int:
        """Charge a consumer's fetch before its response is built; if it must wait, its bytes are taken back. Returns the
        throttle time."""
        now_ms = self._now_ms()
        user, client_id = context.connection.principal.name, context.client_id or ""
        request_ms = fetch_ms = 0
        if self.times_requests:
            request_rate = self.request.rate_of(user, client_id, now_ms)
            time_ns = self._take_time(context.connection)
            request_ms = min(request_rate.record(time_ns / _NANOSECONDS_PERCENT, now_ms), self._window_ms)
        if self.fetch.is_on:
            fetch_rate = self.fetch.rate_of(user, client_id, now_ms)
            fetch_ms = fetch_rate.record(response_bytes, now_ms)
            if fetch_ms or request_ms:
                fetch_rate.take_back(response_bytes, now_ms)
        if fetch_ms > request_ms:
            fetch_rate.throttled(fetch_ms, now_ms)
        elif request_ms:
            request_rate.throttled(request_ms, now_ms)
        return max(fetch_ms, request_ms)

    def largest_fetch_bytes(self, context: RequestFacts) -> float:
        """Return how many bytes a consumer may fetch at once without being throttled whatever came before."""
        return self.fetch.largest_in_window(context.connection.principal.name, context.client_id or "", self._now_ms())

    def mutations(self, context: RequestFacts, strict_since: int | None) -> Mutations | None:
        """Return what charges a request for its changes of topics; None while no quota is set for them. It is strict from
        this version of its API on."""
        if not self.mutation.is_on:
            return None
        user, client_id = context.connection.principal.name, context.client_id or ""
        is_strict = strict_since is not None and context.api_version >= strict_since
        return Mutations(self.mutation.rate_of(user, client_id, self._now_ms()), self._clock, is_strict=is_strict)

    def _note(self, route: Route, throttle_ms: int) -> None:
        for name in filter(None, (route.handler.api_name, route.kind)):
            times = self.throttles.get(name)
            if times is None:
                times = self.throttles[name] = Distribution()
            times.add(throttle_ms * _NS_PER_MS)

    def _is_exempt(self, route: Route) -> bool:
        """Whether only brokers may send such a request."""
        exempt = self._exempt.get(route)
        if exempt is None:
            exempt = self._exempt[route] = any(
                Operation.CLUSTER_ACTION in each.operations and not each.is_filtered for each in route.handler.access
            )
        return exempt

    # --- the time of requests ---

    def timed(self, connection: ClientConnection, work: Callable[..., T], *arguments: Any) -> T:
        """Do a part of the work for a request, and count its time."""
        connection.began_ns = self._clock.monotonic_ns()
        try:
            return work(*arguments)
        finally:
            connection.processing_ns += self._clock.monotonic_ns() - connection.began_ns
            connection.began_ns = 0

    def timed_rest(self, connection: ClientConnection, rest: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Go on with a handler that waits, and count the time of each of its turns."""
        return _timed(self, connection, rest)

    def _take_time(self, connection: ClientConnection) -> int:
        """Return the time since the last charge of the connection."""
        time_ns = connection.processing_ns
        if connection.began_ns:  # it is being worked on
            now_ns = self._clock.monotonic_ns()
            time_ns += now_ns - connection.began_ns
            connection.began_ns = now_ns
        connection.processing_ns = 0
        return time_ns


@types.coroutine
def _timed(quotas: Quotas, connection: ClientConnection, rest: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    step: Callable[[Any], Any] = rest.send
    given: Any = None
    while True:
        try:
            awaited = quotas.timed(connection, step, given)
        except StopIteration as stop:
            value: T = stop.value
            return value
        try:
            given = yield awaited
            step = rest.send
        except BaseException as error:  # noqa: BLE001 - cancellation goes where it would have gone
            given, step = error, rest.throw
