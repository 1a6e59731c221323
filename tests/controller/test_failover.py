"""How little a controller does between the loss of a leader and the moment in which everybody has heard of the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from controller.controller_term import Term
from controller.elections.leader_election_rules import NO_LEADER
from metadata.store import znodes
from metadata.store.znodes import PartitionState
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from protocol.topic_partition import TopicPartition
from tests.controller.cluster_steps import brokers
from tests.controller.harness import Cluster, FakeBroker
from tests.controller.test_cluster import KEY, create, state, told


class Reads:
    """Which state nodes are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[TopicPartition] = []
        read_states = Term.read_states

        async def counted(term: Term, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
            wanted = list(keys)
            self.keys += wanted
            return await read_states(term, wanted)

        monkeypatch.setattr(Term, "read_states", counted)


@brokers(1, 2, 3)
async def test_states_that_only_controllers_write_are_not_read_first(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(made, (2, 1, 3), (1, 2, 3))
    reads = Reads(monkeypatch)
    await made.active.controller.controlled_shutdown(2, made.epoch(2))
    assert reads.keys == []
    assert (await state(made)).isr == (await state(made, ("t", 1))).isr == (1, 3)


@brokers(1, 2, 3, settings={"inter.broker.protocol.version": "2.6"})
async def test_states_that_leaders_write_too_are_read_first(made: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(made, (2, 1, 3), (1, 2, 3))
    reads = Reads(monkeypatch)
    await made.active.controller.controlled_shutdown(2, made.epoch(2))
    assert set(reads.keys) == {("t", 0), ("t", 1)}


@pytest.mark.parametrize(
    ("known", "written", "leader"),
    [
        pytest.param((1, 2), (1, 3), 3, id="another is to be elected"),
        pytest.param((1,), (1, 2), 2, id="somebody can be elected after all"),
    ],
)
@brokers(1, 2, 3)
async def test_a_state_that_somebody_else_has_written_is_read_again(
    made: Cluster, known: tuple[int, ...], written: tuple[int, ...], leader: int
) -> None:
    await create(made, (1, 2, 3))
    found, context = await state(made), made.active.controller.context
    assert context is not None
    context.leadership[KEY] = replace(found, isr=known)
    await made.ensemble_store.set(znodes.state_path(*KEY), replace(found, isr=written).encode())
    assert await made.active.controller.controlled_shutdown(1, made.epoch(1)) == []
    assert ((await state(made)).leader, (await state(made)).isr) == (leader, (leader,))


@brokers(1, 2, 3)
async def test_a_new_controller_tells_each_broker_once_who_leads_now(made: Cluster) -> None:
    dead = made.active.broker_id
    others = [broker_id for broker_id in (1, 2, 3) if broker_id != dead]
    await create(made, (dead, *others), (*others, dead))
    for broker_id in others:
        made.brokers[broker_id].requests.clear()
    made.brokers[dead].is_reachable = False
    await made.remove(dead)
    await made.settled()
    for broker_id in others:
        member = made.members[broker_id]
        await member.shows(lambda image: dead not in image.brokers)
        rows = told(member)
        assert [row.leader for row in rows] == [others[0]], "nobody hears of the leader that is gone"
        first = member.broker.received(LeaderAndIsrRequest)[0]
        assert sum(len(topic.partition_states) for topic in first.topic_states) == 2, "all that it holds, at once"


@brokers(1, 2, 3)
async def test_a_new_controller_raises_the_epoch_for_the_dead_replica_and_for_the_election(made: Cluster) -> None:
    """As Apache Kafka's: tests/differential/recorded/cluster_states has its states."""
    dead = made.active.broker_id
    first, second = (broker_id for broker_id in (1, 2, 3) if broker_id != dead)
    await create(made, (dead, first, second))
    await create(made, (first, dead), topic="u")
    await create(made, (dead,), topic="v")
    await made.remove(dead)
    await made.settled()
    for key, leader, isr, epoch in (
        (("t", 0), first, (first, second), 2), (("u", 0), first, (first,), 1), (("v", 0), NO_LEADER, (dead,), 1)
    ):  # fmt: skip
        found = await state(made, key)
        assert (found.leader, found.isr, found.leader_epoch, found.partition_epoch) == (leader, isr, epoch, epoch)


@brokers(1, 2, 3)
async def test_brokers_hear_once_of_each_partition_that_has_lost_a_replica(made: Cluster) -> None:
    active = made.active.broker_id
    gone, other = (broker_id for broker_id in (1, 2, 3) if broker_id != active)
    await create(made, (gone, active, other), (active, gone, other), (other, gone, active))
    for member in made.members.values():
        member.broker.requests.clear()
    await made.remove(gone)
    await made.settled()
    for broker_id in (active, other):
        await made.members[broker_id].shows(lambda image: gone not in image.brokers)
        told_first, *others = made.members[broker_id].broker.received(LeaderAndIsrRequest)
        assert others == []
        states = told_first.topic_states[0].partition_states
        assert [(row.partition_index, row.leader, row.isr) for row in states] == [
            (0, active, [active, other]), (1, active, [active, other]), (2, other, [other, active])
        ]  # fmt: skip
    image = made.members[other].metadata.image
    assert all(each.offline_replicas == (gone,) for each in image.topics["t"].partitions.values())


class SlowBroker(FakeBroker):
    """Takes its time with LeaderAndIsr."""

    async def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        await asyncio.sleep(0.05)
        return await super().on_leader_and_isr(request)


@brokers(1, 2, 3)
async def test_what_a_controller_has_decided_is_told_before_it_steps_down(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.controller.LAST_REQUESTS_TIMEOUT_S", 60.0)
    leaving = made.active.broker_id
    others = [broker_id for broker_id in (1, 2, 3) if broker_id != leaving]
    await create(made, (leaving, *others))
    for broker_id in others:
        made.brokers[broker_id].__class__ = SlowBroker
    controller = made.active.controller
    await controller.controlled_shutdown(leaving, made.epoch(leaving))
    await controller.retire()
    assert controller.is_active
    for broker_id in others:
        assert [row.leader for row in told(made.members[broker_id])][-1] == others[0]


@brokers(1, 2)
async def test_a_broker_that_cannot_be_reached_does_not_keep_a_controller_from_stepping_down(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.controller.LAST_REQUESTS_TIMEOUT_S", 0.05)
    leaving = made.active.broker_id
    other = 3 - leaving
    await create(made, (leaving, other))
    made.brokers[other].is_reachable = False
    await made.active.controller.controlled_shutdown(leaving, made.epoch(leaving))
    async with asyncio.timeout(60):
        await made.active.controller.retire()
    made.brokers[other].is_reachable = True
