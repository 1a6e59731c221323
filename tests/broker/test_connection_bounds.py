"""Connections: what their requests and answers may cost, and who waits then."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from broker.network.connections.connection_shared import RECEIVE_BUFFER_BYTES
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.deferred import Deferred
from broker.network.routes import Handler
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.produce import ProduceRequest, ProduceResponse
from security.access import NOTHING
from tests.broker.harness import Broker
from tests.broker.recorded_requests import HEARTBEAT_V, Log, V, base_offset, heartbeat_of, produce_of, produced


@pytest.fixture
def log() -> Log:
    return Log()


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


def test_of_frames_larger_than_the_budget_one_is_received_at_a_time(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=400_000)
    holder, *giants = (broker.connect() for _ in range(3))
    holder.send(produce_of(b"h" * 1_000, timeout_ms=9), V)
    for giant in giants:
        giant.send(produce_of(b"g" * 2_000_000, timeout_ms=9), V)
    assert len(log.records) == 2
    assert giants[1].unsent_bytes > 1_000_000
    log.finish(1)
    broker.turns.run()
    giants[1].go_on()
    assert len(log.records) == 3
    log.finish(2)
    log.finish(0)
    broker.turns.run()
    assert [len(peer.answers()) for peer in (holder, *giants)] == [1, 1, 1]
    assert broker.budget.used_bytes == broker.budget.outside_bytes == 0


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
    peer.handler.life.mute(500)
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
    assert _resident_bytes() - before < 50 << 20
    assert all(other.stream.is_reading for other in others)
    for other in others:
        other.disconnect()
    assert broker.budget.used_bytes == 0


def _resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def large_answers(size: int) -> Handler[Any]:
    @handles(ProduceRequest, NOTHING)
    def produce(request: ProduceRequest, context: RequestContext) -> ProduceResponse:
        answer = produced(0)
        answer.responses[0].partition_responses[0].error_message = "x" * size
        return answer

    return produce


def test_answers_are_held_until_they_are_sent() -> None:
    broker = Broker([large_answers(10_000)], response_bytes=15_000)
    peer = broker.connect()
    peer.stream.unsent = 10_100
    peer.send(produce_of(b"x"), V)
    held = broker.response_memory.budget.used_bytes
    assert held > 10_000
    assert broker.response_memory.room() < 2_500
    peer.stream.unsent = 0
    assert broker.response_memory.room() == 7_500
    assert broker.response_memory.budget.used_bytes == 0


def test_small_answers_are_not_counted(log: Log) -> None:
    broker = Broker(log.handlers)
    peer = broker.connect()
    peer.send(produce_of(b"x"), V)
    assert broker.response_memory.budget.used_bytes == 0


def test_who_pipelines_and_takes_nothing_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker([large_answers(10_000)], response_bytes=15_000)
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


FETCH_V = 11


def fetch_of(partitions: int) -> FetchRequest:
    rows = [
        FetchPartition(
            partition=number, current_leader_epoch=-1, fetch_offset=0, log_start_offset=-1, partition_max_bytes=1 << 20
        )
        for number in range(partitions)
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=rows)],
        forgotten_topics_data=[],
        rack_id="",
    )


class LongPolls:
    """A handler of Fetch that answers when it is told to, oldest first."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[FetchResponse]] = []

        @handles(FetchRequest, NOTHING)
        def fetch(request: FetchRequest, context: RequestContext) -> Deferred[FetchResponse]:
            self.waiting.append(Deferred())
            return self.waiting[-1]

        self.handler: Handler[Any] = fetch

    def answer_one(self) -> None:
        self.waiting.pop(0).complete(FetchResponse(error_code=0, session_id=0, responses=[]))


@pytest.mark.parametrize("partitions", [160, 1000], ids=["received in place", "received apart"])
def test_consumers_that_wait_do_not_keep_a_large_produce_out(log: Log, partitions: int) -> None:
    polls = LongPolls()
    broker = Broker([*log.handlers, polls.handler], budget_bytes=300_000)
    first, second, giant, small = (broker.connect() for _ in range(4))
    request = fetch_of(partitions)
    for consumer in (first, second):  # in pieces, as from a network
        consumer.expect(request, FETCH_V)
        consumer.send_bytes(consumer.frame(request, FETCH_V), piece_bytes=10_000)
    giant.send(produce_of(b"g" * 400_000), V)
    small.send(produce_of(b"s" * 100), V)
    for consumer in (first, second) * 3:  # one of them always waits
        polls.answer_one()
        consumer.go_on()
        assert len(consumer.answers()) == 1
        consumer.send(request, FETCH_V)
        giant.go_on()
        small.go_on()
    assert [bytes(records[:1]) for records in log.records] == [b"g", b"s"]

    def waiting_bytes() -> int:
        return broker.plain_budget.parked_bytes + broker.plain_budget.used_bytes

    assert (broker.budget.used_bytes, waiting_bytes()) == (0, 2 * len(first.frame(request, FETCH_V)) - 8)
    polls.answer_one()
    first.go_on()
    assert waiting_bytes() == len(first.frame(request, FETCH_V)) - 4
    second.disconnect()
    assert waiting_bytes() == 0


def test_many_consumers_that_wait_keep_no_producer_out(log: Log) -> None:
    polls = LongPolls()
    broker = Broker([*log.handlers, polls.handler], budget_bytes=100_000)
    for _ in range(20):
        broker.connect().send(fetch_of(400), FETCH_V)
    assert broker.plain_budget.parked_bytes > 2 * broker.plain_budget.limit_bytes
    producer = broker.connect()
    for _ in range(3):
        producer.send(produce_of(b"p" * 20_000, timeout_ms=1), V)
    assert len(log.records) == 3, "they overlap as ever"


def test_requests_without_records_that_are_large_and_wait_are_bounded_and_keep_no_others_out(log: Log) -> None:
    polls = LongPolls()
    broker = Broker([*log.handlers, polls.handler], budget_bytes=400_000)
    consumers = [broker.connect() for _ in range(12)]
    request = fetch_of(3_000)
    frame_bytes = len(consumers[0].frame(request, FETCH_V)) - 4
    assert RECEIVE_BUFFER_BYTES < frame_bytes < 100_000
    for consumer in consumers:
        consumer.send(request, FETCH_V)
    assert len(polls.waiting) == 400_000 // frame_bytes
    assert (broker.budget.used_bytes, broker.budget.parked_bytes) == (0, 0)
    assert broker.plain_budget.used_bytes == len(polls.waiting) * frame_bytes
    producer, small = broker.connect(), broker.connect()
    producer.send(produce_of(b"p" * 300_000), V)
    small.send(fetch_of(1), FETCH_V)
    small.send(produce_of(b"s"), V)
    assert len(producer.answers()) == 1
    assert len(log.records) == 2
    while polls.waiting:
        polls.answer_one()
        for consumer in consumers:
            consumer.go_on()
    assert sum(len(consumer.answers()) for consumer in consumers) == len(consumers)
    assert (broker.plain_budget.used_bytes, broker.budget.used_bytes, broker.budget.parked_bytes) == (0, 0, 0)


def test_a_fetch_behind_others_waits_when_too_much_is_parked(log: Log) -> None:
    polls = LongPolls()
    broker = Broker([*log.handlers, polls.handler], budget_bytes=20_000)
    peer = broker.connect()
    for _ in range(10):
        peer.send(fetch_of(1), FETCH_V)
    assert 1 < len(polls.waiting) < 8
    for _ in range(10):
        polls.answer_one()
        peer.go_on()
    assert len(peer.answers()) == 10
    assert broker.plain_budget.parked_bytes == 0
