"""The counters and times of requests, by API.

A request is handled from its decoding (`began`); its local time ends when its handler returns, its remote time is what it waits
after that, for other brokers, other clients or a disk, and both are its total time. It is sent as soon as it is
answered, so that there is no time in a queue: for how long the event loop is held up by others is measured by itself
(`runtime.watchdog`).
As in Kafka, a fetch counts as Fetch and as FetchConsumer or FetchFollower, and a broker's question whether a partition is in a
transaction as AddPartitionsToTxnVerification; errors count by the API alone.

Rules: on the hot path two reads of the clock, and adding to ints of slotted objects; no allocation after the first request of a
kind. Sums over versions are made when they are read.
Source: Kafka RequestChannel.Metrics.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from operator import add
from typing import TYPE_CHECKING

from broker.network.responses.deferred import EncodedResponse
from broker.observability import metric_table as table
from broker.observability.error_counts import error_counter
from protocol.errors import ErrorCode
from runtime.distribution import (
    BOUNDS,
    TABLE_SIZE,
    UNIT_BITS,
    UNIT_BUCKETS,
    Distribution,
    ValueCounts,
    no_values,
)
from runtime.monitoring.metric import Sample, histogram_samples, summary_samples

if TYPE_CHECKING:
    from broker.network.routes import Route
    from protocol.schema import Response
    from runtime.clock import Clock

_ERROR_NAMES = {int(code): code.name for code in ErrorCode}
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR.name
"""Of a code that is in no table, as in Kafka."""
_MS = 1_000_000
VERIFICATION_VERSION = 4
"""Of AddPartitionsToTxn: from here on brokers send it, to verify (KIP-890)."""


class _RouteCounters:
    """The counters of one version of one API. Of requests that had to wait, the times stand apart."""

    __slots__ = (
        "api_name",
        "count_errors",
        "encoded_count",
        "errors",
        "late",
        "names",
        "sizes",
        "time_ns",
        "times",
        "version",
    )

    def __init__(self, route: Route) -> None:
        request_type = route.handler.request_type
        self.api_name = request_type.api_name
        self.names: tuple[str, ...] = (self.api_name, *((route.kind,) if route.kind else ()))
        if self.api_name == "AddPartitionsToTxn" and route.version >= VERIFICATION_VERSION:
            self.names = ("AddPartitionsToTxnVerification",)
        self.version = route.version
        self.count_errors = error_counter(request_type.response_type, route.version)
        self.encoded_count = 0  # responses of one success, which were made without an object
        self.time_ns = 0
        self.sizes, self.times = ValueCounts(), no_values()
        self.late: _LateTimes | None = None
        self.errors: Counter[int] = Counter()

    @property
    def requests(self) -> int:
        return sum(self.sizes.read()[0])


class _LateTimes:
    """The times of requests that had to wait."""

    __slots__ = ("local", "local_ns", "remote", "remote_ns", "total")

    def __init__(self) -> None:
        self.total, self.local, self.remote = no_values(), no_values(), no_values()
        self.local_ns = self.remote_ns = 0

    def add(self, local_ns: int, remote_ns: int) -> None:
        self.local_ns += local_ns
        self.remote_ns += remote_ns
        units = local_ns >> UNIT_BITS
        self.local[UNIT_BUCKETS[units] if units < TABLE_SIZE else bisect_left(BOUNDS, local_ns)] += 1
        units = remote_ns >> UNIT_BITS
        self.remote[UNIT_BUCKETS[units] if units < TABLE_SIZE else bisect_left(BOUNDS, remote_ns)] += 1
        total_ns = local_ns + remote_ns
        units = total_ns >> UNIT_BITS
        self.total[UNIT_BUCKETS[units] if units < TABLE_SIZE else bisect_left(BOUNDS, total_ns)] += 1


class _Distributions:
    """Of one name of requests, over all versions."""

    __slots__ = ("local", "remote", "sizes", "total")

    def __init__(self) -> None:
        self.total, self.local, self.remote, self.sizes = (Distribution() for _ in range(4))

    def read(self, routes: list[_RouteCounters]) -> None:
        """Take the values of these counters."""
        for each in (self.total, self.local, self.remote, self.sizes):
            each.counts, each.total = no_values(), 0
        for counters in routes:
            _add(self.sizes, *counters.sizes.read())
            _add(self.total, counters.times, counters.time_ns)
            _add(self.local, counters.times, counters.time_ns)
            self.remote.counts[0] += sum(counters.times)
            late = counters.late
            if late is not None:
                _add(self.total, late.total, late.local_ns + late.remote_ns)
                _add(self.local, late.local, late.local_ns)
                _add(self.remote, late.remote, late.remote_ns)


def _add(distribution: Distribution, counts: list[int], total: int) -> None:
    distribution.counts = list(map(add, distribution.counts, counts))
    distribution.total += total


class RequestMetrics:
    """The counters. Implements `broker.network.dispatch.RequestObserver`."""

    def __init__(self, clock: Clock) -> None:
        self._now_ns = clock.monotonic_ns
        self.waits = clock.monotonic_ns  # without a call in between
        self._routes: dict[Route, _RouteCounters] = {}
        self._distributions: dict[str, _Distributions] = {}

    def began(self, route: Route, size_bytes: int) -> int:
        counters = self._routes.get(route)
        if counters is None:
            counters = self._routes[route] = _RouteCounters(route)
        counters.sizes[size_bytes] += 1
        return self._now_ns()

    def answered(
        self, route: Route, stamp: int, response: Response | EncodedResponse | None, waiting_since: int = 0
    ) -> None:
        counters = self._routes[route]
        if waiting_since:
            late = counters.late
            if late is None:
                late = counters.late = _LateTimes()
            late.add(waiting_since - stamp, self._now_ns() - waiting_since)
        else:
            time_ns = self._now_ns() - stamp
            counters.time_ns += time_ns
            units = time_ns >> UNIT_BITS
            counters.times[UNIT_BUCKETS[units] if units < TABLE_SIZE else bisect_left(BOUNDS, time_ns)] += 1
        if response is None or counters.count_errors is None:
            return
        if not isinstance(response, EncodedResponse):
            counters.count_errors(response, counters.errors)
            return
        if response.error_counts is None:
            errors: Counter[int] = Counter()
            counters.count_errors(response.response, errors)
            response.error_counts = tuple(errors.items())
        for code, count in response.error_counts:
            counters.errors[code] += count

    def answered_encoded(self, route: Route, stamp: int) -> None:
        counters = self._routes[route]
        counters.encoded_count += 1
        time_ns = self._now_ns() - stamp
        counters.time_ns += time_ns
        units = time_ns >> UNIT_BITS
        counters.times[UNIT_BUCKETS[units] if units < TABLE_SIZE else bisect_left(BOUNDS, time_ns)] += 1

    def counts(self) -> dict[str, int]:
        """Return how many requests there were of each name."""
        counts: Counter[str] = Counter()
        for counters in list(self._routes.values()):
            for name in counters.names:
                counts[name] += counters.requests
        return dict(counts)

    def samples(self, now_ms: int) -> Iterator[Sample]:
        by_name: dict[str, list[_RouteCounters]] = {}
        for counters in list(self._routes.values()):
            for name in counters.names:
                by_name.setdefault(name, []).append(counters)
        for name, routes in by_name.items():
            requests: Counter[int] = Counter()
            for counters in routes:
                requests[counters.version] += counters.requests
            for version, count in requests.items():
                yield Sample(table.REQUESTS, (name, str(version)), count)
        yield from self._error_samples()
        for name, routes in by_name.items():
            self._distributions.setdefault(name, _Distributions()).read(routes)
        read = [((name,), self._distributions[name]) for name in by_name]
        yield from summary_samples(table.TOTAL_TIME, [(labels, each.total) for labels, each in read], now_ms)
        yield from summary_samples(table.LOCAL_TIME, [(labels, each.local) for labels, each in read], now_ms)
        yield from summary_samples(table.REMOTE_TIME, [(labels, each.remote) for labels, each in read], now_ms)
        yield from summary_samples(table.REQUEST_BYTES, [(labels, each.sizes) for labels, each in read], now_ms, 1)
        for (name,), distributions in read:
            for phase in ("total", "local", "remote"):
                yield from histogram_samples(table.REQUEST_SECONDS, (name, phase), getattr(distributions, phase))

    def _error_samples(self) -> Iterator[Sample]:
        by_api: dict[str, Counter[str]] = {}
        for counters in list(self._routes.values()):
            errors = by_api.setdefault(counters.api_name, Counter())
            for code, count in counters.errors.items():
                errors[_ERROR_NAMES.get(code, UNKNOWN)] += count
            errors[ErrorCode.NONE.name] += counters.encoded_count
        for api_name, errors in by_api.items():
            for error, count in errors.items():
                if count:
                    yield Sample(table.ERRORS, (api_name, error), count)
