"""The line of those who read old records, when their bytes a second are limited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker.cold_reads import ColdReads, Turn
from runtime.timer import Timer
from tests.broker.harness import FakeClock, Turns

RATE = 1_000_000
SECOND_MS = 1000


class World:
    """`come`: the turns that have come, in their order."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.turns = Turns(clock)
        self.cold_reads = ColdReads(RATE, Timer(clock, self.turns.call_later), clock)
        self.come: list[Turn] = []
        self._waits: list[asyncio.Task[None]] = []

    def ask(self, most_bytes: int) -> Turn:
        turn = self.cold_reads.ask(most_bytes)
        self._waits.append(asyncio.get_running_loop().create_task(self._wait(turn)))
        return turn

    async def _wait(self, turn: Turn) -> None:
        if await turn.wait():
            self.come.append(turn)

    async def pass_ms(self, duration_ms: int) -> None:
        self.turns.advance(duration_ms)
        for _ in range(3):
            await asyncio.sleep(0)


def play(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        await scenario(world)
        assert all(wait.done() for wait in world._waits), "somebody waits for ever"

    asyncio.run(run())


def test_the_first_does_not_wait_and_the_next_waits_for_what_it_has_read() -> None:
    async def scenario(world: World) -> None:
        first, second = world.ask(50_000), world.ask(50_000)
        await world.pass_ms(0)
        assert world.come == [first]
        world.cold_reads.has_read(first, 50_000)
        await world.pass_ms(49)
        assert world.come == [first]
        await world.pass_ms(1)
        assert world.come == [first, second]

    play(scenario)


def test_what_was_granted_and_not_read_is_the_next_ones() -> None:
    async def scenario(world: World) -> None:
        first, second = world.ask(RATE), world.ask(RATE)
        world.cold_reads.has_read(first, 10_000)
        await world.pass_ms(9)
        assert world.come == [first]
        await world.pass_ms(1)
        assert world.come == [first, second]

    play(scenario)


def test_a_batch_larger_than_what_was_granted_is_paid_for() -> None:
    async def scenario(world: World) -> None:
        first, second = world.ask(1000), world.ask(1000)
        world.cold_reads.has_read(first, 2 * RATE)
        await world.pass_ms(2 * SECOND_MS - 1)
        assert world.come == [first]
        await world.pass_ms(1)
        assert world.come == [first, second]

    play(scenario)


def test_many_who_ask_again_and_again_all_have_their_turn() -> None:
    async def scenario(world: World) -> None:
        turns = [world.ask(RATE) for _ in range(100)]
        for _ in range(3 * SECOND_MS):
            await world.pass_ms(1)
            if len(world.come) == 100:
                break
            turns += [world.ask(RATE) for _ in range(100 + len(world.come) - len(turns))]
        assert world.come == turns[:100], "in their order"
        assert sum(turn.granted_bytes for turn in world.come) <= 2 * RATE
        await world.pass_ms(10 * SECOND_MS)
        assert world.come == turns

    play(scenario)


def test_who_leaves_is_passed_over_and_pays_nothing() -> None:
    async def scenario(world: World) -> None:
        left: list[str] = []
        first, second, third = world.ask(100_000), world.ask(RATE), world.ask(RATE)
        leave = world.cold_reads.leaving(second, lambda: left.append("second"))
        leave()
        leave()
        assert left == ["second"]
        await world.pass_ms(100)
        assert world.come == [first, third]
        world.cold_reads.leaving(third, lambda: left.append("third"))()
        assert left == ["second"], "it has had its turn"

    play(scenario)


def test_a_turn_that_nobody_waits_for_any_more_goes_on_to_the_next() -> None:
    """The broker stops: tasks are cancelled while their turn is about to come."""

    async def scenario(world: World) -> None:
        first, _second, third = world.ask(100_000), world.ask(100_000), world.ask(1)
        world._waits[1].cancel()
        await world.pass_ms(200)
        assert world.come == [first, third]

    play(scenario)
