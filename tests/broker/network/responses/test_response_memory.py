from __future__ import annotations

from broker.network.memory_budget import MemoryBudget
from broker.network.responses.response_memory import QUEUE_PERIOD_MS, QUEUE_PERIODS, BufferedResponses, ResponseMemory
from runtime.timer import Timer
from tests.doubles.clock import ManualClock, Turns

LIMIT = 100_000


class Peer:
    def __init__(self, world: World) -> None:
        self.unsent_bytes = 0
        self.disconnect_reason = ""
        self.held = BufferedResponses(world.memory, self)

    def disconnect(self, reason: str) -> None:
        self.disconnect_reason = reason

    def answer(self, size: int) -> None:
        """Encode an answer and write it; nothing of it is sent."""
        self.held.add(size)
        self.unsent_bytes += size
        self.held.wrote(size, size)


class World:
    def __init__(self) -> None:
        clock = ManualClock(1_000)
        self.turns = Turns(clock)
        self.budget = MemoryBudget(LIMIT)
        self.memory = ResponseMemory(self.budget, Timer(clock, self.turns.call_later))

    def pass_periods(self, count: int) -> None:
        self.turns.advance(QUEUE_PERIOD_MS * count)


def test_a_fetch_gets_half_of_what_is_left() -> None:
    world = World()
    assert world.memory.room() == 50_000
    Peer(world).answer(60_000)
    assert world.memory.room() == 20_000


def test_what_was_sent_is_released_when_memory_is_short() -> None:
    world = World()
    peer = Peer(world)
    peer.answer(40_000)
    peer.answer(30_000)
    peer.unsent_bytes = 30_001  # a byte of the first write is there, so all of it is
    assert world.memory.room() == 15_000
    peer.unsent_bytes = 30_000
    assert world.memory.room() == 35_000
    peer.unsent_bytes = 0
    peer.held.trim()
    assert world.budget.used_bytes == 0


def test_a_connection_that_goes_releases_everything() -> None:
    world = World()
    peer = Peer(world)
    peer.answer(40_000)
    peer.held.add(10_000)  # encoded and not written
    peer.held.drop()
    peer.held.drop()
    assert world.budget.used_bytes == 0


def test_the_line_is_served_when_there_is_room() -> None:
    world = World()
    peer = Peer(world)
    peer.answer(LIMIT)
    assert world.memory.room() == 0
    served: list[int] = []
    for number in range(3):
        world.memory.wait(lambda number=number: served.append(number))  # type: ignore[misc]
    world.pass_periods(2)
    assert served == []
    peer.unsent_bytes = 0
    world.pass_periods(2)
    assert served == [0, 1, 2]


def test_the_line_waits_no_longer_than_so_long() -> None:
    world = World()
    Peer(world).answer(LIMIT)
    served: list[str] = []
    world.memory.wait(lambda: served.append("a"))
    ticket = world.memory.wait(lambda: served.append("gone"))
    world.memory.leave_queue(ticket)
    world.pass_periods(QUEUE_PERIODS - 1)
    assert served == []
    world.pass_periods(2)
    assert served == ["a"]


def test_who_takes_nothing_is_cut_off_first() -> None:
    world = World()
    stuck, moving, newest = Peer(world), Peer(world), Peer(world)
    moving.answer(40_000)
    stuck.answer(80_000)
    moving.answer(50_000)
    moving.unsent_bytes = 50_000
    moving.held.trim()  # it took something since
    newest.answer(90_000)
    assert stuck.disconnect_reason
    assert not moving.disconnect_reason
    assert not newest.disconnect_reason
    assert world.memory.closing_bytes == 80_000
    assert world.budget.used_bytes == 220_000  # until it is really gone
    stuck.held.drop()
    assert world.memory.closing_bytes == 0
    assert world.budget.used_bytes == 140_000


def test_one_answer_may_be_as_large_as_it_is_and_a_second_may_not() -> None:
    world = World()
    peer = Peer(world)
    peer.answer(5 * LIMIT)
    assert not peer.disconnect_reason
    peer.held.add(1_000)
    assert peer.disconnect_reason


def test_nobody_is_served_over_the_limit_while_cut_off_connections_leave() -> None:
    world = World()
    stuck = Peer(world)
    stuck.answer(150_000)
    Peer(world).answer(60_000)
    assert stuck.disconnect_reason
    served: list[int] = []
    world.memory.wait(lambda: served.append(1))
    world.pass_periods(QUEUE_PERIODS * 2)
    assert served == []
    stuck.held.drop()
    world.pass_periods(2)
    assert served == [1]
