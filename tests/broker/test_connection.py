from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.connection_shared import ConnectionLimits
from broker.context import CloseConnection, Deferred, RequestContext
from broker.dispatch import Handler, Route, handles
from broker.handlers.api_versions import api_versions
from protocol.errors import ErrorCode
from protocol.header import encode_request
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.schema import Response
from tests.broker.harness import Broker, Peer, settle

V = 9  # of Produce, flexible
HEARTBEAT_V = 4


def produce_of(records: bytes, *, acks: int = -1, timeout_ms: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )


def produced(base_offset: int) -> ProduceResponse:
    row = PartitionProduceResponse(index=0, error_code=ErrorCode.NONE, base_offset=base_offset)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[row])])


def base_offset(response: Response) -> int:
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0].base_offset


def heartbeat_of(group: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="m")


BARRIER_MS = 8  # of a produce that nothing may overtake


class Log:
    """Handlers that record what they got. A produce with timeout_ms=0 answers at once, others when `finish` says so."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.records: list[Any] = []
        self.waiting: list[tuple[int, Deferred[ProduceResponse]]] = []
        self.abandoned: list[int] = []
        self.contexts: list[RequestContext] = []

        @handles(ProduceRequest)
        def produce(
            request: ProduceRequest, context: RequestContext
        ) -> ProduceResponse | Deferred[ProduceResponse] | None:
            number = len(self.records)
            self.started.append(f"produce {number}")
            self.records.append(request.topic_data[0].partition_data[0].records)
            self.contexts.append(context)
            if request.acks == 0:
                return None
            if request.timeout_ms == 0:
                return produced(number)
            deferred: Deferred[ProduceResponse] = Deferred(is_barrier=request.timeout_ms == BARRIER_MS)
            deferred.on_abandon(lambda: self.abandoned.append(number))
            self.waiting.append((number, deferred))
            return deferred

        @handles(HeartbeatRequest)
        async def heartbeat(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
            self.started.append(f"heartbeat {request.group_id}")
            self.contexts.append(context)
            if request.group_id == "close":
                raise CloseConnection("the group wants it")
            if request.group_id == "wait":
                self.gate = asyncio.get_running_loop().create_future()
                await self.gate
            return HeartbeatResponse(error_code=ErrorCode.NONE)

        self.handlers: list[Handler[Any]] = [produce, heartbeat, api_versions]

    def finish(self, number: int) -> None:
        for waiting, deferred in self.waiting:
            if waiting == number:
                deferred.complete(produced(number))


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


def test_other_requests_wait_for_those_before_and_hold_up_those_behind(log: Log) -> None:
    async def main() -> None:
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

    asyncio.run(main())


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


# --- bounds ---


def test_the_budget_is_held_from_the_length_prefix_to_the_answer(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=1_000_000)
    peer = broker.connect()
    frame = peer.frame(produce_of(b"x" * 300_000, timeout_ms=9), V)
    peer.send_bytes(frame[:100])
    assert broker.budget.used_bytes == len(frame) - 4
    peer.send_bytes(frame[100:])
    assert log.started == ["produce 0"]
    assert broker.budget.used_bytes == len(frame) - 4
    log.finish(0)
    peer.go_on()
    assert broker.budget.used_bytes == 0


def test_who_finds_the_budget_short_reads_no_further_until_there_is_room(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=500_000)
    holder, waiter, bystander = (broker.connect() for _ in range(3))
    holder.send(produce_of(b"h" * 400_000, timeout_ms=9), V)
    waiter.send(produce_of(b"w" * 300_000), V)
    assert log.started == ["produce 0"]
    assert not waiter.stream.is_reading
    assert waiter.unsent_bytes > 200_000
    bystander.send(heartbeat_of("g"), HEARTBEAT_V)  # needs no place of its own
    assert len(bystander.answers()) == 1
    log.finish(0)
    broker.turns.run()
    waiter.go_on()
    assert [bytes(records[:1]) for records in log.records] == [b"h", b"w"]
    assert len(waiter.answers()) == 1
    assert broker.budget.used_bytes == 0


def test_small_produces_wait_for_the_budget_too_and_keep_their_order(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=100_000)
    holder, waiter = broker.connect(), broker.connect()
    holder.send(produce_of(b"h" * 99_000, timeout_ms=9), V)
    for i in range(3):
        waiter.send(produce_of(b"%d" % i * 5_000), V)
    assert len(log.records) == 1
    log.finish(0)
    broker.turns.run()
    waiter.go_on()
    assert [bytes(records[:1]) for records in log.records] == [b"h", b"0", b"1", b"2"]
    assert len(waiter.answers()) == 3
    assert broker.budget.used_bytes == 0


def test_a_frame_larger_than_the_budget_is_read_alone(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=100_000)
    holder, giant = broker.connect(), broker.connect()
    holder.send(produce_of(b"h" * 1_000, timeout_ms=9), V)
    giant.send(produce_of(b"g" * 2_000_000), V)
    assert len(log.records) == 1
    log.finish(0)
    broker.turns.run()
    giant.go_on()
    assert len(giant.answers()) == 1
    assert broker.budget.used_bytes == 0


@pytest.mark.parametrize("when", ["waiting for the budget", "in the middle of a frame", "in flight", "granted"])
def test_a_client_that_leaves_gives_its_bytes_back(log: Log, when: str) -> None:
    broker = Broker(log.handlers, budget_bytes=500_000)
    holder, peer = broker.connect(), broker.connect()
    frame = peer.frame(produce_of(b"x" * 300_000, timeout_ms=9), V)
    if when in ("waiting for the budget", "granted"):
        holder.send(produce_of(b"h" * 400_000, timeout_ms=9), V)
    peer.send_bytes(frame if when == "in flight" else frame[:1000])
    if when == "granted":
        log.finish(0)
        broker.turns.run()
    peer.disconnect()
    holder.disconnect()
    assert broker.budget.used_bytes == 0
    assert broker.budget.waiting_count == 0
    assert len(broker.acceptor) == 0


def test_a_slow_reader_is_not_read_from(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    peer.handler.writing_paused()
    assert not peer.stream.is_reading
    peer.send(produce_of(b"x"), V)
    assert log.started == []
    peer.handler.writing_resumed()
    peer.go_on()
    assert log.started == ["produce 0"]
    assert peer.stream.is_reading


def test_a_muted_connection_waits_for_its_time(log: Log) -> None:
    broker = Broker(log.handlers)
    peer = broker.connect()
    peer.handler.mute(500)
    peer.send(produce_of(b"x"), V)
    broker.turns.advance(499)
    assert log.started == []
    broker.turns.advance(1)
    peer.go_on()
    assert log.started == ["produce 0"]


def test_a_mapped_frame_costs_no_memory_before_its_bytes_come(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=200 << 20)
    peer = broker.connect()
    frame = peer.frame(produce_of(b"x" * 6_000_000), V)
    before = _resident_bytes()
    others = [broker.connect() for _ in range(10)]
    for other in others:
        other.send_bytes((90 << 20).to_bytes(4, "big") + frame[4:100])
        broker.budget.used_bytes = 0  # or only one would be let in
    assert _resident_bytes() - before < 50 << 20
    for other in others:
        other.stream.is_closed = True
    broker.budget.used_bytes = 10 * (90 << 20)
    for other in others:
        other.disconnect()


def _resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


# --- who is not welcome ---


def closed_with(caplog: pytest.LogCaptureFixture, peer: Peer) -> str:
    assert peer.stream.is_closed
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "client=10.1.1.1:5555 listener=PLAINTEXT" in lines[0]
    return lines[0]


UNKNOWN_API = b"\0\0\0\x10\x03\xe7\0\0\0\0\0\1\0\1x\0\0\0\0\0"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"),
        (b"POST", "HTTP"),
        (bytes.fromhex("16030100c8010000c40303aabbcc"), "TLS handshake came to a PLAINTEXT listener"),
        (bytes.fromhex("160303ff"), "TLS"),
        ((200 << 20).to_bytes(4, "big") + bytes(10), "209715200 bytes"),
        (b"\xff\xff\xff\xff" + bytes(10), "-1 bytes"),
        (bytes(14), "0 bytes"),
        (bytes(4), "0 bytes"),
        (UNKNOWN_API, "API key 999 version 0 is not served"),
    ],
)
@pytest.mark.parametrize("piece_bytes", [1, 1000])
def test_strangers_are_closed_with_one_line(
    log: Log, caplog: pytest.LogCaptureFixture, data: bytes, reason: str, piece_bytes: int
) -> None:
    peer = Broker(log.handlers).connect()
    with caplog.at_level(logging.INFO):
        peer.send_bytes(data + bytes(100), piece_bytes)
    assert reason in closed_with(caplog, peer)
    assert log.started == []


def test_a_version_that_is_not_served_closes(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    peer = Broker(log.handlers).connect()
    peer.send_bytes(b"\0\0\0\x10\0\x0c\0\x63\0\0\0\1\0\1x\0\0\0\0\0")
    assert "Heartbeat version 99 is not served" in closed_with(caplog, peer)


@pytest.mark.parametrize("records_bytes", [100, 100_000])
def test_malformed_requests_close_and_hold_nothing(
    log: Log, caplog: pytest.LogCaptureFixture, records_bytes: int
) -> None:
    broker = Broker(log.handlers)
    peer = broker.connect()
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    frame = bytearray(peer.frame(produce_of(b"x" * records_bytes), V))
    frame[30:34] = b"\xff\xff\xff\xff"
    peer.send_bytes(bytes(frame))
    peer.send_bytes(bytes(100))
    assert "malformed Produce version 9" in closed_with(caplog, peer)
    assert len(peer.answers()) == 1  # the one before it
    assert broker.budget.used_bytes == 0


def test_spare_bytes_behind_a_request_are_ignored(log: Log) -> None:
    peer = Broker(log.handlers).connect()
    peer.expect(heartbeat_of("g"), HEARTBEAT_V)
    frame = peer.frame(heartbeat_of("g"), HEARTBEAT_V)
    peer.send_bytes((len(frame) - 4 + 3).to_bytes(4, "big") + frame[4:] + b"abc")
    peer.send(heartbeat_of("h"), HEARTBEAT_V)
    assert len(peer.answers()) == 2


def test_only_records_may_be_large(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    limits = ConnectionLimits(max_frame_bytes=50_000, max_plain_bytes=2_000)
    broker = Broker(log.handlers, limits=limits)
    producer, member = broker.connect(), broker.connect()
    producer.send(produce_of(b"x" * 40_000), V)
    assert len(producer.answers()) == 1
    member.send(heartbeat_of("g" * 3_000), HEARTBEAT_V)
    assert "malformed or too large" in closed_with(caplog, member)


def test_a_handler_may_close_the_connection_after_earlier_answers(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    peer = Broker(log.handlers).connect()
    peer.send_bytes(b"")
    first, second, third = heartbeat_of("g"), heartbeat_of("close"), heartbeat_of("never")
    peer.expect(first, HEARTBEAT_V)
    peer.send_bytes(b"".join(peer.frame(one, HEARTBEAT_V) for one in (first, second, third)))
    assert "the group wants it" in closed_with(caplog, peer)
    assert len(peer.answers()) == 1
    assert log.started == ["heartbeat g", "heartbeat close"]


# --- headers and versions ---


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

    @handles(ControlledShutdownRequest)
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
    assert (context.listener, context.principal) == ("PLAINTEXT", "User:ANONYMOUS")
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

    def answered(self, route: Route, stamp: int, response: Response | None) -> None:
        self.events.append((route.handler.api_name, stamp, type(response).__name__))


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


def test_an_answer_that_cannot_be_encoded_closes(caplog: pytest.LogCaptureFixture) -> None:
    @handles(HeartbeatRequest)
    async def heartbeat(_: HeartbeatRequest, __: RequestContext) -> HeartbeatResponse:
        return HeartbeatResponse(error_code="none")  # type: ignore[arg-type]

    peer = Broker([heartbeat]).connect()
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    assert peer.stream.is_closed
    assert "cannot be encoded" in caplog.text


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
    @handles(ProduceRequest)
    def produce(request: ProduceRequest, context: RequestContext) -> Deferred[ProduceResponse]:
        deferred: Deferred[ProduceResponse] = Deferred()
        deferred.on_hurry(lambda: deferred.complete(produced(7)))
        return deferred

    broker = Broker([produce])
    peer = broker.connect()
    peer.send(produce_of(b"x"), V)
    assert peer.answers() == []
    broker.acceptor.finish_all("stopping")
    peer.go_on()
    assert [base_offset(answer) for answer in peer.answers()] == [7]
    assert peer.stream.is_closed


def large_answers(size: int) -> Handler[Any]:
    @handles(ProduceRequest)
    def produce(request: ProduceRequest, context: RequestContext) -> ProduceResponse:
        answer = produced(0)
        answer.responses[0].partition_responses[0].error_message = "x" * size
        return answer

    return produce


def test_answers_are_held_until_they_are_sent() -> None:
    broker = Broker([large_answers(10_000)], answers_bytes=15_000)
    peer = broker.connect()
    peer.stream.unsent = 10_100
    peer.send(produce_of(b"x"), V)
    held = broker.answers.budget.used_bytes
    assert held > 10_000
    assert broker.answers.room() < 2_500
    peer.stream.unsent = 0
    assert broker.answers.room() == 7_500
    assert broker.answers.budget.used_bytes == 0


def test_small_answers_are_not_counted(log: Log) -> None:
    broker = Broker(log.handlers)
    peer = broker.connect()
    peer.send(produce_of(b"x"), V)
    assert broker.answers.budget.used_bytes == 0


def test_who_pipelines_and_takes_nothing_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker([large_answers(10_000)], answers_bytes=15_000)
    peer, other = broker.connect(), broker.connect()
    peer.stream.unsent = 1 << 30
    for _ in range(4):
        peer.send(produce_of(b"x"), V)
    assert peer.stream.is_aborted
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    other.send(produce_of(b"x"), V)
    assert other.answers() == [], "nothing starts while it is not gone"
    peer.disconnect()
    broker.turns.advance(5)
    assert len(other.answers()) == 1


def test_a_request_behind_another_costs_memory(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=20_000)
    peer = broker.connect()
    for _ in range(10):
        peer.send(produce_of(b"x", timeout_ms=1), V)
    assert len(log.started) < 8
    for number in range(10):
        log.finish(number)
        peer.go_on()
    assert [base_offset(answer) for answer in peer.answers()] == list(range(10))
    assert broker.budget.used_bytes == 0
