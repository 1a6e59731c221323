from __future__ import annotations

import asyncio
import logging

import pytest

from broker.handlers.brokers.api_versions import api_versions
from broker.network.connections.acceptor import BROKER_WAIT_MS, LONGEST_SWEEP_PERIOD_MS, AcceptLimits
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from security.access import NOTHING
from tests.broker.harness import Broker, Peer
from tests.broker.network.connections.test_connection import Log, V, produce_of

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def test_max_connections(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker([api_versions], accept=AcceptLimits(max_connections=2))
    first, _ = broker.connect(), broker.connect()
    with caplog.at_level(logging.WARNING):
        refused = broker.connect()
    assert refused.stream.is_closed
    assert "max.connections=2" in caplog.text
    refused.disconnect()
    assert len(broker.acceptor) == 2
    first.disconnect()
    assert not broker.connect().stream.is_closed


def test_brokers_with_a_listener_of_their_own_are_let_in_above_max_connections() -> None:
    """Else clients that take all connections keep followers from their leaders."""
    log = Log()
    broker = Broker(log.handlers, accept=AcceptLimits(max_connections=3), brokers_listener="INSIDE")
    busy, _, talking = clients = [broker.connect() for _ in range(3)]
    busy.send(produce_of(b"x", timeout_ms=9), V)
    broker.turns.advance(3 * LONGEST_SWEEP_PERIOD_MS)
    talking.send(ASK, 3)
    assert not broker.connect("10.2.2.2", "INSIDE").stream.is_closed
    assert [client.stream.is_closed for client in clients] == [False, True, False]
    assert broker.connect().stream.is_closed, "a client is not"
    assert not broker.connect("10.2.2.3", "INSIDE").stream.is_closed
    assert [client.stream.is_closed for client in clients] == [False, True, True]
    for _ in range(2):
        assert not broker.connect("10.2.2.4", "INSIDE").stream.is_closed
    assert busy.stream.is_closed


def test_max_connections_per_ip_and_its_overrides() -> None:
    limits = AcceptLimits(max_connections_per_ip=1, per_ip_overrides={"10.9.9.9": 3, "10.8.8.8": 0})
    broker = Broker([api_versions], accept=limits)
    peers = [broker.connect("10.1.1.1"), broker.connect("10.1.1.1"), broker.connect("10.1.1.2")]
    assert [peer.stream.is_closed for peer in peers] == [False, True, False]
    assert [broker.connect("10.9.9.9").stream.is_closed for _ in range(4)] == [False, False, False, True]
    assert broker.connect("10.8.8.8").stream.is_closed
    peers[1].disconnect()  # a refused one was never counted
    assert broker.connect("10.1.1.1").stream.is_closed
    peers[0].disconnect()
    assert not broker.connect("10.1.1.1").stream.is_closed


@pytest.mark.parametrize("max_idle_ms", [800, 60_000])
def test_idle_connections_are_closed_and_busy_ones_are_not(max_idle_ms: int) -> None:
    log = Log()
    broker = Broker(log.handlers, accept=AcceptLimits(max_idle_ms=max_idle_ms))
    _, talking, waiting = peers = [broker.connect() for _ in range(3)]
    waiting.send(produce_of(b"x", timeout_ms=9), V)

    def closed_after(duration_ms: int) -> list[bool]:
        broker.turns.advance(duration_ms)
        return [peer.stream.is_closed for peer in peers]

    assert closed_after(max_idle_ms) == [False, False, False]
    talking.send(ASK, 3)
    assert closed_after(max_idle_ms // 4) == [True, False, False]
    log.finish(0)
    waiting.go_on()
    assert len(waiting.answers()) == 1
    assert closed_after(2 * max_idle_ms) == [True, True, True]


@pytest.mark.parametrize("max_idle_ms", [800, 60_000])
def test_a_client_that_takes_its_response_slowly_is_not_idle(max_idle_ms: int) -> None:
    """From its last bytes on it has the whole time to ask again; one that takes nothing does not stay."""
    broker = Broker([api_versions], accept=AcceptLimits(max_idle_ms=max_idle_ms))
    slow, _, late = peers = [broker.connect() for _ in range(3)]
    for peer in peers:
        peer.send(ASK, 3)
        peer.stream.unsent = 1_000_000
    for _ in range(20):
        slow.stream.unsent -= 50_000
        broker.turns.advance(max_idle_ms // 4)
        if not late.stream.is_closed:
            late.send(ASK, 3)
            late.stream.unsent += 10
    assert [peer.stream.is_closed for peer in peers] == [False, True, False]
    broker.turns.advance(max_idle_ms // 2)
    assert [peer.stream.is_closed for peer in peers] == [False, True, False]
    broker.turns.advance(max_idle_ms)
    assert all(peer.stream.is_closed for peer in peers)


def test_no_connection_is_idle_when_the_limit_is_negative() -> None:
    broker = Broker([api_versions], accept=AcceptLimits(max_idle_ms=-1))
    peer = broker.connect()
    broker.turns.advance(100_000_000)
    assert not peer.stream.is_closed


def test_a_connection_that_does_not_finish_closing_is_aborted() -> None:
    broker = Broker([api_versions])
    peer = broker.connect()
    peer.handler.life.close("test")
    assert (peer.stream.is_closed, peer.stream.is_aborted) == (True, False)
    broker.turns.advance(4 * LONGEST_SWEEP_PERIOD_MS)
    assert (peer.stream.is_closed, peer.stream.is_aborted) == (True, True)


def test_half_a_request_does_not_hold_memory_others_wait_for() -> None:
    log = Log()
    broker = Broker(log.handlers, budget_bytes=100_000)
    *stallers, waiter = (broker.connect() for _ in range(3))
    for staller in stallers:  # one would not be in anybody's way
        staller.send_bytes(staller.frame(produce_of(b"x" * 90_000), V)[:1000])
    broker.turns.advance(100_000)
    assert not any(staller.stream.is_closed for staller in stallers)  # nobody waits yet
    waiter.send(produce_of(b"y" * 50_000), V)
    broker.turns.advance(2 * LONGEST_SWEEP_PERIOD_MS)
    assert all(staller.stream.is_closed for staller in stallers)
    for staller in stallers:
        staller.disconnect()
    waiter.go_on()
    assert len(waiter.answers()) == 1
    assert not waiter.stream.is_closed


def test_until_the_broker_is_open_connections_wait() -> None:
    broker = Broker([api_versions], is_open=False)
    peer = broker.connect()
    peer.send(ASK, 3)
    assert not peer.stream.is_reading
    broker.acceptor.open()
    peer.go_on()
    assert len(peer.answers()) == 1


async def test_finish_all_and_emptied() -> None:
    broker = Broker([api_versions])
    peers = [broker.connect() for _ in range(3)]
    broker.acceptor.finish_all("stopping")
    assert all(peer.stream.is_closed for peer in peers)
    emptied = asyncio.ensure_future(broker.acceptor.emptied())
    for peer in peers:
        await asyncio.sleep(0)
        assert not emptied.done()
        peer.disconnect()
    await asyncio.wait_for(emptied, 10)
    broker.acceptor.stop()


METADATA = MetadataRequest(topics=None)
EARLY = frozenset({ApiVersionsRequest.api_key})


@handles(MetadataRequest, NOTHING)
async def no_brokers(_request: MetadataRequest, _context: RequestContext) -> MetadataResponse:
    return MetadataResponse(brokers=[], topics=[])


def a_starting_broker(early_keys: frozenset[int]) -> Broker:
    return Broker([api_versions, no_brokers], is_open=False, early_keys=early_keys)


def test_before_it_opens_a_broker_answers_early_requests_and_holds_the_others() -> None:
    broker = a_starting_broker(EARLY)
    peer = broker.connect()
    peer.send(ASK, 3)
    assert len(peer.answers()) == 1
    peer.send(METADATA, 9)
    peer.send(ASK, 3)  # behind one that waits
    assert peer.answers() == []
    assert peer.handler.intake.waits_for_broker
    broker.acceptor.open()
    peer.go_on()
    assert [type(answer) for answer in peer.answers()] == [MetadataResponse, ApiVersionsResponse]
    assert not peer.handler.intake.waits_for_broker
    late = broker.connect()
    late.send(METADATA, 9)
    assert len(late.answers()) == 1


def test_without_early_requests_nothing_is_read_before_it_opens() -> None:
    broker = a_starting_broker(frozenset())
    peer = broker.connect()
    peer.send(ASK, 3)
    assert not peer.stream.is_reading
    assert peer.unsent_bytes
    broker.acceptor.open()
    peer.go_on()
    peer.go_on()
    assert len(peer.answers()) == 1


def test_a_held_request_in_pieces_is_answered_whole() -> None:
    broker = a_starting_broker(EARLY)
    peer = broker.connect()
    data = b"".join(_framed(peer, request) for request in (ASK, METADATA, METADATA))
    peer.send_bytes(data, piece_bytes=3)
    assert len(peer.answers()) == 1
    broker.acceptor.open()
    for _ in range(len(data)):
        peer.go_on()
    assert len(peer.answers()) == 2


def _framed(peer: Peer, request: ApiVersionsRequest | MetadataRequest) -> bytes:
    version = 3 if isinstance(request, ApiVersionsRequest) else 9
    peer.expect(request, version)
    return peer.frame(request, version)


def test_a_request_is_not_held_for_ever() -> None:
    broker = a_starting_broker(EARLY)
    held, quiet = broker.connect(), broker.connect()
    held.send(METADATA, 9)
    broker.turns.advance(BROKER_WAIT_MS - LONGEST_SWEEP_PERIOD_MS)
    assert not held.stream.is_closed
    broker.turns.advance(3 * LONGEST_SWEEP_PERIOD_MS)
    assert held.stream.is_closed
    assert not quiet.stream.is_closed
