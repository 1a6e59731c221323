"""The known bugs of replication, as stories: with the fix the cluster keeps its promises, without it the checkers tell.

Each story runs twice: as things are, and with the fix switched off by a mutant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from protocol.errors import ErrorCode
from tests.simulation.cluster.observer import observing
from tests.simulation.cluster.stage import KEY, LAG_MAX_S, Stage, world_of
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.history import play
from tests.simulation.loop import SimLoop
from tests.simulation.mutants.catalogue import ALL

Story = Callable[[Stage], Awaitable[None]]


def told(story: Story, brokers_count: int, replicas: int, **configs: str) -> str | None:
    """The violation, if there is one."""

    def make(loop: SimLoop) -> ClusterWorld:
        return world_of(loop, brokers_count, replicas, **configs)

    async def tell(world: ClusterWorld) -> None:
        await story(Stage(world))

    return play(7, make, observing, tell).violation


async def a_follower_hears_of_a_commit_too_late(stage: Stage) -> None:
    """KIP-101, first history: a follower that does not know yet that its last record is committed must not cut it off at
    the next leader epoch: it may have to lead a moment later."""
    await stage.start(4, 1, 2, 3)
    await stage.create([1, 2, 3])
    await stage.write(1)
    await stage.until(lambda: [stage.high_watermark(each) for each in (1, 2, 3)] == [1, 1, 1])
    stage.world.network.slow("broker1", "broker2", 400, 401)  # what the leader answers takes its time
    assert await stage.write(1) == [ErrorCode.NONE]
    assert (stage.log_ends(2), stage.high_watermark(2)) == ([2], 1)
    epoch = stage.state.leader_epoch
    stage.kill(3)  # so that the others are told of another epoch
    await stage.until(lambda: stage.world.machines[2].leader_epoch(KEY) > epoch)
    await asyncio.sleep(0.05)
    stage.kill(1)
    await stage.leads(2)
    stage.world.network.slow("broker1", "broker2", 0.05, 1.0)
    assert await stage.write(2) == [ErrorCode.NONE]
    await stage.settled()


async def a_leader_comes_back_with_records_of_its_own(stage: Stage) -> None:
    """KIP-101, second history: two logs of one length with different records, both committed in their time."""
    await stage.start(3, 1, 2)
    await stage.create([1, 2])
    await stage.write(1)
    stage.cut(1, 2)
    await stage.write(1, 2)  # once the other has left the ISR
    await asyncio.sleep(1)  # its high watermark is on the disk
    stage.kill(1)
    await stage.leads(2)  # unclean
    await stage.write(2, 3)
    await stage.settled()


async def two_fast_elections(stage: Stage) -> None:
    """KIP-279: each log has an epoch that the other has not, and the leader's is the older one."""
    await stage.start(3, 1, 2)
    await stage.create([1, 2])
    await stage.write(1)
    stage.kill(2)
    await stage.until(lambda: stage.state.isr == (1,))
    stage.kill(1)
    await stage.start(1)
    await stage.leads(1)
    await stage.write(1, 4)
    stage.kill(1)
    await stage.start(2)
    await stage.leads(2)  # unclean
    await stage.write(2, 2)
    stage.kill(2)
    await stage.start(1)
    await stage.leads(1)  # unclean
    await stage.write(1)
    await stage.settled()


async def a_leader_that_was_is_asked(stage: Stage) -> None:
    """KIP-320: a consumer that has read on elsewhere must not be told that its position is gone."""
    await stage.start(3, 1, 2)
    await stage.create([1, 2])
    await stage.write(1, 2)
    stage.cut(1, 2)
    stage.cut(1, 3)
    stage.world.machines[1].cut_off()
    await stage.leads(2)
    await stage.write(2, 4)
    assert await stage.fetch_error(2, 6, stage.state.leader_epoch) == ErrorCode.NONE
    answered = await stage.fetch_error(1, 6, stage.state.leader_epoch)
    assert answered in (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_OUT_OF_RANGE)
    stage.world.machines[1].reach_again()
    await stage.settled()


async def a_follower_is_cut_off(stage: Stage) -> None:
    """Who cannot follow leaves the ISR after replica.lag.time.max.ms, and writes go on without it."""
    await stage.start(3, 1, 2)
    await stage.create([1, 2, 3])
    await stage.write(1)
    stage.cut(1, 2)
    patience_ms = round(2_000 * LAG_MAX_S)
    if await stage.write(1, timeout_ms=patience_ms) != [ErrorCode.NONE]:
        stage.world.report(f"not acknowledged in {patience_ms} ms, ISR {stage.state.isr}")
    await stage.settled()


async def a_session_ends(stage: Stage) -> None:
    """The ensemble gives up a broker that lives: it must register again, and follow again."""
    await stage.start(3, 1, 2)
    await stage.create([1, 2])
    await stage.write(1)
    stage.world.machines[2].expire_session()
    await stage.until(lambda: stage.state.isr == (1,))
    await stage.write(1)
    await stage.until(lambda: stage.state.isr == (1, 2))
    stage.world.machines[3].expire_session()  # the controller
    stage.kill(1)
    await stage.leads(2)
    await stage.write(2)
    await stage.settled()


async def a_topic_is_deleted_while_it_moves(stage: Stage) -> None:
    """To a broker that goes away, and the controller goes too: nobody takes records for it, and its name is used again when
    whoever holds some of it is back."""
    await stage.start(3, 1, 2, 4)
    await stage.create([1])
    stage.cut(1, 2)  # it copies nothing
    await stage.move([2])
    await stage.until(lambda: stage.log_ends(2) == [0])
    stage.kill(2)
    if (code := await stage.delete()) is not ErrorCode.NONE:
        stage.world.report(f"not deleted: {code.name}")
    await stage.until(lambda: stage.log_ends(1) == [None])
    stage.kill(3)
    await stage.until(lambda: bool(stage.controllers))
    for _ in range(20):
        if await stage.write(1) != [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]:
            stage.world.report("a topic that is being deleted takes records")
        await asyncio.sleep(0.1)
    stage.mend(1, 2)
    await stage.start(2)
    await stage.until(lambda: KEY not in stage.world.states.states)
    await stage.create([2, 4])
    await stage.write(2)
    await stage.settled()


STORIES = (
    (a_follower_hears_of_a_commit_too_late, "truncates-to-watermark", (4, 3, {"min_insync_replicas": "1"})),
    (a_leader_comes_back_with_records_of_its_own, "truncates-to-watermark", (3, 2, {"unclean_leader_election_enable": "true"})),
    (a_leader_comes_back_with_records_of_its_own, "divergence-ignored", (3, 2, {"unclean_leader_election_enable": "true"})),
    (two_fast_elections, "one-truncation-too-few", (3, 2, {"unclean_leader_election_enable": "true"})),
    (a_leader_that_was_is_asked, "fence-open", (3, 2, {})),
    (a_follower_is_cut_off, "laggards-stay", (3, 3, {"min_insync_replicas": "2"})),
    (a_session_ends, "registers-once", (3, 2, {})),
)  # fmt: skip


@pytest.mark.parametrize(("story", "mutant", "setting"), STORIES)
def test_the_promise_holds_with_the_fix_and_breaks_without(
    story: Story, mutant: str, setting: tuple[int, int, dict[str, str]]
) -> None:
    brokers_count, replicas, configs = setting
    assert told(story, brokers_count, replicas, **configs) is None
    [planted] = [each for each in ALL if each.name == mutant]
    with planted.planted():
        assert told(story, brokers_count, replicas, **configs) is not None


def test_a_topic_is_deleted_while_it_moves() -> None:
    assert told(a_topic_is_deleted_while_it_moves, 4, 2, min_insync_replicas="1") is None
