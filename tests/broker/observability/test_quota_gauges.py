"""What a scrape tells of quotas and of new connections."""

from __future__ import annotations

import pytest

from broker.handlers.brokers.api_versions import api_versions
from broker.handlers.records.produce import produce
from broker.network.connections.acceptor import AcceptLimits
from broker.network.quotas.connection_rates import ConnectionRates, RateLimits
from broker.observability.quota_gauges import RATES_MAX, connection_samples, quota_samples
from tests.broker.harness import Broker
from tests.broker.network.quotas.test_client_quotas import context_of, route
from tests.broker.quota_world import WINDOWS, quotas_of
from tests.doubles.clock import ManualClock

Read = dict[tuple[str, ...], float]


def read(samples: object) -> Read:
    return {
        (f"{one.metric.type} {one.metric.name}{one.suffix}", *filter(None, (*one.labels, one.bound))): one.value
        for one in samples
    }  # type: ignore[attr-defined]


def test_without_quotas_there_is_nothing_to_tell() -> None:
    assert read(quota_samples(quotas_of(), {}, 0)) == {}


def test_rates_and_throttle_times() -> None:
    clock = ManualClock()
    quotas = quotas_of(clock, users__alice={"producer_byte_rate": "1000", "controller_mutation_rate": "2"})
    context = context_of("alice")
    quotas.charge(route(produce), context, 11_000, 10, None)
    mutations = quotas.mutations(context, 0)
    assert mutations is not None
    mutations.take(4)
    found = read(quota_samples(quotas, {"Produce": 3}, 0))
    assert found == pytest.approx(
        {
            ("quota byte-rate", "Produce", "alice"): 1_100,
            ("quota throttle-time", "Produce", "alice"): 1_000,
            ("quota mutation-rate", "ControllerMutation", "alice"): 0.4,
            ("quota throttle-time", "ControllerMutation", "alice"): 0,
            ("quota tokens", "ControllerMutation", "alice"): 18,
            **{("RequestMetrics ThrottleTimeMs", "Produce", quantile): 0 for quantile in ("0.50",)},
            **{
                ("RequestMetrics ThrottleTimeMs", "Produce", quantile): pytest.approx(1_000, rel=0.25)
                for quantile in ("0.75", "0.95", "0.98", "0.99", "0.999")
            },
            ("RequestMetrics ThrottleTimeMs_count", "Produce"): 3,
            ("RequestMetrics ThrottleTimeMs_sum", "Produce"): 1_000,
        }
    )


def test_users_are_encoded() -> None:
    quotas = quotas_of(**{"users__a%20b": {"producer_byte_rate": "1"}})
    quotas.charge(route(produce), context_of("a b"), 1, 1, None)
    assert ("quota byte-rate", "Produce", "a%20b") in read(quota_samples(quotas, {}, 0))


def test_clients_do_not_make_the_page_longer() -> None:
    quotas = quotas_of(rates_max=2 * RATES_MAX, **{"clients__<default>": {"producer_byte_rate": "1"}})
    for number in range(RATES_MAX + 100):
        quotas.charge(route(produce), context_of(client_id=f"c{number}"), 1, 1, None)
    found = read(quota_samples(quotas, {}, 0))
    assert len([key for key in found if key[0] == "quota byte-rate"]) == RATES_MAX
    assert ("quota byte-rate", "Produce", f"c{RATES_MAX + 99}") in found


def test_connections() -> None:
    rates = ConnectionRates(WINDOWS, 10)
    rates.apply_entity("ips/10.9.9.9", {"connection_creation_rate": "0"})
    limits = AcceptLimits(max_by_listener={"OTHER": 1}, rates=RateLimits(of_broker=1))
    broker = Broker([api_versions], accept=limits, rates=rates)
    broker.acceptor.limits = limits
    for host, listener in [("10.1.1.1", "OTHER")] * 2 + [("10.9.9.9", "PLAINTEXT")] * 9:
        broker.connect(host, listener)
    broker.acceptor.closed(next(iter(broker.acceptor)))
    broker.connect("10.1.1.1", "OTHER")
    peer = broker.connect("10.2.2.2")
    peer.handler.client.software = ("librdkafka", "2.6")
    peer.handler.client.cipher, peer.handler.client.tls_version = "TLS_AES_128_GCM_SHA256", "TLSv1.3"
    found = read(connection_samples(broker.acceptor, broker.clock.now_ms))
    assert found == pytest.approx(
        {
            ("socket-server-metrics connection-count", "OTHER", "0"): 1,
            ("socket-server-metrics connection-count", "PLAINTEXT", "0"): 1,
            ("socket-server-metrics connections", "unknown", "unknown", "OTHER", "0"): 1,
            (
                *("socket-server-metrics connections", "librdkafka", "2.6", "PLAINTEXT", "0"),
                *("TLS_AES_128_GCM_SHA256", "TLSv1.3"),
            ): 1,
            ("socket-server-metrics connection-creation-total", "OTHER", "0"): 2,
            ("socket-server-metrics connection-creation-total", "PLAINTEXT", "0"): 1,
            ("socket-server-metrics connection-close-total", "OTHER", "0"): 1,
            ("socket-server-metrics connection-close-total", "PLAINTEXT", "0"): 0,
            ("connections unsent-bytes",): 0,
            ("connections refused",): 1,
            ("socket-server-metrics broker-connection-accept-rate",): 1.3,
            ("socket-server-metrics connection-accept-rate", "OTHER"): 0.3,
            ("socket-server-metrics connection-accept-rate", "PLAINTEXT"): 1.0,
            ("connections accept-delay-ms",): 3_000,
            ("connections address-throttled",): 9,
        }
    )
