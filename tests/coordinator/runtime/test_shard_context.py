"""One shard from loading to resignation: the order of effects, commands, refused appends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coordinator.runtime.contract import CancelTimer, Effect, ScheduleTimer, TimerKey
from protocol.errors import ErrorCode
from runtime.timer import TimerEntry
from tests.coordinator.runtime.counter_world import SCAN_INTERVAL_MS, Added, CounterShard, CounterWorld, Publish


async def test_a_command_is_carried_out_behind_the_effects_in_front_of_it() -> None:
    async with CounterWorld() as world:
        await world.lead(leader_epoch=2)
        world.log.is_holding = True
        adding = asyncio.create_task(world.add("k", publishing=True))
        await world.settle()
        assert len(world.log.waiting) == 1
        assert world.events == [Added("k")]
        assert world.carried_out == [(Publish("k", 0, 2), 0, 2)]
        world.log.commit_all()
        assert await adding is ErrorCode.NONE


async def test_no_command_is_carried_out_once_the_leadership_is_over() -> None:
    """The append in front of it fails, and takes the partition with it."""
    async with CounterWorld() as world:
        await world.lead()
        world.log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
        world.log.on_refusal = lambda: world.runtime.on_resignation(0)
        assert await world.add("k", publishing=True) is ErrorCode.NOT_COORDINATOR
        assert world.carried_out == []


async def test_what_a_command_leads_to_is_an_operation_of_its_own() -> None:
    async with CounterWorld() as world:
        await world.lead()
        context = world.context_of("k")
        order: list[str] = []

        def outer(shard: CounterShard, now_ms: int) -> list[Effect]:
            context.run(inner)
            order.append("outer")
            return []

        def inner(shard: CounterShard, now_ms: int) -> list[Effect]:
            order.append("inner")
            return []

        context.run(outer)
        assert order == ["outer", "inner"]


async def test_a_timer_that_is_extended_again_and_again_is_scheduled_when_it_would_have_been_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with CounterWorld() as world:
        await world.lead()
        context, scheduled, due_ms = world.context_of("k"), [], []
        schedule = world.timer.schedule

        def counted(delay_ms: int, callback: Callable[[], None], slack_ms: int = 0) -> TimerEntry:
            if delay_ms < SCAN_INTERVAL_MS:  # not the coordinator's own
                scheduled.append(delay_ms)
            return schedule(delay_ms, callback, slack_ms)

        def on_timer(key: TimerKey, now_ms: int) -> list[Effect]:
            due_ms.append(world.clock.now_ms - began_ms)
            return []

        def until(delay_ms: int) -> None:
            context.run(lambda shard, now_ms: [ScheduleTimer("session", now_ms + delay_ms)])

        monkeypatch.setattr(world.timer, "schedule", counted)
        monkeypatch.setattr(context.shard, "on_timer", on_timer)
        began_ms = world.clock.now_ms
        for _ in range(9):
            until(100)
            await world.advance(10)
        assert (scheduled, due_ms) == ([100], [])
        await world.advance(89)  # it ends 100 ms after the last extension
        assert (scheduled, due_ms) == ([100, 80], [])
        context.run_due(["session"])
        assert due_ms == []
        await world.advance(1)
        assert due_ms == [180]
        until(100)
        until(30)  # shortened
        await world.advance(30)
        assert due_ms == [180, 210]
        until(0)
        context.run(lambda shard, now_ms: [CancelTimer("session")])
        await world.advance(200)
        assert due_ms == [180, 210]


async def test_a_coordinator_without_commands_refuses_them() -> None:
    async with CounterWorld(has_commands=False) as world:
        await world.lead()
        with pytest.raises(AssertionError, match="a shard without commands"):
            await world.add("k", publishing=True)


async def test_a_refused_append_is_answered() -> None:
    async with CounterWorld() as world:
        await world.lead()
        world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await world.add("k") is ErrorCode.NOT_ENOUGH_REPLICAS
        world.log.refuse_with = None
        assert await world.add("k") is ErrorCode.NONE
        assert world.made[0].numbers["k"] == 1
