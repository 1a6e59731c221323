"""Gauges of quotas and of new connections, read at each scrape.

Rules: reads attributes only. Of a kind of quota at most `RATES_MAX` rates are shown, those that were used last: a client may
send as many client ids as it likes. Users are percent-encoded, as in Apache Kafka's.
Source: Kafka ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager, ConnectionQuotas.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from broker.observability import metric_table as table
from metadata.store.sanitized_names import sanitized
from runtime.distribution import Distribution
from runtime.monitoring.metric import Sample, summary_samples

if TYPE_CHECKING:
    from broker.network.connections.acceptor import Acceptor
    from broker.network.quotas.client_quota import ClientQuota, ClientRate
    from broker.network.quotas.client_quotas import Quotas

RATES_MAX = 1_000
PROCESSOR = "0"  # the only one
UNKNOWN_SOFTWARE = "unknown"
_MUTATION = "ControllerMutation"
_RESOURCES = ("Produce", "Fetch", "Request", _MUTATION)
_RATES = {
    "Produce": table.QUOTA_BYTE_RATE,
    "Fetch": table.QUOTA_BYTE_RATE,
    "Request": table.QUOTA_REQUEST_TIME,
    _MUTATION: table.QUOTA_MUTATION_RATE,
}


def quota_samples(quotas: Quotas, requests: Mapping[str, int], now_ms: int) -> Iterator[Sample]:
    """Yield the rates that count for quotas, and how long requests were throttled: `requests` are their numbers by API."""
    kinds = tuple(zip(_RESOURCES, (quotas.produce, quotas.fetch, quotas.request, quotas.mutation), strict=True))
    shown = {resource: _shown(quota) for resource, quota in kinds}
    for resource, metric in _RATES.items():
        for each in shown[resource]:
            yield Sample(metric, _labels(resource, each.tags), each.rate.per_second(now_ms))
    for each in shown[_MUTATION]:
        if each.bucket is not None and each.limit != math.inf:
            tokens = each.bucket.tokens(each.limit, now_ms)
            yield Sample(table.QUOTA_TOKENS, _labels(_MUTATION, each.tags), tokens)
    for resource, rates in shown.items():
        for each in rates:
            yield Sample(table.QUOTA_THROTTLE, _labels(resource, each.tags), each.mean_throttle_ms(now_ms))
    throttles = [
        ((name,), quotas.throttles.get(name, Distribution()).with_zeros(count)) for name, count in requests.items()
    ]
    yield from summary_samples(table.THROTTLE_TIME, throttles, now_ms)


def _shown(quota: ClientQuota) -> list[ClientRate]:
    return list(quota)[-RATES_MAX:]


def _labels(resource: str, tags: tuple[str, str]) -> tuple[str, str, str]:
    user, client_id = tags
    return resource, sanitized(user), client_id


def _clients(acceptor: Acceptor) -> Iterator[Sample]:
    """Yield the open connections by what their clients are, at most `RATES_MAX` kinds: a client may name itself as it likes."""
    counts: Counter[tuple[str, ...]] = Counter()
    for connection in acceptor:
        client = connection.client
        if client is not None:
            software = client.software or (UNKNOWN_SOFTWARE, UNKNOWN_SOFTWARE)
            counts[*software, client.listener, PROCESSOR, client.cipher, client.tls_version] += 1
    for labels, count in counts.most_common(RATES_MAX):
        yield Sample(table.CONNECTIONS_BY_CLIENT, labels, count)


def connection_samples(acceptor: Acceptor, now_ms: int) -> Iterator[Sample]:
    """Yield the open connections, and how fast they are made."""
    counts = acceptor.counts_by_listener()
    for listener, count in counts.items():
        yield Sample(table.CONNECTIONS, (listener, PROCESSOR), count)
    admitted = acceptor.admitted_by_listener()
    for listener, count in admitted.items():
        yield Sample(table.CONNECTIONS_MADE, (listener, PROCESSOR), count)
    for listener, count in admitted.items():
        yield Sample(table.CONNECTIONS_CLOSED, (listener, PROCESSOR), count - counts[listener])
    yield from _clients(acceptor)
    yield Sample(table.UNSENT_BYTES, (), acceptor.unsent_bytes)
    yield Sample(table.CONNECTIONS_REFUSED, (), acceptor.refused_count)
    rates = acceptor.rates
    if rates is None:
        return
    yield Sample(table.BROKER_ACCEPT_RATE, (), rates.broker_rate(now_ms))
    for listener, rate in rates.listener_rates(now_ms).items():
        yield Sample(table.ACCEPT_RATE, (listener,), rate)
    yield Sample(table.ACCEPT_DELAYS, (), sum(rates.delays_ms.values()))
    yield Sample(table.ADDRESSES_THROTTLED, (), rates.throttled_addresses)
