"""The whole controller over the simulated ensemble: elections, and brokers, controllers, disks and answers that get lost."""

from __future__ import annotations

import random

import pytest

from controller.elections.leader_election_rules import ElectionReason
from metadata.admin.topic_requests import NewTopic
from metadata.image import ClusterImage
from metadata.store import znodes
from metadata.store.port import SessionExpiredError, SetData
from metadata.store.znodes import PartitionState
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from tests.controller.cluster_steps import brokers, together
from tests.controller.harness import PATIENCE_MS, Cluster, cluster
from tests.controller.member_steps import create, state
from tests.simulation.store import Fault


@brokers(1, 2, 3)
async def test_replicas_are_spread_and_everybody_is_told(made: Cluster) -> None:
    await create(made.active, "orders", 6, 3)
    for member in made.members.values():
        await member.shows(lambda image: all(image.has_leader("orders", each) for each in range(6)))
        leaders = [each.leader for each in member.metadata.image.topics["orders"].partitions.values()]
        assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
        assert sum(len(each.topic_states) for each in member.broker.received(LeaderAndIsrRequest)) == 1


def test_a_dead_leader_is_replaced_and_comes_back_as_a_follower() -> None:
    async def scenario(made: Cluster) -> None:
        await create(made.active, "orders", 3, 3)
        await made.remove(3)
        active = made.active
        await active.shows(lambda image: set(image.brokers) == {1, 2} and leaders(image) <= {1, 2})
        await active.quiet()
        for partition in range(3):
            found = await state(active, "orders", partition)
            assert 3 not in found.isr
            assert found.leader_epoch == 1
        await made.add(3)
        await active.quiet()
        assert {request.topic_states[0].topic_name for request in made.brokers[3].received(LeaderAndIsrRequest)} == {
            "orders"
        }
        kinds = [type(each) for each in made.brokers[3].requests]
        assert kinds[0] is UpdateMetadataRequest, "metadata comes before the first LeaderAndIsr"
        first = made.brokers[3].requests[0]
        assert isinstance(first, UpdateMetadataRequest)
        assert len(first.topic_states[0].partition_states) == 3

    def leaders(image: ClusterImage) -> set[int]:
        return {each.leader for each in image.topics["orders"].partitions.values()}

    together(scenario, 1, 2, 3)


@brokers(1, 2)
async def test_the_last_in_sync_replica_stays_in_the_isr_and_nobody_leads(made: Cluster) -> None:
    active = made.active
    other = 2 if active.broker_id == 1 else 1
    created = await active.topic_admin.create([NewTopic("a", assignment={0: [other]})], PATIENCE_MS)
    assert created["a"].outcome.code is ErrorCode.NONE
    await made.remove(other)
    await active.shows(lambda image: image.topics["a"].partitions[0].leader == -1)
    found = await state(active, "a")
    assert (found.leader, found.isr) == (-1, (other,))
    assert active.metadata.image.topics["a"].partitions[0].offline_replicas == (other,)
    await made.add(other)
    await active.shows(lambda image: image.has_leader("a", 0))
    assert (await state(active, "a")).leader == other


@pytest.mark.parametrize("is_allowed", [True, False])
@brokers(1, 2)
async def test_unclean_election_only_where_it_is_allowed(made: Cluster, is_allowed: bool) -> None:
    active = made.active
    other = 2 if active.broker_id == 1 else 1
    topic = NewTopic(
        "a",
        assignment={0: [other, active.broker_id]},
        config={"unclean.leader.election.enable": "true"} if is_allowed else {},
    )
    await active.topic_admin.create([topic], PATIENCE_MS)
    found = await state(active, "a")
    context = active.controller.context
    assert context is not None
    alone_in_sync = PartitionState(other, 0, (other,), found.controller_epoch)
    await active.store.set(znodes.state_path("a", 0), alone_in_sync.encode())
    await made.remove(other)
    wanted = active.broker_id if is_allowed else -1
    await active.shows(lambda image: image.topics["a"].partitions[0].leader == wanted)
    if not is_allowed:
        outcome = await active.controller.elect_leaders([("a", 0)], ElectionReason.PREFERRED, PATIENCE_MS)
        assert outcome["a", 0].code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        outcome = await active.controller.elect_leaders([("a", 0)], ElectionReason.UNCLEAN, PATIENCE_MS)
        assert outcome["a", 0].code is ErrorCode.NONE
        assert (await state(active, "a")).isr == (active.broker_id,)


@brokers(1, 2)
async def test_preferred_leaders_are_elected_on_request(made: Cluster) -> None:
    active = made.active
    other = 2 if active.broker_id == 1 else 1
    await active.topic_admin.create([NewTopic("a", assignment={0: [other, active.broker_id]})], PATIENCE_MS)
    await made.remove(other)
    await active.shows(lambda image: image.topics["a"].partitions[0].leader == active.broker_id)
    await made.add(other)
    await active.quiet()
    found = await state(active, "a")
    in_sync = PartitionState(found.leader, found.leader_epoch, (active.broker_id, other), found.controller_epoch)
    await active.store.set(znodes.state_path("a", 0), in_sync.encode())
    outcome = await active.controller.elect_leaders(
        [("a", 0), ("a", 1), ("b", 0)], ElectionReason.PREFERRED, PATIENCE_MS
    )
    assert outcome["a", 0].code is ErrorCode.NONE
    assert outcome["a", 1].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert active.metadata.image.topics["a"].partitions[0].leader == other
    again = await active.controller.elect_leaders([("a", 0)], ElectionReason.PREFERRED, PATIENCE_MS)
    assert again["a", 0].code is ErrorCode.ELECTION_NOT_NEEDED


@brokers(1, 2)
async def test_a_stopped_controller_is_followed_by_another(made: Cluster) -> None:
    old = made.active
    await create(old, "orders", 2, 2)
    await made.remove(old.broker_id)
    [other] = made.members.values()
    await other.shows(lambda image: image.controller_id == other.broker_id and len(image.brokers) == 1)
    assert other.controller.epoch == 2
    await other.quiet()
    assert (await state(other, "orders")).leader == other.broker_id
    with pytest.raises(KafkaError) as refused:
        await old.controller.elect_leaders([], ElectionReason.PREFERRED, 0)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


@brokers(1, 2)
async def test_an_expired_controller_changes_nothing_any_more(made: Cluster) -> None:
    old = made.active
    term = old.controller._term
    assert term is not None
    await create(old, "orders", 1, 2)
    made.ensemble.expire(old.store.session().session_id)
    other = next(each for each in made.members.values() if each is not old)
    await other.shows(lambda image: image.controller_id == other.broker_id)
    assert not old.controller.is_active
    await other.quiet()
    before = await state(other, "orders")
    with pytest.raises(SessionExpiredError):
        await term.write(SetData(znodes.state_path("orders", 0), b"{}"))
    assert await state(other, "orders") == before


@brokers(1)
async def test_a_deposed_controller_is_fenced_by_the_epoch(made: Cluster) -> None:
    """The session lives, but somebody raised the epoch: the next write ends the term, and standing again raises it."""
    active = made.active
    await active.store.set(znodes.CONTROLLER_EPOCH, b"7")
    answers = await active.topic_admin.create([NewTopic("a", 1, 1)], PATIENCE_MS)
    assert answers["a"].outcome.code is ErrorCode.NONE
    assert active.controller.epoch == 8
    assert (await state(active, "a")).controller_epoch == 8


@pytest.mark.parametrize("fault", list(Fault))
@brokers(1)
async def test_writes_without_an_answer_are_looked_up(made: Cluster, fault: Fault) -> None:
    """A quarter of the writes lose their request or their reply; what was asked for still happens, once."""
    active = made.active
    dice = random.Random(11)
    made.ensemble.fault = lambda _session_id, _operations: fault if dice.random() < 0.25 else None
    names = [f"t{number}" for number in range(6)]
    for name in names:
        for _ in range(20):
            answers = await active.topic_admin.create([NewTopic(name, 2, 1)], PATIENCE_MS)
            if answers[name].outcome.code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
            assert answers[name].outcome.code is ErrorCode.REQUEST_TIMED_OUT
    made.ensemble.fault = lambda _session_id, _operations: None
    await active.shows(lambda image: all(image.has_leader(name, 1) for name in names))
    for name in names:
        assert (await state(active, name)).leader_epoch == 0


async def test_an_election_won_without_an_answer_is_won() -> None:
    async with cluster() as made:
        made.ensemble.fault = lambda _session_id, operations: (
            Fault.REPLY_LOST if any(getattr(each, "path", "") == znodes.CONTROLLER for each in operations) else None
        )
        member = await made.add(1)
        assert member.controller.is_active
        assert member.controller.epoch == 1


@brokers(1, 2)
async def test_a_replica_on_a_failed_disk_goes_offline(made: Cluster) -> None:
    active = made.active
    other = 2 if active.broker_id == 1 else 1
    made.brokers[other].leader_error = ErrorCode.KAFKA_STORAGE_ERROR
    await active.topic_admin.create([NewTopic("a", assignment={0: [other, active.broker_id]})], PATIENCE_MS)
    await active.shows(lambda image: image.topics["a"].partitions[0].leader == active.broker_id)
    await active.quiet()
    assert (await state(active, "a")).isr == (active.broker_id,)
    assert active.metadata.image.topics["a"].partitions[0].offline_replicas == (other,)


@brokers(1, 2)
async def test_deletion_waits_for_a_dead_broker(made: Cluster) -> None:
    active = made.active
    other = 2 if active.broker_id == 1 else 1
    await create(active, "orders", 2, 2)
    await made.remove(other)
    await active.shows(lambda image: len(image.brokers) == 1)
    await active.topic_admin.delete(["orders"], PATIENCE_MS)
    await active.quiet()
    assert await active.store.exists("/brokers/topics/orders") is not None
    await made.add(other)
    while await active.store.exists("/admin/delete_topics/orders") is not None:
        await active.quiet()
    assert await active.store.exists("/brokers/topics/orders") is None


async def test_a_broker_id_is_taken_once() -> None:
    async with cluster(1) as made:
        with pytest.raises(Exception, match="broker id 1 is registered"):
            await made.add(1)
        del made.members[1]
