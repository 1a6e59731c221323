"""Gauges of quotas and of new connections, read at each scrape.

Rules: reads attributes only. Of a kind of quota at most `RATES_MAX` rates are shown, those that were used last: a client may
send as many client ids as it likes. Users are percent-encoded, as in Apache Kafka's.
Source: Kafka ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager, ConnectionQuotas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.observability import metric_table as table
from broker.observability.metric_table import Metric
from broker.observability.metrics import Sample
from metadata.store.sanitized_names import sanitized

if TYPE_CHECKING:
    from broker.network.acceptor import Acceptor
    from broker.network.quotas.client_quota import ClientQuota, ClientRate
    from broker.network.quotas.client_quotas import Quotas

RATES_MAX = 1_000
PROCESSOR = "0"  # the only one


def quota_samples(quotas: Quotas, now_ms: int) -> Iterator[Sample]:
    """Yield the rates that count for quotas, and how long requests were throttled."""
    for quota, rate, throttle in (
        (quotas.produce, table.PRODUCE_RATE, table.PRODUCE_THROTTLE),
        (quotas.fetch, table.FETCH_RATE, table.FETCH_THROTTLE),
        (quotas.request, table.REQUEST_TIME, table.REQUEST_THROTTLE),
        (quotas.mutation, table.MUTATION_RATE, table.MUTATION_THROTTLE),
    ):
        yield from _rates(quota, rate, throttle, now_ms)
    for each in _shown(quotas.mutation):
        if each.bucket is not None and each.limit != math.inf:
            yield Sample(table.MUTATION_TOKENS, _labels(each.tags), each.bucket.tokens(each.limit, now_ms))
    for name, count in list(quotas.throttles.items()):
        yield Sample(table.THROTTLE_TIME, (name,), count, "_count")
        yield Sample(table.THROTTLE_TIME, (name,), quotas.throttles_ms[name], "_sum")


def _shown(quota: ClientQuota) -> list[ClientRate]:
    return list(quota)[-RATES_MAX:]


def _labels(tags: tuple[str, str]) -> tuple[str, str]:
    user, client_id = tags
    return sanitized(user), client_id


def _rates(quota: ClientQuota, rate: Metric, throttle: Metric, now_ms: int) -> Iterator[Sample]:
    shown = _shown(quota)
    for each in shown:
        yield Sample(rate, _labels(each.tags), each.rate.per_second(now_ms))
    for each in shown:
        yield Sample(throttle, _labels(each.tags), each.mean_throttle_ms(now_ms))


def connection_samples(acceptor: Acceptor, now_ms: int) -> Iterator[Sample]:
    """Yield the open connections, and how fast they are made."""
    for listener, count in acceptor.counts_by_listener().items():
        yield Sample(table.CONNECTIONS, (listener, PROCESSOR), count)
    yield Sample(table.CONNECTIONS_REFUSED, (), acceptor.refused_count)
    rates = acceptor.rates
    if rates is None:
        return
    yield Sample(table.BROKER_ACCEPT_RATE, (), rates.broker_rate(now_ms))
    for listener, rate in rates.listener_rates(now_ms).items():
        yield Sample(table.ACCEPT_RATE, (listener,), rate)
    yield Sample(table.ACCEPT_DELAYS, (), sum(rates.delays_ms.values()))
    yield Sample(table.ADDRESSES_THROTTLED, (), rates.throttled_addresses)
