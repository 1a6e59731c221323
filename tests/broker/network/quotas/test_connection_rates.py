"""How fast connections may be made, on a clock that the test moves; listeners pause, connections wait or are closed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from broker.handlers.brokers.api_versions import api_versions
from broker.network.connections.acceptor import DELAYED_MAX, AcceptLimits
from broker.network.quotas.connection_rates import ConnectionRates, RateLimits
from protocol.messages.api_versions import ApiVersionsRequest
from runtime.network.transport import Address
from tests.broker.harness import Broker
from tests.broker.quota_world import WINDOWS

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def rates_of(addresses: dict[str, str] | None = None, **more: object) -> ConnectionRates:
    rates = ConnectionRates(WINDOWS, 100, protected_listener="INSIDE")
    rates.limits = RateLimits(**more)  # type: ignore[arg-type]
    for address, limit in (addresses or {}).items():
        rates.apply_entity(f"ips/{address}", {"connection_creation_rate": limit})
    return rates


def accepted(rates: ConnectionRates, count: int, now_ms: int = 0, listener: str = "PLAINTEXT") -> list[int]:
    return [rates.accepted(listener, now_ms) for _ in range(count)]


def test_the_rate_of_the_broker() -> None:
    """A window of eleven seconds begins: ten connections are a second's worth of each of ten."""
    rates = rates_of(of_broker=1)
    assert accepted(rates, 10) == [0] * 10
    assert accepted(rates, 1) == [1_000], "at most a window"
    assert accepted(rates, 1, listener="OTHER") == [1_000], "all listeners share it"
    assert rates.delays_ms == {"PLAINTEXT": 1_000, "OTHER": 1_000}
    assert rates.broker_rate(0) == pytest.approx(1.2)


def test_the_listener_of_the_brokers_has_only_its_own_rate() -> None:
    rates = rates_of(of_broker=1, of_listeners={"INSIDE": 2})
    assert accepted(rates, 21, listener="INSIDE") == [0] * 20 + [500]
    assert accepted(rates, 1) == [0]


def test_the_rate_of_a_listener() -> None:
    rates = rates_of(of_listeners={"PLAINTEXT": 1})
    assert accepted(rates, 11)[-1] == 1_000
    assert accepted(rates, 30, listener="OTHER") == [0] * 30
    assert rates.listener_rates(0) == pytest.approx({"PLAINTEXT": 1.1, "OTHER": 3})


def test_the_rates_of_addresses() -> None:
    rates = rates_of({"10.0.0.1": "1", "<default>": "2"})
    one = [rates.address_throttle_ms("10.0.0.1", 0) for _ in range(12)]
    assert one == [0] * 10 + [1_000] * 2
    other = [rates.address_throttle_ms("10.0.0.2", 0) for _ in range(22)]
    assert other == [0] * 20 + [500] * 2
    assert rates.throttled_addresses == 4
    assert rates.address_throttle_ms("10.0.0.1", 20_000) == 0
    rates.apply_entity("ips/10.0.0.1", {})
    rates.apply_entity("ips/<default>", {"connection_creation_rate": "many"})
    assert [rates.address_throttle_ms("10.0.0.1", 20_000) for _ in range(50)] == [0] * 50


@dataclass
class FakeListener:
    address: Address = field(default_factory=lambda: Address("127.0.0.1", 9092))
    is_paused: bool = False

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    async def close(self) -> None: ...


def limited(rates: ConnectionRates, **limits: object) -> tuple[Broker, FakeListener]:
    accept = AcceptLimits(rates=rates.limits, **limits)  # type: ignore[arg-type]
    broker = Broker([api_versions], accept=accept, rates=rates)
    listener = FakeListener()
    broker.acceptor.listening("PLAINTEXT", listener)
    return broker, listener


def test_one_connection_too_many_waits_and_its_listener_accepts_no_other() -> None:
    broker, listener = limited(rates_of(of_broker=1))
    peers = [broker.connect() for _ in range(11)]
    assert listener.is_paused
    for peer in peers:
        peer.send(ASK, 3)
    assert [len(peer.answers()) for peer in peers] == [1] * 10 + [0]
    broker.turns.advance(999)
    assert listener.is_paused
    broker.turns.advance(1)
    assert not listener.is_paused
    peers[-1].go_on()
    assert len(peers[-1].answers()) == 1


def test_a_later_connection_prolongs_the_pause() -> None:
    """There may be one more in the queue of the event loop."""
    broker, listener = limited(rates_of(of_broker=1))
    for _ in range(11):
        broker.connect()
    broker.turns.advance(600)
    broker.connect()
    broker.turns.advance(600)
    assert listener.is_paused
    broker.turns.advance(400)
    assert not listener.is_paused


def test_a_broker_that_stops_resumes_no_listener() -> None:
    broker, listener = limited(rates_of(of_broker=1))
    for _ in range(11):
        broker.connect()
    broker.acceptor.stop()
    broker.turns.advance(5_000)
    assert listener.is_paused


def test_a_connection_of_an_address_that_makes_too_many_is_closed_after_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker, listener = limited(rates_of({"10.1.1.1": "1"}))
    peers = [broker.connect("10.1.1.1") for _ in range(11)]
    refused, other = peers[-1], broker.connect("10.1.1.2")
    refused.send(ASK, 3)
    other.send(ASK, 3)
    assert (len(refused.answers()), len(other.answers())) == (0, 1)
    assert len(broker.acceptor) == 11, "it is not counted"
    broker.turns.advance(999)
    assert not refused.stream.is_closed
    with caplog.at_level(logging.INFO):
        broker.turns.advance(1)
    assert refused.stream.is_closed
    assert "connection_creation_rate" in caplog.text
    assert not listener.is_paused
    refused.disconnect()
    assert len(broker.acceptor) == 11


def test_a_client_that_does_not_wait_for_it() -> None:
    broker, _ = limited(rates_of({"10.1.1.1": "1"}))
    peers = [broker.connect("10.1.1.1") for _ in range(11)]
    peers[-1].disconnect()
    broker.turns.advance(5_000)
    assert not peers[-1].stream.is_closed


def test_few_connections_wait_to_be_closed() -> None:
    broker, _ = limited(rates_of({"10.1.1.1": "0"}))
    peers = [broker.connect("10.1.1.1") for _ in range(DELAYED_MAX + 2)]
    assert [peer.stream.is_closed for peer in peers] == [False] * DELAYED_MAX + [True] * 2
    broker.acceptor.abort_all()
    assert all(peer.stream.is_closed for peer in peers)


def test_the_connections_of_one_listener() -> None:
    broker, _ = limited(rates_of(), max_by_listener={"PLAINTEXT": 2})
    first, _, refused = peers = [broker.connect() for _ in range(3)]
    assert [peer.stream.is_closed for peer in peers] == [False, False, True]
    refused.disconnect()
    assert not broker.connect(listener="OTHER").stream.is_closed
    first.disconnect()
    assert not broker.connect().stream.is_closed


def test_changed_limits_hold_for_new_connections() -> None:
    rates = rates_of(of_broker=1)
    broker, listener = limited(rates)
    broker.acceptor.limits = AcceptLimits()
    for _ in range(30):
        broker.connect()
    assert not listener.is_paused
