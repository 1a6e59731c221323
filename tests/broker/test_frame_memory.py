"""Large frames that come slowly, or not at all: what they hold while they come, and who waits for them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network.connections.acceptor import BROKER_WAIT_MS, LONGEST_SWEEP_PERIOD_MS, STALLED_SWEEPS
from broker.network.memory_budget import SMALL_REQUEST_BYTES, FrameReservation, MemoryBudget
from broker.network.requests.large_frame import LargeFrame
from tests.broker.harness import Broker, Peer
from tests.broker.recorded_requests import HEARTBEAT_V, Log, V, heartbeat_of, produce_of

STEP = SMALL_REQUEST_BYTES
LIMIT = 1 << 20


@pytest.fixture
def log() -> Log:
    return Log()


class Sender:
    """Sends one Produce piece by piece."""

    def __init__(self, broker: Broker, size: int, host: str = "10.1.1.1") -> None:
        self.peer = broker.connect(host)
        request = produce_of(b"x" * size)
        self.peer.expect(request, V)
        self.frame = self.peer.frame(request, V)
        self.sent = 0

    @property
    def has_all_sent(self) -> bool:
        return self.sent == len(self.frame)

    @property
    def is_closed(self) -> bool:
        return self.peer.stream.is_closed

    def send(self, count: int) -> None:
        """As much of `count` as the connection takes."""
        before = self.peer.unsent_bytes
        piece = self.frame[self.sent + before : self.sent + before + count - before]
        self.peer.send_bytes(piece)
        self.sent += before + len(piece) - self.peer.unsent_bytes


def is_answered(peer: Peer, records: bytes) -> bool:
    peer.send(produce_of(records), V)
    peer.go_on()
    return len(peer.answers()) == 1


def held_bytes(broker: Broker) -> int:
    return broker.budget.used_bytes + broker.budget.outside_bytes


# --- the reservation alone ---


def test_a_frame_is_reserved_whole_while_few_are_coming() -> None:
    budget = MemoryBudget(LIMIT)
    frames = [FrameReservation(budget, LIMIT // 4, STEP) for _ in range(4)]
    assert all(frame.take() for frame in frames)
    assert [frame.granted_bytes for frame in frames] == [LIMIT // 4] * 2 + [STEP] * 2
    frames[0].complete()
    more = FrameReservation(budget, LIMIT // 8, STEP)
    assert more.take()
    assert more.granted_bytes == LIMIT // 8
    for frame in (*frames[1:], more):
        frame.drop()
    assert (budget.used_bytes, budget.receiving_bytes, budget.ahead_bytes) == (LIMIT // 4, 0, 0)


def test_beyond_that_a_step_is_as_large_as_what_has_come() -> None:
    budget = MemoryBudget(LIMIT)
    frame = FrameReservation(budget, LIMIT - 1, STEP)
    granted = []
    while frame.granted_bytes < frame.size_bytes:
        assert frame.take()
        granted.append(frame.granted_bytes // STEP)
    assert granted == [1, 2, 4, 8, 12, 15], "the share of frames, and the rest outside the limit"
    frame.complete()
    assert budget.used_bytes == LIMIT - 1


def test_who_has_begun_goes_before_who_has_not() -> None:
    budget = MemoryBudget(4 * STEP)
    told: list[str] = []
    begun, new = (FrameReservation(budget, 3 * STEP, STEP) for _ in range(2))
    assert begun.take()
    assert budget.reserve(3 * STEP)
    assert not new.take()
    new.wait(lambda: told.append("new"))
    assert not begun.take()
    begun.wait(lambda: told.append("begun"))
    budget.release(STEP)
    assert told == ["begun"]
    budget.release(STEP)
    assert told == ["begun", "new"]
    assert (begun.granted_bytes, new.granted_bytes) == (2 * STEP, STEP)


def test_a_frame_that_is_there_leaves_its_share_to_those_that_wait() -> None:
    """Its request may wait for replicas, and gives its memory back much later."""
    budget = MemoryBudget(16 * STEP)
    told: list[str] = []
    whole, outside, waiting = (FrameReservation(budget, size * STEP, STEP) for size in (8, 9, 9))
    assert whole.take()
    for frame in (outside, waiting):
        while frame.granted_bytes < 4 * STEP:
            assert frame.take()
        if frame is outside:
            assert frame.take() and budget.outside_bytes == 9 * STEP
    assert not waiting.take(), "frames have three quarters of the limit, and one is outside"
    waiting.wait(lambda: told.append("waiting"))
    whole.complete()
    assert told == ["waiting"]
    assert budget.used_bytes + budget.outside_bytes <= budget.limit_bytes + outside.size_bytes


def test_when_frames_have_used_up_their_share_one_goes_on_outside_the_limit() -> None:
    budget = MemoryBudget(4 * STEP)
    told: list[int] = []
    frames = [FrameReservation(budget, 3 * STEP, STEP) for _ in range(3)]
    for frame in frames:
        assert frame.take()
    assert frames[1].take()
    assert budget.outside_bytes == frames[1].granted_bytes == frames[1].size_bytes
    assert frames[0].take(), "the room that it left"
    for number in (2, 0):
        frame = frames[number]
        assert not frame.take()
        frame.wait(lambda number=number: told.append(number))  # type: ignore[misc]
    frames[1].complete()
    assert (budget.outside_bytes, budget.used_bytes) == (0, 6 * STEP)
    budget.release(STEP)
    assert told == [], "it is over the limit yet"
    budget.release(2 * STEP)
    assert told == [2, 0], "one outside, and one in the room that it left"
    assert budget.outside_bytes == frames[2].size_bytes
    assert budget.used_bytes == frames[0].granted_bytes == 3 * STEP


def test_frames_leave_room_for_requests_that_are_there_and_these_for_frames_that_wait() -> None:
    budget = MemoryBudget(8 * STEP)
    frames = [FrameReservation(budget, 9 * STEP, STEP) for _ in range(2)]
    for frame in frames:
        while frame.take():
            pass
    assert (budget.outside_bytes, budget.receiving_bytes) == (9 * STEP, 6 * STEP)
    assert budget.reserve(2 * STEP)
    told: list[str] = []
    frames[1].wait(lambda: told.append("frame"))
    budget.reserve_later(STEP, lambda: told.append("request"))
    budget.release(STEP)
    assert told == ["request"], "frames have their share"
    frames[0].drop()
    assert told == ["request", "frame"]
    assert (budget.outside_bytes, budget.used_bytes) == (9 * STEP, 2 * STEP)
    assert budget.reserve(6 * STEP)
    waiting = FrameReservation(budget, STEP, STEP)
    assert not waiting.take()
    waiting.wait(lambda: told.append("new"))
    budget.release(STEP // 2)
    assert not budget.has_room(STEP // 2), "the frame would never have room"
    budget.release(STEP // 2)
    assert told[2:] == ["new"]


def test_of_frames_the_one_that_holds_most_goes_outside_for_a_new_one() -> None:
    budget = MemoryBudget(4 * STEP)
    small, large = (FrameReservation(budget, size, STEP) for size in (STEP, 9 * STEP))
    while budget.used_bytes < 3 * STEP:
        assert large.take()
    assert small.take()
    assert budget.outside_bytes == large.size_bytes == large.granted_bytes
    assert budget.reserve(3 * STEP)
    assert not budget.has_room(1)
    large.drop()
    small.drop()
    assert (budget.used_bytes, budget.outside_bytes) == (3 * STEP, 0)


# --- connections ---


def test_a_dripping_sender_of_a_frame_larger_than_the_limit_stops_nobody(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=LIMIT)
    slow = Sender(broker, 3 * LIMIT, "10.1.1.9")
    small, large = broker.connect(), broker.connect()
    slow.send(100)
    for _ in range(500):
        broker.turns.advance(LONGEST_SWEEP_PERIOD_MS - 1)
        slow.send(1)
        assert is_answered(small, b"s" * 100)
        assert is_answered(large, b"l" * (LIMIT // 2))
    assert not slow.is_closed, "nobody was harmed"


def test_length_prefixes_alone_hold_half_of_the_memory_at_most(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=LIMIT)
    senders = [Sender(broker, LIMIT // 4) for _ in range(8)]
    for sender in senders:
        sender.send(100)
    assert broker.budget.used_bytes < LIMIT
    peer = broker.connect()
    assert is_answered(peer, b"s" * 100)
    assert is_answered(peer, b"l" * (LIMIT // 4))
    for sender in senders:
        sender.peer.disconnect()
    assert (broker.budget.used_bytes, broker.budget.ahead_bytes, broker.budget.receiving_bytes) == (0, 0, 0)


def test_a_slow_frame_beyond_the_limit_harms_nobody_and_arrives(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=LIMIT)
    slow, small = Sender(broker, 2 * LIMIT), broker.connect()
    while not slow.has_all_sent:
        slow.send(LIMIT // 16)
        broker.turns.advance(LONGEST_SWEEP_PERIOD_MS)
        assert slow.has_all_sent or is_answered(small, b"s" * 50_000)
        assert held_bytes(broker) <= LIMIT + len(slow.frame)
    assert len(slow.peer.answers()) == 1
    assert held_bytes(broker) == 0


@given(st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_frames_that_fill_the_memory_together_all_arrive(seed: int) -> None:
    """Whatever the pieces and their order, one always goes on, and memory stays bounded."""
    rng = random.Random(seed)
    log = Log()
    limit = 400_000
    broker = Broker(log.handlers, budget_bytes=limit)
    senders = [Sender(broker, rng.choice([100, 30_000, 100_000, 200_000, 390_000, 900_000])) for _ in range(12)]
    gone = 0
    while unfinished := [sender for sender in senders if not sender.has_all_sent]:
        before = sum(sender.sent for sender in senders)
        for sender in rng.sample(unfinished, len(unfinished)):
            sender.send(rng.choice([1_000, 20_000, 100_000, 1_000_000]))
            assert held_bytes(broker) <= limit + 1_000_000
        leaving = rng.choice(unfinished)
        if rng.random() < 0.02 and not leaving.has_all_sent:
            senders.remove(leaving)
            leaving.peer.disconnect()
            gone += 1
        else:
            assert sum(sender.sent for sender in senders) > before, "none goes on"
    assert len(log.started) == len(senders) == 12 - gone
    budget = broker.budget
    assert (budget.used_bytes, budget.outside_bytes, budget.receiving_bytes, budget.ahead_bytes) == (0, 0, 0, 0)
    assert budget.waiting_count == 0


# --- who is too slow while others wait ---


def test_who_drips_while_others_wait_long_is_closed(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=LIMIT)
    dripper, second = (Sender(broker, 8 * LIMIT) for _ in range(2))
    dripper.send(LIMIT)  # outside the limit
    second.send(3 * LIMIT)  # takes what frames may have
    large, small = broker.connect(), broker.connect()
    large.send(produce_of(b"w" * (LIMIT // 4)), V)
    for sweep in range(STALLED_SWEEPS + 2):
        assert dripper.is_closed == (sweep > STALLED_SWEEPS)
        assert large.answers() == []
        assert is_answered(small, b"s" * 50_000)
        broker.turns.advance(LONGEST_SWEEP_PERIOD_MS)
        dripper.send(1)
    dripper.peer.disconnect()
    large.go_on()
    assert len(large.answers()) == 1
    assert not second.is_closed, "it waited itself"


def test_who_is_slow_but_there_before_its_client_gives_up_is_not_closed(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=LIMIT)
    holder, slow, waiter = broker.connect(), Sender(broker, LIMIT // 2 - 1000), broker.connect()
    holder.send(produce_of(b"h" * (LIMIT // 2 - 1000), timeout_ms=9), V)  # not slow, but long
    slow.send(len(slow.frame) // 8)
    waiter.send(produce_of(b"w" * 50_000), V)
    for _ in range(BROKER_WAIT_MS // LONGEST_SWEEP_PERIOD_MS - 1):
        broker.turns.advance(LONGEST_SWEEP_PERIOD_MS)
        slow.send(len(slow.frame) // 7)
    assert waiter.answers() == []
    assert not slow.is_closed
    slow.send(len(slow.frame))
    waiter.go_on()
    assert (len(slow.peer.answers()), len(waiter.answers())) == (1, 1)


def test_a_frame_that_waits_in_line_itself_is_not_the_slow_one(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=LIMIT)
    holder, waiting = broker.connect(), Sender(broker, LIMIT // 2)
    holder.send(produce_of(b"h" * (LIMIT - 100_000), timeout_ms=9), V)
    waiting.send(len(waiting.frame))
    assert 0 < waiting.sent < len(waiting.frame)
    broker.turns.advance(2 * BROKER_WAIT_MS)
    assert not waiting.is_closed
    others = [broker.connect() for _ in range(2)]
    others[0].send(produce_of(b"o" * (LIMIT - 150_000), timeout_ms=9), V)
    log.finish(0)
    broker.turns.run()
    others[0].go_on()
    others[1].send(produce_of(b"o" * 60_000), V)
    broker.turns.advance(LONGEST_SWEEP_PERIOD_MS)
    assert broker.budget.waiting_count
    assert not waiting.is_closed, "it was not the client that was quiet"
    waiting.peer.go_on()
    log.finish(1)
    broker.turns.run()
    waiting.peer.go_on()
    assert len(waiting.peer.answers()) == 1


def test_pace_counts_whole_ticks_without_those_in_line() -> None:
    reservation = FrameReservation(MemoryBudget(LIMIT), 100_000, STEP)
    assert reservation.take()
    frame = LargeFrame(reservation, memoryview(bytes(50_000)), 10)
    assert [frame.is_slow(tick, 2, 4) for tick in (12, 13, 14)] == [False, False, True]
    assert not frame.is_slow(14, 4, 4), "it has not been coming for long"
    frame.waited(5)
    assert [frame.is_slow(tick, 2, 4) for tick in (18, 19)] == [False, True]


def test_heartbeats_pass_while_producers_wait_for_memory(log: Log) -> None:
    broker = Broker(log.handlers, budget_bytes=LIMIT)
    holder, waiter, member = broker.connect(), broker.connect(), broker.connect()
    holder.send(produce_of(b"h" * LIMIT, timeout_ms=9), V)
    waiter.send(produce_of(b"w" * 100), V)
    member.send(heartbeat_of("g"), HEARTBEAT_V)
    assert (len(waiter.answers()), len(member.answers())) == (0, 1)
