"""Several brokers: in-sync sets, shutdown, reassignment, wishes and notifications in the tree, controllers that change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from controller import elections, znodes
from controller.admin import NewTopic
from controller.context import ReplicaPhase, TopicPartition
from controller.store import Create, Delete, NoNodeError, Watch
from controller.znodes import FinalizedFeatures, PartitionState, ReplicaAssignment, TopicRegistration
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from tests.controller.harness import PATIENCE_MS, Cluster, Member, cluster
from tests.simulation.store import Fault

KEY = ("t", 0)


def together(scenario: Callable[[Cluster], Awaitable[None]], *broker_ids: int, **options: object) -> None:
    async def run() -> None:
        async with cluster(*broker_ids, **options) as made:
            await scenario(made)

    asyncio.run(run())


async def create(made: Cluster, *replicas: Sequence[int], topic: str = "t") -> None:
    assignment = dict(enumerate(replicas))
    created = await made.active.controller.topics.create([NewTopic(topic, assignment=assignment)], PATIENCE_MS)
    assert created[topic].outcome.code is ErrorCode.NONE, created[topic].outcome
    await made.active.quiet()


async def state(made: Cluster, key: TopicPartition = KEY) -> PartitionState:
    data, stat = await made.ensemble_store.get(znodes.state_path(*key))
    return PartitionState.decode(data, stat.version)


async def assignment(made: Cluster, key: TopicPartition = KEY) -> ReplicaAssignment:
    data, _ = await made.ensemble_store.get(znodes.topic_path(key[0]))
    return TopicRegistration.decode(key[0], data).assignments[key[1]]


async def alter_isr(
    made: Cluster, isr: Sequence[int], key: TopicPartition = KEY, *, version: int = 3, by: int | None = None
) -> AlterPartitionResponse:
    """As the leader would ask, knowing everybody."""
    now = await state(made, key)
    leader = made.members[now.leader if by is None else by]
    row = RequestPartitionData(
        partition_index=key[1],
        leader_epoch=now.leader_epoch,
        new_isr=list(isr),
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=made.epoch(each)) for each in isr],
        partition_epoch=now.partition_epoch,
    )
    data, _ = await made.ensemble_store.get(znodes.topic_path(key[0]))
    topic_id = TopicRegistration.decode(key[0], data).topic_id
    topic = RequestTopicData(topic_name=key[0], topic_id=topic_id, partitions=[row])
    request = AlterPartitionRequest(broker_id=leader.broker_id, broker_epoch=leader.epoch, topics=[topic])
    return await made.active.controller.alter_partition(request, version)


def code_of(response: AlterPartitionResponse) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not await condition():  # noqa: ASYNC110 (the store tells nobody)
            await asyncio.sleep(0)


def told(member: Member, key: TopicPartition = KEY) -> list[LeaderAndIsrPartitionState]:
    return [
        row
        for request in member.broker.received(LeaderAndIsrRequest)
        for topic in request.topic_states
        for row in topic.partition_states
        if (topic.topic_name, row.partition_index) == key
    ]


def stopped(member: Member, key: TopicPartition = KEY) -> list[bool]:
    """For each order to stop the replica: was it to be deleted?"""
    return [
        row.delete_partition
        for request in member.broker.received(StopReplicaRequest)
        for topic in request.topic_states
        for row in topic.partition_states
        if (topic.topic_name, row.partition_index) == key
    ]


# --- AlterPartition ---


@pytest.mark.parametrize("version", range(4))
def test_an_isr_is_changed_and_everybody_s_metadata_says_so(version: int) -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2, 3))
        orders = [len(told(member)) for member in made.members.values()]
        response = await alter_isr(made, [1, 3], version=version)
        [row] = response.topics[0].partitions
        assert (row.error_code, row.isr, row.leader_id, row.leader_epoch, row.partition_epoch) == (0, [1, 3], 1, 0, 1)
        found = await state(made)
        assert (found.isr, found.leader_epoch, found.partition_epoch) == ((1, 3), 0, 1)
        for member in made.members.values():
            await member.shows(lambda image: image.topics["t"].partitions[0].isr == (1, 3))
        assert orders == [len(told(member)) for member in made.members.values()], "no LeaderAndIsr for a changed ISR"
        answer = AlterPartitionResponse.decode(response.encode(version), version)
        assert answer.topics[0].topic_name == ("t" if version < 2 else "")

    together(scenario, 1, 2, 3)


def test_an_isr_is_refused_to_a_stale_broker_and_to_brokers_that_are_not_fit() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2, 3))
        assert code_of(await alter_isr(made, [1])) is ErrorCode.NONE
        assert code_of(await alter_isr(made, [1, 4])) is ErrorCode.INELIGIBLE_REPLICA
        assert code_of(await alter_isr(made, [2, 3])) is ErrorCode.INVALID_REQUEST
        assert code_of(await alter_isr(made, [1, 2], by=2)) is ErrorCode.INVALID_REQUEST

        await made.active.controller.controlled_shutdown(2, made.epoch(2))
        assert code_of(await alter_isr(made, [1, 2])) is ErrorCode.INELIGIBLE_REPLICA
        assert code_of(await alter_isr(made, [1, 2], version=1)) is ErrorCode.OPERATION_NOT_ATTEMPTED
        made.members[3].epoch -= 1
        assert code_of(await alter_isr(made, [1, 3])) is ErrorCode.INELIGIBLE_REPLICA, "the leader saw an earlier life"
        made.members[3].epoch += 1

        made.members[1].epoch -= 1
        assert (await alter_isr(made, [1, 3])).error_code == ErrorCode.STALE_BROKER_EPOCH
        made.members[1].epoch += 1
        unknown = AlterPartitionRequest(
            broker_id=1,
            broker_epoch=made.epoch(1),
            topics=[RequestTopicData(topic_id=b"\1" * 16, partitions=[RequestPartitionData(
                partition_index=0, leader_epoch=0, partition_epoch=0)])],
        )  # fmt: skip
        response = await made.active.controller.alter_partition(unknown, 3)
        assert code_of(response) is ErrorCode.UNKNOWN_TOPIC_ID

    together(scenario, 1, 2, 3)


def test_a_refused_isr_is_told_to_nobody_but_the_leader() -> None:
    """It asks again and again."""

    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2, 3))
        before = {each: len(made.brokers[each].received(UpdateMetadataRequest)) for each in (1, 2, 3)}
        for _ in range(3):
            assert code_of(await alter_isr(made, [1, 4])) is ErrorCode.INELIGIBLE_REPLICA
            assert code_of(await alter_isr(made, [1, 2, 3])) is ErrorCode.NONE, "it is so already"
        await made.active.quiet()
        assert {each: len(made.brokers[each].received(UpdateMetadataRequest)) for each in (1, 2, 3)} == before
        assert code_of(await alter_isr(made, [1, 2])) is ErrorCode.NONE
        for member in made.members.values():
            await member.shows(lambda image: image.topics["t"].partitions[0].isr == (1, 2))

    together(scenario, 1, 2, 3)


def test_only_the_controller_answers() -> None:
    async def scenario(made: Cluster) -> None:
        other = next(each for each in made.members.values() if not each.controller.is_active)
        request = AlterPartitionRequest(broker_id=1, broker_epoch=1, topics=[])
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: other.controller.alter_partition(request, 3),
            lambda: other.controller.controlled_shutdown(1, 1),
            lambda: other.controller.alter_reassignments({}),
            lambda: other.controller.list_reassignments(),
            lambda: other.controller.update_features(UpdateFeaturesRequest(feature_updates=[]), 1),
            lambda: other.controller.allocate_producer_ids(1, 1),
        ]
        for call in calls:
            with pytest.raises(KafkaError) as refused:
                await call()
            assert refused.value.code is ErrorCode.NOT_CONTROLLER

    together(scenario, 1, 2)


# --- shutdown ---


def test_controlled_shutdown_moves_leaders_and_stops_followers() -> None:
    async def scenario(made: Cluster) -> None:
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
        await until(lambda: _true(stopped(made.members[2], ("t", 1)) == [False]))
        assert told(made.members[2], ("t", 0))[-1].leader == 1, "the old leader hears who leads now"
        assert not told(made.members[2], ("t", 1))
        assert 2 in made.members[1].metadata.image.brokers
        assert made.members[1].metadata.image.topics["t"].partitions[0].offline_replicas == (2,)

    together(scenario, 1, 2, 3)


async def _true(value: bool) -> bool:
    return value


def test_controlled_shutdown_tells_what_nobody_else_can_lead() -> None:
    async def scenario(made: Cluster) -> None:
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

    together(scenario, 1, 2)


def test_a_broker_that_was_shut_down_comes_back_like_any_other() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (2, 1))
        await made.active.controller.controlled_shutdown(2, made.epoch(2))
        await made.remove(2)
        await made.add(2)
        await made.active.quiet()
        assert code_of(await alter_isr(made, [1, 2])) is ErrorCode.NONE
        assert told(made.members[2])[-1].leader == 1

    together(scenario, 1, 2)


# --- reassignment ---


def test_a_partition_moves_to_other_replicas() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2))
        outcome = await made.active.controller.alter_reassignments({KEY: [3, 4]})
        assert outcome[KEY].code is ErrorCode.NONE
        moving = ReplicaAssignment((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
        assert await assignment(made) == moving
        assert await made.active.controller.list_reassignments() == {KEY: moving}
        assert await made.active.controller.list_reassignments([("x", 1)]) == {}
        await made.active.quiet()
        first = told(made.members[3])[0]
        assert first.is_new
        assert (first.leader, first.replicas, first.adding_replicas) == (1, [3, 4, 1, 2], [3, 4])
        assert not told(made.members[1])[-1].is_new
        assert (await state(made)).leader_epoch == 1

        assert code_of(await alter_isr(made, [1, 2, 3])) is ErrorCode.NONE
        await made.active.quiet()
        assert (await state(made)).leader == 1, "not everybody is in sync"
        assert code_of(await alter_isr(made, [1, 2, 3, 4])) is ErrorCode.NONE
        await made.active.quiet()
        assert await assignment(made) == ReplicaAssignment((3, 4))
        done = await state(made)
        assert (done.leader, done.isr) == (3, (3, 4))
        assert await made.active.controller.list_reassignments() == {}
        for broker_id in (1, 2):
            assert stopped(made.members[broker_id]) == [False, True]
        assert told(made.members[4])[-1].replicas == [3, 4]
        for member in made.members.values():
            await member.shows(lambda image: image.topics["t"].partitions[0].replicas == (3, 4))
        context = made.active.controller.context
        assert context is not None
        assert context.replica_phase(("t", 0, 1)) is ReplicaPhase.NON_EXISTENT

    together(scenario, 1, 2, 3, 4)


def test_a_reassignment_is_called_off() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2))
        await made.active.controller.alter_reassignments({KEY: [1, 3]})
        assert code_of(await alter_isr(made, [1, 2, 3])) is ErrorCode.NONE
        await made.active.quiet()
        assert await assignment(made) == ReplicaAssignment((1, 3)), "3 was all that was missing"
        await made.active.controller.alter_reassignments({KEY: [4, 1]})
        outcome = await made.active.controller.alter_reassignments({KEY: None})
        assert outcome[KEY].code is ErrorCode.NONE
        assert await assignment(made) == ReplicaAssignment((1, 3))
        assert stopped(made.members[4]) == [False, True]
        again = await made.active.controller.alter_reassignments({KEY: None, ("t", 9): None})
        assert {each.code for each in again.values()} == {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}

    together(scenario, 1, 2, 3, 4)


def test_reassignments_that_cannot_be() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1,), (1,), (1,), (1,))
        outcomes = await made.active.controller.alter_reassignments(
            {("t", 0): [], ("t", 1): [2, 2], ("t", 2): [9], ("t", 3): [-1], ("x", 0): [2]}
        )
        codes = [each.code for each in outcomes.values()]
        assert codes == [*[ErrorCode.INVALID_REPLICA_ASSIGNMENT] * 4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await assignment(made, ("t", 2)) == ReplicaAssignment((1,))

    together(scenario, 1, 2)


def test_a_new_controller_finishes_a_reassignment() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2))
        await made.active.controller.alter_reassignments({KEY: [2, 3]})
        old = made.active
        made.ensemble.expire(old.store.session().session_id)
        other = next(each for each in made.members.values() if each is not old)
        await other.shows(lambda image: image.controller_id not in (old.broker_id, -1))
        await old.register()
        await made.settled()
        assert list(await made.active.controller.list_reassignments()) == [KEY]
        now = await state(made)
        assert now.leader in (1, 2)
        assert code_of(await alter_isr(made, [now.leader, *({2, 3} - {now.leader})])) is ErrorCode.NONE
        await made.active.quiet()
        assert await assignment(made) == ReplicaAssignment((2, 3))
        done = await state(made)
        assert done.leader in (2, 3)
        assert set(done.isr) == {2, 3}

    together(scenario, 1, 2, 3)


def test_a_reassignment_waits_for_a_broker_that_is_away() -> None:
    async def scenario(made: Cluster) -> None:
        away = next(each for each in (2, 3) if each != made.active.broker_id)
        stays = made.active.broker_id
        await create(made, (stays,))
        await made.active.controller.alter_reassignments({KEY: [away]})
        await made.remove(away)
        await made.active.shows(lambda image: away not in image.brokers)
        await made.add(away)
        await made.active.quiet()
        assert told(made.members[away])[-1].adding_replicas == [away]
        assert code_of(await alter_isr(made, [stays, away])) is ErrorCode.NONE
        await made.active.quiet()
        assert await assignment(made) == ReplicaAssignment((away,))

    together(scenario, 1, 2, 3)


def test_reassignments_wished_in_the_tree() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2), (1, 2))
        wishes = {("t", 0): (3, 1), ("t", 1): (2, 1), ("x", 0): (1,), ("t", 9): (1,)}
        await made.ensemble_store.create(znodes.REASSIGNMENTS, znodes.encode_reassignments(wishes))

        async def left() -> dict[TopicPartition, tuple[int, ...]] | None:
            try:
                data, _ = await made.ensemble_store.get(znodes.REASSIGNMENTS)
            except NoNodeError:
                return None
            return znodes.decode_reassignments(data)

        async def only_the_first_is_left() -> bool:
            return await left() == {("t", 0): (3, 1)}

        await until(only_the_first_is_left)
        assert await assignment(made, ("t", 1)) == ReplicaAssignment((2, 1))
        assert code_of(await alter_isr(made, [1, 2, 3])) is ErrorCode.NONE
        await made.active.quiet()
        assert await left() is None
        assert await assignment(made) == ReplicaAssignment((3, 1))
        # The node is watched for again.
        await made.ensemble_store.create(znodes.REASSIGNMENTS, znodes.encode_reassignments({KEY: (1, 3)}))

        async def is_reordered() -> bool:
            return await assignment(made) == ReplicaAssignment((1, 3))

        await until(is_reordered)

    together(scenario, 1, 2, 3)


@pytest.mark.parametrize(
    "rows", ['[{"topic":1}]', "[5]", "[null]", '[{"topic":"t","partition":{}}]', '[{"topic":"t","partition":1e999}]']
)
def test_an_unreadable_wish_goes(rows: str) -> None:
    """Whatever an operator wrote there: it must not take one controller after the other with it."""

    async def scenario(made: Cluster) -> None:
        for path in (znodes.REASSIGNMENTS, znodes.PREFERRED_ELECTION):
            await made.ensemble_store.create(path, b'{"version":1,"partitions":%s}' % rows.encode())

            async def is_gone(path: str = path) -> bool:
                return await made.ensemble_store.exists(path) is None

            await until(is_gone)
        await create(made, (1,))

    together(scenario, 1)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"broker":null}', b'{"broker":1e999}', b'{"partitions":[5]}'])
def test_unreadable_notifications_go(data: bytes) -> None:
    async def scenario(made: Cluster) -> None:
        for parent in (znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS):
            path = await made.ensemble_store.create(f"{parent}/some_", data, sequential=True)

            async def is_gone(path: str = path) -> bool:
                return await made.ensemble_store.exists(path) is None

            await until(is_gone)
        await create(made, (1,))

    together(scenario, 1)


def test_deletion_waits_for_a_reassignment() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1,))
        await made.active.controller.alter_reassignments({KEY: [2]})
        deleted = await made.active.controller.topics.delete(["t"], 50)
        assert deleted["t"].code is ErrorCode.REQUEST_TIMED_OUT
        await made.active.quiet()
        assert made.active.controller.counts().topics_ineligible_to_delete == 1
        refused = await made.active.controller.alter_reassignments({KEY: [1]})
        assert refused[KEY].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of(await alter_isr(made, [1, 2])) is ErrorCode.NONE

        async def is_gone() -> bool:
            return await made.ensemble_store.exists(znodes.topic_path("t")) is None

        await until(is_gone)

    together(scenario, 1, 2)


@pytest.mark.parametrize("is_gone_before", [True, False])
def test_a_reassignment_that_a_deletion_waits_for_gets_its_leader_back(is_gone_before: bool) -> None:
    """It would otherwise never end, and the deletion with it."""

    async def scenario(made: Cluster) -> None:
        ours = made.active.broker_id
        leader, target = (each for each in (1, 2, 3) if each != ours)
        await create(made, (leader,))
        await made.active.controller.alter_reassignments({KEY: [target]})
        if not is_gone_before:
            await made.active.controller.topics.delete(["t"], 50)
        await made.remove(leader)
        await made.active.shows(lambda image: leader not in image.brokers)
        await made.active.quiet()
        assert (await state(made)).leader == -1
        if is_gone_before:
            await made.active.controller.topics.delete(["t"], 50)
        await made.add(leader)
        await made.active.quiet()
        assert (await state(made)).leader == leader
        assert code_of(await alter_isr(made, [leader, target])) is ErrorCode.NONE

        async def is_gone() -> bool:
            return await made.ensemble_store.exists(znodes.topic_path("t")) is None

        await until(is_gone)

    together(scenario, 1, 2, 3)


def test_a_broker_comes_back_while_another_deletes() -> None:
    """Its replica was passed over when the deletion began, and nobody else would ask for it."""

    async def scenario(made: Cluster) -> None:
        ours = made.active.broker_id
        slow, away = (each for each in (1, 2, 3) if each != ours)
        await create(made, (ours, slow, away))
        await made.remove(away)
        await made.active.shows(lambda image: away not in image.brokers)
        await made.active.quiet()
        made.brokers[slow].is_reachable = False
        await made.active.controller.topics.delete(["t"], 50)
        await made.active.quiet()
        await made.add(away)
        await made.active.quiet()
        made.brokers[slow].is_reachable = True

        async def is_gone() -> bool:
            return await made.ensemble_store.exists(znodes.topic_path("t")) is None

        await until(is_gone)

    together(scenario, 1, 2, 3)


# --- elections ---


def test_preferred_elections_wished_in_the_tree() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2), (1, 2))
        for key in (("t", 0), ("t", 1)):
            await made.active.controller.alter_reassignments({key: [2, 1]})
        await made.active.quiet()
        assert (await state(made)).leader == 1
        wish = znodes.encode_topic_partitions([("t", 0), ("x", 3)])
        for _ in range(2):  # the node is watched for again
            await made.ensemble_store.create(znodes.PREFERRED_ELECTION, wish)

            async def is_gone() -> bool:
                return await made.ensemble_store.exists(znodes.PREFERRED_ELECTION) is None

            await until(is_gone)
        assert (await state(made, ("t", 0))).leader == 2
        assert (await state(made, ("t", 1))).leader == 1

    together(scenario, 1, 2)


def test_leaders_go_back_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.host.FIRST_BALANCE_S", 0.05)

    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2))
        await made.active.controller.alter_reassignments({KEY: [2, 1]})
        assert made.active.controller.counts().preferred_replica_imbalance <= 1

        async def is_back() -> bool:
            await asyncio.sleep(0.01)
            return (await state(made)).leader == 2

        await until(is_back)
        await made.active.quiet()
        assert made.active.controller.counts().preferred_replica_imbalance == 0

    together(scenario, 1, 2, settings={"leader.imbalance.check.interval.seconds": "1"})


def test_leaders_stay_while_anything_is_reassigned() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2))
        await create(made, (1,), topic="u")
        active = made.active.controller
        await active.alter_reassignments({KEY: [2, 1]})
        assert (await state(made)).leader == 1
        await active.alter_reassignments({("u", 0): [2]})  # it waits for the ISR to grow
        assert active._term is not None
        await elections.balance_leaders(active._term)
        assert (await state(made)).leader == 1
        await active.alter_reassignments({("u", 0): None})
        await elections.balance_leaders(active._term)
        assert (await state(made)).leader == 2

    together(scenario, 1, 2)


def test_leaders_stay_where_the_setting_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.host.FIRST_BALANCE_S", 0)

    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2))
        await made.active.controller.alter_reassignments({KEY: [2, 1]})
        await made.active.quiet()
        assert (await state(made)).leader == 1
        assert made.active.controller.counts().preferred_replica_imbalance == 1

    together(scenario, 1, 2, settings={"auto.leader.rebalance.enable": "false"})


def test_an_unclean_election_as_soon_as_it_is_allowed() -> None:
    async def scenario(made: Cluster) -> None:
        active = made.active.broker_id
        other = 3 - active
        await create(made, (other, active))
        assert code_of(await alter_isr(made, [other])) is ErrorCode.NONE
        await made.remove(other)
        await made.active.shows(lambda image: image.topics["t"].partitions[0].leader == -1)
        assert made.active.controller.counts().offline_partitions == 1
        await made.ensemble_store.set(
            znodes.config_path("topics", "t"), znodes.encode_config({"unclean.leader.election.enable": "true"})
        )
        made.active.controller.on_unclean_election_enabled("t")
        await made.active.shows(lambda image: image.topics["t"].partitions[0].leader == active)
        found = await state(made)
        assert (found.isr, found.leader_recovery_state) == ((active,), znodes.RECOVERING)
        assert told(made.active)[-1].leader_recovery_state == znodes.RECOVERING
        assert made.active.controller.unclean_elections_count == 1
        assert code_of(await alter_isr(made, [active])) is ErrorCode.NONE
        assert (await state(made)).leader_recovery_state == znodes.RECOVERED

    together(scenario, 1, 2)


# --- notifications ---


def test_changed_isrs_told_through_the_tree() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2))
        found = await state(made)
        shrunk = PartitionState(1, found.leader_epoch, (1,), found.controller_epoch)
        await made.ensemble_store.set(znodes.state_path(*KEY), shrunk.encode())
        for data in (znodes.encode_topic_partitions([KEY, ("x", 1)]), b"nonsense"):
            await made.ensemble_store.create(znodes.isr_change_path(), data, sequential=True)
        for member in made.members.values():
            await member.shows(lambda image: image.topics["t"].partitions[0].isr == (1,))

        async def are_gone() -> bool:
            return await made.ensemble_store.children(znodes.ISR_CHANGES) == []

        await until(are_gone)
        assert code_of(await alter_isr(made, [1, 2])) is ErrorCode.NONE, "the controller knows the new partition epoch"

    together(scenario, 1, 2)


async def lose_directory(made: Cluster, broker_id: int) -> None:
    data = znodes.encode_log_dir_event(broker_id)
    await made.ensemble_store.create(znodes.log_dir_event_path(), data, sequential=True)


def test_a_failed_log_directory_is_asked_about() -> None:
    async def scenario(made: Cluster) -> None:
        active = made.active.broker_id
        other = 3 - active
        await create(made, (other, active))
        made.brokers[other].leader_error = ErrorCode.KAFKA_STORAGE_ERROR
        await lose_directory(made, other)
        await made.active.shows(lambda image: image.topics["t"].partitions[0].leader == active)
        await made.active.shows(lambda image: image.topics["t"].partitions[0].offline_replicas == (other,))
        assert (await state(made)).isr == (active,)
        assert await made.ensemble_store.children(znodes.LOG_DIR_EVENTS) == []
        made.brokers[other].leader_error = ErrorCode.NONE
        await lose_directory(made, other)

        async def is_online() -> bool:
            context = made.active.controller.context
            assert context is not None
            return not context.offline_directories.get(other)

        await until(is_online)

    together(scenario, 1, 2)


# --- brokers ---


def test_a_bounced_broker_is_a_failure_and_a_start() -> None:
    """Its node was replaced between two looks: the higher czxid tells."""

    async def scenario(made: Cluster) -> None:
        active = made.active
        other = 3 - active.broker_id
        await create(made, (other, active.broker_id))
        epoch = made.epoch(other)
        made.brokers[other].requests.clear()
        path = znodes.broker_path(other)
        data, _ = await made.ensemble_store.get(path)
        await made.ensemble_store.multi([Delete(path), Create(path, data, ephemeral=True)])
        stat = await made.ensemble_store.exists(path)
        assert stat is not None
        made.members[other].epoch = stat.czxid
        assert made.epoch(other) > epoch
        await active.shows(lambda image: image.topics["t"].partitions[0].leader == active.broker_id)
        await until(lambda: _true(bool(told(made.members[other]))))
        first = made.brokers[other].requests[0]
        assert isinstance(first, UpdateMetadataRequest)
        assert first.broker_epoch == made.epoch(other)
        assert told(made.members[other])[-1].leader == active.broker_id

    together(scenario, 1, 2)


def test_an_answer_of_the_life_before_does_not_undo_what_the_next_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the controller looks who lives, and so is heard after the next life was asked to delete."""

    async def scenario(made: Cluster) -> None:
        active = made.active
        other = 3 - active.broker_id
        await create(made, (other,))
        broker, session = made.brokers[other], active.store.session()
        was_asked, looks = asyncio.Event(), asyncio.Event()
        on_stop_replica, children = broker.on_stop_replica, session.children

        async def refuse_in_this_life(request: StopReplicaRequest) -> StopReplicaResponse:
            answer = await on_stop_replica(request)
            if request.broker_epoch == made.epoch(other) or not stopped(made.members[other])[-1]:
                return answer
            was_asked.set()
            await looks.wait()
            return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, partition_errors=[])

        async def look(path: str, watch: Watch | None = None) -> list[str]:
            if path == znodes.BROKER_IDS:
                looks.set()
            return await children(path, watch)

        path = znodes.broker_path(other)
        data, stat = await made.ensemble_store.get(path)
        monkeypatch.setattr(broker, "on_stop_replica", refuse_in_this_life)
        made.members[other].epoch = stat.czxid + 1_000_000  # what comes until it is known again is of the life before
        deletion = asyncio.ensure_future(active.controller.topics.delete(["t"], PATIENCE_MS))
        await was_asked.wait()
        monkeypatch.setattr(session, "children", look)
        await made.ensemble_store.multi([Delete(path), Create(path, data, ephemeral=True)])
        registered = await made.ensemble_store.exists(path)
        assert registered is not None
        made.members[other].epoch = registered.czxid
        assert (await deletion)["t"].code is ErrorCode.NONE

        async def is_gone() -> bool:
            return await made.ensemble_store.exists(znodes.topic_path("t")) is None

        await until(is_gone)

    together(scenario, 1, 2)


def test_a_broker_that_moves_keeps_what_waits_for_it() -> None:
    async def scenario(made: Cluster) -> None:
        active = made.active
        other = 3 - active.broker_id
        made.brokers[other].is_reachable = False
        created = await active.controller.topics.create([NewTopic("t", assignment={0: [other]})], 50)
        assert created["t"].outcome.code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
        assert active.controller.request_queue_sizes()[other] > 0
        await made.members[other].register(port=19_092)
        await active.shows(lambda image: image.brokers[other].endpoints["PLAINTEXT"].port == 19_092)
        made.brokers[other].is_reachable = True
        await until(lambda: _true(bool(told(made.members[other]))))

    together(scenario, 1, 2)


def test_a_broker_out_of_reach_is_one_line_and_not_one_for_each_attempt(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2), (1, 2))
        other = next(each.broker for each in made.members.values() if each is not made.active)
        with caplog.at_level("INFO", "controller.channels"):
            other.is_reachable = False
            await made.active.controller.alter_reassignments({KEY: [2, 1]})
            await until(lambda: _true(other.refused_count >= 4))
            other.is_reachable = True
            await until(lambda: _true(made.active.controller.request_queue_sizes()[other.broker_id] == 0))

    together(scenario, 1, 2)
    told = [record.getMessage() for record in caplog.records if record.name == "controller.channels"]
    assert len(told) == 2, told
    assert "unanswered" in told[0]
    assert "answered again" in told[1]


def test_unreadable_nodes_are_passed_over() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1,))
        await made.ensemble_store.create(znodes.topic_path("bad"), b"[]")
        await made.ensemble_store.create(f"{znodes.BROKER_IDS}/8", b"{}")
        await made.ensemble_store.create(f"{znodes.BROKER_IDS}/x", b"{}")
        await create(made, (1,), topic="good")
        await made.ensemble_store.delete(znodes.CONTROLLER)
        await made.settled()
        assert made.active.controller.epoch == 2
        assert sorted(made.active.metadata.image.topics) == ["good", "t"]

    together(scenario, 1)


# --- controllers ---


def test_an_operator_deletes_the_controller_node() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2))
        for epoch in (2, 3, 4):
            await made.ensemble_store.delete(znodes.CONTROLLER)
            await made.settled()
            assert made.active.controller.epoch == epoch
            data, _ = await made.ensemble_store.get(znodes.CONTROLLER)
            assert znodes.decode_controller(data) == made.active.broker_id
            for member in made.members.values():
                await member.shows(lambda image: image.controller_id == made.active.broker_id)
        assert (await state(made)).leader_epoch == 0

    together(scenario, 1, 2, 3)


def test_a_controller_that_waits_for_the_store_does_not_keep_anybody_waiting() -> None:
    async def scenario(made: Cluster) -> None:
        made.ensemble.fault = lambda _session_id, _operations: Fault.REQUEST_LOST
        calls = [made.active.controller.allocate_producer_ids(1) for _ in range(3)]
        calls.append(made.active.controller.controlled_shutdown(1, -1))
        await create_fails(made)
        async with asyncio.timeout(PATIENCE_MS / 1000):
            results = await asyncio.gather(*calls, return_exceptions=True)
        made.ensemble.fault = lambda _session_id, _operations: None
        assert all(isinstance(each, KafkaError | list) for each in results), results

    async def create_fails(made: Cluster) -> None:
        await made.active.controller.alter_reassignments({("t", 0): [1]})

    together(scenario, 1)


def test_the_features_of_a_cluster() -> None:
    async def scenario(made: Cluster) -> None:
        data, _ = await made.ensemble_store.get(znodes.FEATURE)
        assert FinalizedFeatures.decode(data) == FinalizedFeatures({}, is_enabled=True)
        request = UpdateFeaturesRequest(
            feature_updates=[
                FeatureUpdateKey(feature="metadata.version", max_version_level=3),
                FeatureUpdateKey(feature="", max_version_level=1),
                FeatureUpdateKey(feature="a", max_version_level=0, upgrade_type=2),
                FeatureUpdateKey(feature="b", max_version_level=0),
                FeatureUpdateKey(feature="c", max_version_level=1, upgrade_type=9),
            ]
        )
        response = await made.active.controller.update_features(request, 1)
        assert response.error_code == 0
        assert {row.error_code for row in response.results} == {ErrorCode.INVALID_REQUEST}
        assert [row.feature for row in response.results] == ["metadata.version", "", "a", "b", "c"]
        assert all(row.error_message for row in response.results)

        await made.ensemble_store.set(znodes.FEATURE, FinalizedFeatures({"old": 2}).encode())
        deletion = FeatureUpdateKey(feature="old", max_version_level=0, allow_downgrade=True)
        response = await made.active.controller.update_features(UpdateFeaturesRequest(feature_updates=[deletion]), 0)
        assert [row.error_code for row in response.results] == [0]
        data, _ = await made.ensemble_store.get(znodes.FEATURE)
        assert data == b'{"features":{},"version":2,"status":1}'

    together(scenario, 1)


def test_features_are_switched_off_for_old_brokers() -> None:
    async def scenario(made: Cluster) -> None:
        data, _ = await made.ensemble_store.get(znodes.FEATURE)
        assert FinalizedFeatures.decode(data).is_enabled is False
        await made.active.controller.topics.create([NewTopic("t", 1, 1)], PATIENCE_MS)
        data, _ = await made.ensemble_store.get(znodes.topic_path("t"))
        assert b"topic_id" not in data

    together(scenario, 1, settings={"inter.broker.protocol.version": "2.6"})


def test_producer_ids_for_brokers_that_are_known() -> None:
    async def scenario(made: Cluster) -> None:
        first = await made.active.controller.allocate_producer_ids(2, made.epoch(2))
        assert first.broker_id == 2
        assert first.end - first.first == 1_000
        for broker_id, epoch, code in [
            (2, made.epoch(2) - 1, ErrorCode.STALE_BROKER_EPOCH),
            (9, 1, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ]:
            with pytest.raises(KafkaError) as refused:
                await made.active.controller.allocate_producer_ids(broker_id, epoch)
            assert refused.value.code is code

    together(scenario, 1, 2)


def test_producer_ids_are_not_guessed() -> None:
    async def scenario(made: Cluster) -> None:
        await made.ensemble_store.set(znodes.PRODUCER_ID_BLOCK, b"nonsense")
        with pytest.raises(KafkaError) as refused:
            await made.active.controller.allocate_producer_ids(1)
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert made.active.controller.is_active

    together(scenario, 1)


def test_replicas_are_put_on_different_machines() -> None:
    async def scenario(made: Cluster) -> None:
        for broker_id, host in ((3, "b"), (4, "b")):
            await made.add(broker_id, settings={"barnabas.host.id": host})
        for member in made.members.values():
            await member.shows(lambda image: len(image.brokers) == 4)
        created = await made.active.controller.topics.create([NewTopic("t", 12, 2)], PATIENCE_MS)
        assert created["t"].outcome.code is ErrorCode.NONE
        for partition in made.active.metadata.image.topics["t"].partitions.values():
            assert len({each > 2 for each in partition.replicas}) == 2, "1 and 2 are one machine, 3 and 4 another"

    together(scenario, 1, 2, settings={"barnabas.host.id": "a"})


def test_a_thousand_partitions_are_taken_over_quickly() -> None:
    async def scenario(made: Cluster) -> None:
        created = await made.active.controller.topics.create([NewTopic("t", 1_000, 3)], PATIENCE_MS)
        assert created["t"].outcome.code is ErrorCode.NONE
        for member in made.members.values():
            await member.shows(lambda image: len(image.topics["t"].partitions) == 1_000)
            member.broker.requests.clear()
        loop = asyncio.get_running_loop()
        started = loop.time()
        await made.ensemble_store.delete(znodes.CONTROLLER)
        await made.settled()
        for member in made.members.values():
            await until(lambda member=member: _true(_rows(member) == 1_000))  # type: ignore[misc]
        assert loop.time() - started < 2, "all requests are to be out within two seconds"

    def _rows(member: Member) -> int:
        requests = member.broker.received(LeaderAndIsrRequest)
        return sum(len(topic.partition_states) for request in requests for topic in request.topic_states)

    together(scenario, 1, 2, 3)
