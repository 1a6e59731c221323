"""Connections: frames, order and overlap of answers, headers, finishing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network.connections.connection_shared import ConnectionLimits
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.requests.request_intake import TURN_MS
from broker.network.responses.deferred import Deferred
from broker.network.routes import Route
from protocol.errors import ErrorCode
from protocol.header import encode_request
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.schema import Response
from security.access import NOTHING
from security.principal import ANONYMOUS
from tests.broker.harness import Broker, settle
from tests.broker.recorded_requests import (
    BARRIER_MS,
    HEARTBEAT_V,
    Log,
    V,
    base_offset,
    heartbeat_of,
    produce_of,
    produced,
)


@pytest.fixture
def log() -> Log:
    return Log()


def test_requests_are_answered_in_one_write(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    frames = b""
    for i in range(3):
        request = produce_of(b"%d" % i)
        peer.expect(request, V)
        frames += peer.frame(request, V)
    peer.expect(heartbeat_of("g"), HEARTBEAT_V)
    frames += peer.frame(heartbeat_of("g"), HEARTBEAT_V)
    peer.send_bytes(frames)
    assert len(peer.stream.writes) == 1
    answers = peer.answers()
    assert [base_offset(answer) for answer in answers[:3]] == [0, 1, 2]
    assert isinstance(answers[3], HeartbeatResponse)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 10, 300, 5_000, 20_000, 70_000, 200_000]), min_size=1, max_size=8),
    piece_bytes=st.sampled_from([1, 3, 13, 14, 100, 4_000, 65_536, 1 << 20]),
    data=st.data(),
)
def test_frames_come_together_however_they_are_cut(sizes: list[int], piece_bytes: int, data: st.DataObject) -> None:
    if sum(sizes) // piece_bytes > 5_000:
        sizes = [min(size, 300) for size in sizes]
    log = Log()
    broker = Broker(log.handlers)
    peer = broker.connect()
    frames = b""
    expected = []
    for i, size in enumerate(sizes):
        if data.draw(st.booleans()):
            records = bytes([i]) * size
            expected.append(records)
            request: Any = produce_of(records)
            version = V
        else:
            request, version = heartbeat_of("g" * min(size, 30_000)), HEARTBEAT_V
        peer.expect(request, version)
        frames += peer.frame(request, version)
    peer.send_bytes(frames, piece_bytes)
    for _ in sizes:  # a large request is handled in a later turn, and the connection reads no further until then
        peer.send_bytes(b"", piece_bytes)
    assert len(peer.answers()) == len(sizes)
    assert [bytes(records) for records in log.records] == expected
    assert broker.budget.used_bytes == 0


@pytest.mark.parametrize("size", [100, 30_000, 100_000, 5_000_000])
def test_records_are_the_requests_own_and_may_be_patched(log: Log, size: int) -> None:
    peer = Broker(log.handlers, budget_bytes=10 << 20).connect()
    peer.send(produce_of(b"a" * size), V)
    peer.send(produce_of(b"b" * size), V)
    first, second = log.records
    assert bytes(first) == b"a" * size
    first[:1] = b"X"
    assert bytes(second) == b"b" * size


def test_overlapping_requests_start_at_once_and_answer_in_order(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    for _ in range(3):
        peer.send(produce_of(b"x", timeout_ms=9), V)
    peer.send(produce_of(b"x"), V)
    assert log.started == ["produce 0", "produce 1", "produce 2", "produce 3"]
    log.finish(2)
    log.finish(1)
    peer.go_on()
    assert peer.answers() == []
    log.finish(0)
    peer.go_on()
    assert [base_offset(answer) for answer in peer.answers()] == [0, 1, 2, 3]


def test_a_request_that_turns_out_to_be_a_barrier_holds_up_those_behind(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    for timeout_ms in (9, BARRIER_MS, 9, 0):
        peer.send(produce_of(b"x", timeout_ms=timeout_ms), V)
    assert log.started == ["produce 0", "produce 1"]
    log.finish(0)
    peer.go_on()
    assert len(log.started) == 2 and len(peer.answers()) == 1
    log.finish(1)
    peer.go_on()
    assert log.started == ["produce 0", "produce 1", "produce 2", "produce 3"]
    log.finish(2)
    peer.go_on()
    assert [base_offset(answer) for answer in peer.answers()] == [1, 2, 3]


def test_what_a_barrier_works_on_is_counted_when_its_client_is_gone(log: Log) -> None:
    broker = Broker(log.handlers)
    peer = broker.connect()
    for timeout_ms in (9, BARRIER_MS):
        peer.send(produce_of(b"x", timeout_ms=timeout_ms), V)
    both_bytes = broker.budget.used_bytes
    peer.disconnect()
    assert broker.budget.used_bytes == both_bytes / 2 > 0
    log.finish(1)
    assert broker.budget.used_bytes == 0


async def test_other_requests_wait_for_those_before_and_hold_up_those_behind(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    peer.send(produce_of(b"x", timeout_ms=9), V)
    peer.send(heartbeat_of("wait"), HEARTBEAT_V)
    peer.send(produce_of(b"x"), V)
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    assert log.started == ["produce 0"]
    assert not peer.stream.is_reading
    log.finish(0)
    peer.go_on()
    await settle()
    assert log.started == ["produce 0", "heartbeat wait"]
    assert len(peer.answers()) == 1
    log.gate.set_result(None)
    await settle()
    peer.go_on()
    assert log.started == ["produce 0", "heartbeat wait", "produce 1", "heartbeat g"]
    assert [type(answer) for answer in peer.answers()] == [HeartbeatResponse, ProduceResponse, HeartbeatResponse]
    assert peer.stream.is_reading


def test_a_lone_waiting_request_leaves_the_connection_reading(log: Log) -> None:
    """So that the end of the client is heard, and its waiting request abandoned."""
    peer = Broker(log.handlers).connect()
    peer.send(produce_of(b"x", timeout_ms=9), V)
    assert peer.stream.is_reading
    peer.disconnect()
    assert log.abandoned == [0]
    log.finish(0)  # too late: nobody is there
    assert peer.answers() == []


def test_overlapping_requests_are_bounded(log: Log) -> None:
    peer = Broker(log.handlers, limits=ConnectionLimits(max_in_flight=2)).connect()
    for _ in range(4):
        peer.send(produce_of(b"x", timeout_ms=9), V)
    assert log.started == ["produce 0", "produce 1"]
    assert not peer.stream.is_reading
    log.finish(0)
    peer.go_on()
    assert log.started == ["produce 0", "produce 1", "produce 2"]
    for number in (1, 2):
        log.finish(number)
    peer.go_on()
    log.finish(3)
    peer.go_on()
    assert [base_offset(answer) for answer in peer.answers()] == [0, 1, 2, 3]


def test_acks_0_gets_no_answer_and_disturbs_no_order(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    peer.send(produce_of(b"x", timeout_ms=9), V)
    peer.send(produce_of(b"x", acks=0), V)
    peer.send(produce_of(b"x"), V)
    log.finish(0)
    peer.go_on()
    data = b"".join(peer.stream.writes)
    assert data.count(b"\0\0\0\x65") >= 1  # correlation id 101
    assert b"\0\0\0\x66" not in data
    peer.stream.writes.clear()
    peer.send(produce_of(b"x", acks=0), V)
    assert peer.stream.writes == []


def test_what_an_answer_unblocks_runs_in_the_next_turn(log: Log) -> None:
    """A handler may complete another connection's answer in the middle of its own work."""
    broker = Broker(log.handlers)
    first = broker.connect()
    first.send(produce_of(b"x", timeout_ms=9), V)
    first.send(heartbeat_of("g"), HEARTBEAT_V)
    log.finish(0)
    assert log.started == ["produce 0"]
    assert first.stream.writes == []
    broker.turns.run()
    assert log.started == ["produce 0", "heartbeat g"]


def test_requests_that_came_together_and_take_long_take_turns_with_others() -> None:
    """A turn of the loop has no more of them than take some milliseconds, and nothing is read until all have started."""
    started: list[str] = []

    @handles(HeartbeatRequest, NOTHING)
    async def heartbeat(request: HeartbeatRequest, _context: RequestContext) -> HeartbeatResponse:
        started.append(request.group_id)
        broker.clock.now_ms += TURN_MS - 1
        return HeartbeatResponse(error_code=ErrorCode.NONE)

    broker = Broker([heartbeat])
    hostile, good = broker.connect(), broker.connect()
    groups = [f"hostile {number}" for number in range(6)]
    frames = b""
    for group in groups:
        hostile.expect(heartbeat_of(group), HEARTBEAT_V)
        frames += hostile.frame(heartbeat_of(group), HEARTBEAT_V)
    place = hostile.handler.receive_buffer(-1)
    place[: len(frames)] = frames
    hostile.handler.received(len(frames))
    assert started == groups[:3]
    assert not hostile.stream.is_reading
    good.send(heartbeat_of("good"), HEARTBEAT_V)  # which runs the turns
    assert started == [*groups[:3], "good", *groups[3:]]
    assert len(hostile.answers()) == len(groups)
    assert hostile.stream.is_reading


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_from_the_future_is_answered_in_v0(log: Log, version: int) -> None:
    peer = Broker(log.handlers).connect()
    peer.expect(ApiVersionsRequest(), 0)
    frame = bytearray(peer.frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4))
    frame[6:8] = version.to_bytes(2, "big", signed=True)
    peer.send_bytes(bytes(frame))
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    answer, after = peer.answers()
    assert isinstance(answer, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
    assert isinstance(after, HeartbeatResponse)


@pytest.mark.parametrize("client_id", ["tester", "other", "", None, "ü" * 300])
def test_client_ids_arrive(log: Log, client_id: str | None) -> None:
    peer = Broker(log.handlers).connect()
    for one in ("tester", client_id, client_id, "tester"):
        for version in (0, 4):
            peer.send(heartbeat_of("g"), version, one)
    assert [context.client_id for context in log.contexts] == [
        one for one in ("tester", client_id, client_id, "tester") for _ in range(2)
    ]
    assert len(peer.answers()) == 8


def test_tagged_fields_in_the_header_are_skipped(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    for _ in range(2):
        peer.expect(heartbeat_of("g"), HEARTBEAT_V)
        frame = peer.frame(heartbeat_of("g"), HEARTBEAT_V)
        end = 4 + 10 + len("tester")
        body = frame[4:end] + b"\x01\x07\x02ab" + frame[end + 1 :]
        peer.send_bytes(len(body).to_bytes(4, "big") + body)
    assert len(peer.answers()) == 2


def test_header_v0_of_controlled_shutdown() -> None:
    seen: list[tuple[int, str | None]] = []

    @handles(ControlledShutdownRequest, NOTHING)
    async def controlled_shutdown(
        request: ControlledShutdownRequest, context: RequestContext
    ) -> ControlledShutdownResponse:
        seen.append((request.broker_id, context.client_id))
        return ControlledShutdownResponse(error_code=ErrorCode.NONE, remaining_partitions=[])

    peer = Broker([controlled_shutdown]).connect()
    peer.expect(ControlledShutdownRequest(broker_id=7), 0)
    peer.send_bytes(b"".join(encode_request(ControlledShutdownRequest(broker_id=7), 0, 101, None)))
    assert seen == [(7, None)]
    assert len(peer.answers()) == 1


def test_the_context_tells_who_asks(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    closed: list[str] = []
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    (context,) = log.contexts
    assert (context.api_version, context.client_id, context.client_host) == (HEARTBEAT_V, "tester", "10.1.1.1")
    assert (context.listener, context.principal) == ("PLAINTEXT", ANONYMOUS)
    assert context.local_address.port == 9092
    assert context.connection_id.startswith("10.0.0.1:9092-10.1.1.1:5555-")
    context.on_close(lambda: closed.append("gone"))
    peer.disconnect()
    assert closed == ["gone"]


class Counter:
    def __init__(self) -> None:
        self.events: list[tuple[str, int, str | None]] = []

    def began(self, route: Route, size_bytes: int) -> int:
        self.events.append((route.handler.api_name, size_bytes, None))
        return len(self.events)

    def waits(self) -> int:
        return 1

    def answered(self, route: Route, stamp: int, response: Response | None, waiting_since: int = 0) -> None:
        self.events.append((route.handler.api_name, stamp, type(response).__name__))

    def answered_encoded(self, route: Route, stamp: int) -> None:
        self.events.append((route.handler.api_name, stamp, "encoded"))


def test_the_observer_sees_every_request_and_its_answer(log: Log) -> None:
    counter = Counter()
    peer = Broker(log.handlers, observer=counter).connect()
    peer.send(produce_of(b"x", timeout_ms=9), V)
    peer.send(produce_of(b"x", acks=0), V)
    log.finish(0)
    peer.go_on()
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    size = len(peer.frame(produce_of(b"x"), V)) - 4
    assert counter.events[:4] == [
        ("Produce", size, None),
        ("Produce", size, None),
        ("Produce", 2, "NoneType"),
        ("Produce", 1, "ProduceResponse"),
    ]
    assert [event[0] for event in counter.events[4:]] == ["Heartbeat", "Heartbeat"]


def test_connections_share_one_receive_buffer_without_mixing_their_bytes(log: Log) -> None:
    broker = Broker(log.handlers)
    peers = [broker.connect() for _ in range(3)]
    frames = [peer.frame(produce_of(b"%d" % i * 3_000), V) for i, peer in enumerate(peers)]
    for position in range(0, 4_000, 700):
        for peer, frame in zip(peers, frames, strict=True):
            peer.send_bytes(frame[position : position + 700])
    assert sorted(bytes(records) for records in log.records) == [b"%d" % i * 3_000 for i in range(3)]


def test_finishing_answers_what_has_begun_and_starts_nothing_more(log: Log) -> None:
    broker = Broker(log.handlers)
    idle, busy = broker.connect(), broker.connect()
    for wait_ms in (5_000, 5_000):
        busy.send(produce_of(b"x", timeout_ms=wait_ms), V)
    busy.send(heartbeat_of("behind"), HEARTBEAT_V)  # waits for the produces, and now for ever
    broker.acceptor.finish_all("stopping")
    assert idle.stream.is_closed
    assert not busy.stream.is_closed
    log.finish(1)
    busy.go_on()
    assert not busy.stream.is_closed
    log.finish(0)
    busy.go_on()
    assert [base_offset(answer) for answer in busy.answers()] == [0, 1]
    assert busy.stream.is_closed
    assert "heartbeat behind" not in log.started


def test_finishing_hurries_waits() -> None:
    @handles(ProduceRequest, NOTHING)
    def produce(request: ProduceRequest, context: RequestContext) -> Deferred[ProduceResponse]:
        deferred: Deferred[ProduceResponse] = Deferred()
        deferred.on_expedite(lambda: deferred.complete(produced(7)))
        return deferred

    broker = Broker([produce])
    peer = broker.connect()
    peer.send(produce_of(b"x"), V)
    assert peer.answers() == []
    broker.acceptor.finish_all("stopping")
    peer.go_on()
    assert [base_offset(answer) for answer in peer.answers()] == [7]
    assert peer.stream.is_closed
