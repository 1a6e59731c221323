"""Brokers that say that they stop: their leaders move, their followers stop."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode, KafkaError
from tests.controller.cluster_steps import (
    KEY,
    alter_isr,
    brokers,
    code_of,
    create,
    state,
    stopped,
    together,
    told,
    until_true,
)
from tests.controller.harness import Cluster


@brokers(1, 2, 3)
async def test_controlled_shutdown_moves_leaders_and_stops_followers(made: Cluster) -> None:
    await create(made, (2, 1, 3), (1, 2, 3))
    await create(made, (2,), topic="single")
    made.brokers[2].requests.clear()
    remaining = await made.active.controller.controlled_shutdown(2, made.epoch(2))
    assert remaining == []
    moved = await state(made, ("t", 0))
    assert (moved.leader, moved.isr, moved.leader_epoch) == (1, (1, 3), 1)
    followed = await state(made, ("t", 1))
    assert (followed.leader, followed.isr, followed.leader_epoch) == (1, (1, 3), 1)
    assert (await state(made, ("single", 0))).leader == 2, "a partition of one replica stays"
    await made.members[1].shows(lambda image: image.topics["t"].partitions[0].leader == 1)
    await until_true(lambda: stopped(made.members[2], ("t", 1)) == [False])
    assert told(made.members[2], ("t", 0))[-1].leader == 1, "the old leader hears who leads now"
    assert not told(made.members[2], ("t", 1))
    assert 2 in made.members[1].metadata.image.brokers
    assert made.members[1].metadata.image.topics["t"].partitions[0].offline_replicas == (2,)


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of what was logged about partitions without leader."""
    return [record.levelname for record in caplog.records if record.name == "controller.leaderless_log"]


def test_a_stop_of_one_broker_warns_of_a_leader_that_is_missed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (2, 1))
        assert code_of(await alter_isr(made, [2])) is ErrorCode.NONE
        assert await made.active.controller.controlled_shutdown(2, made.epoch(2)) == [KEY]
        assert levels(caplog) == ["WARNING"]

    with caplog.at_level("INFO"):
        together(scenario, 1, 2, 3)


@pytest.mark.parametrize("members", [(1, 2), (1, 2, 3)])
def test_a_stop_of_all_brokers_warns_of_nothing(caplog: pytest.LogCaptureFixture, members: tuple[int, ...]) -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (2, 1), (1, 2))
        assert await made.active.controller.controlled_shutdown(1, made.epoch(1)) == []
        assert await made.active.controller.controlled_shutdown(2, made.epoch(2)) == [("t", 0), ("t", 1)]
        assert levels(caplog) == ["INFO"]
        assert "partitions stop with their brokers: partitions=2 example=t-0" in caplog.messages

    with caplog.at_level("INFO"):
        together(scenario, *members)


def test_the_last_broker_to_stop_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(made: Cluster) -> None:
        first = made.active
        await create(made, (first.broker_id,))
        (last,) = (each for each in made.members.values() if each is not first)
        last.controller.broker_stops()
        await made.remove(first.broker_id)
        await until_true(lambda: last.controller.is_active and bool(levels(caplog)))
        assert set(levels(caplog)) == {"INFO"}

    with caplog.at_level("INFO"):
        together(scenario, 1, 2)


@brokers(1, 2)
async def test_controlled_shutdown_tells_what_nobody_else_can_lead(made: Cluster) -> None:
    await create(made, (2, 1))
    assert code_of(await alter_isr(made, [2])) is ErrorCode.NONE
    assert await made.active.controller.controlled_shutdown(2, made.epoch(2)) == [KEY]
    assert (await state(made)).leader == 2
    with pytest.raises(KafkaError) as stale:
        await made.active.controller.controlled_shutdown(2, made.epoch(2) - 1)
    assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(KafkaError) as unknown:
        await made.active.controller.controlled_shutdown(9, 1)
    assert unknown.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert await made.active.controller.controlled_shutdown(2, -1) == [KEY], "from before broker epochs"


@brokers(1, 2)
async def test_a_broker_that_was_shut_down_comes_back_like_any_other(made: Cluster) -> None:
    await create(made, (2, 1))
    await made.active.controller.controlled_shutdown(2, made.epoch(2))
    await made.remove(2)
    await made.add(2)
    await made.active.quiet()
    assert code_of(await alter_isr(made, [1, 2])) is ErrorCode.NONE
    assert told(made.members[2])[-1].leader == 1
