"""Partitions that move between the brokers of a cluster, asked for by request or wished in the tree."""

from __future__ import annotations

import gc
from types import TracebackType

import pytest

from controller.controller_context import ReplicaPhase
from controller.controller_term import Term
from controller.elections.leader_election_rules import ElectionReason
from metadata.admin.topic_requests import NewTopic
from metadata.store import znodes
from metadata.store.port import NoNodeError
from metadata.store.znodes import ReplicaAssignment
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from tests.controller.cluster_steps import (
    KEY,
    alter_isr,
    assignment,
    brokers,
    code_of,
    create,
    state,
    stopped,
    told,
    until,
)
from tests.controller.harness import PATIENCE_MS, Cluster


@brokers(1, 2, 3, 4)
async def test_a_partition_moves_to_other_replicas(made: Cluster) -> None:
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


@brokers(1, 2, 3, 4)
async def test_a_reassignment_is_called_off(made: Cluster) -> None:
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


@brokers(1, 2)
async def test_reassignments_that_cannot_be(made: Cluster) -> None:
    await create(made, (1,), (1,), (1,), (1,))
    outcomes = await made.active.controller.alter_reassignments(
        {("t", 0): [], ("t", 1): [2, 2], ("t", 2): [9], ("t", 3): [-1], ("x", 0): [2]}
    )
    codes = [each.code for each in outcomes.values()]
    assert codes == [*[ErrorCode.INVALID_REPLICA_ASSIGNMENT] * 4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await assignment(made, ("t", 2)) == ReplicaAssignment((1,))


@pytest.mark.parametrize("ask", ["alter", "list", "elect"])
@brokers(1)
async def test_others_run_while_a_request_names_many_partitions(
    made: Cluster, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaths: list[None] = []

    async def yield_if_due(_: Term) -> None:
        breaths.append(None)

    wanted = [("gone", index) for index in range(100)]
    controller = made.active.controller
    await made.active.quiet()
    monkeypatch.setattr(Term, "yield_if_due", yield_if_due)
    if ask == "alter":
        await controller.alter_reassignments(dict.fromkeys(wanted, (1,)))
    elif ask == "list":
        assert await controller.list_reassignments(wanted) == {}
    else:
        await controller.elect_leaders(wanted, ElectionReason.PREFERRED, 0)
    assert len(breaths) >= 100


@pytest.mark.parametrize("by_request", [True, False])
@brokers(1, 2)
async def test_a_topic_s_node_is_written_once_for_all_partitions_of_a_wish(made: Cluster, *, by_request: bool) -> None:
    await create(made, *[(1,)] * 20)
    _, before = await made.ensemble_store.get(znodes.topic_path("t"))
    wishes = {("t", index): [2] for index in range(20)}
    if by_request:
        await made.active.controller.alter_reassignments(wishes)
    else:
        await made.ensemble_store.create(znodes.REASSIGNMENTS, znodes.encode_reassignments(wishes))
        await made.active.quiet()
    _, after = await made.ensemble_store.get(znodes.topic_path("t"))
    assert after.version == before.version + 1
    assert set(await made.active.controller.list_reassignments()) == set(wishes)


@brokers(1)
async def test_refusals_leave_nothing_behind(made: Cluster) -> None:
    """A client may go on asking for a partition that is not there, for weeks."""
    controller = made.active.controller
    await controller.alter_reassignments({("gone", 0): [1]})
    gc.collect()
    before = sum(isinstance(each, TracebackType) for each in gc.get_objects())
    await controller.alter_reassignments({("gone", index): [1] for index in range(1_000)})
    gc.collect()
    after = sum(isinstance(each, TracebackType) for each in gc.get_objects())
    assert after < before + 100


@brokers(1, 2, 3)
async def test_a_new_controller_finishes_a_reassignment(made: Cluster) -> None:
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


@brokers(1, 2, 3)
async def test_a_reassignment_waits_for_a_broker_that_is_away(made: Cluster) -> None:
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


@brokers(1, 2, 3)
async def test_reassignments_wished_in_the_tree(made: Cluster) -> None:
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


@pytest.mark.parametrize(
    "rows", ['[{"topic":1}]', "[5]", "[null]", '[{"topic":"t","partition":{}}]', '[{"topic":"t","partition":1e999}]']
)
@brokers(1)
async def test_an_unreadable_wish_goes(made: Cluster, rows: str) -> None:
    """Whatever an operator wrote there: it must not take one controller after the other with it."""
    for path in (znodes.REASSIGNMENTS, znodes.PREFERRED_ELECTION):
        await made.ensemble_store.create(path, b'{"version":1,"partitions":%s}' % rows.encode())

        async def is_gone(path: str = path) -> bool:
            return await made.ensemble_store.exists(path) is None

        await until(is_gone)
    await create(made, (1,))


@pytest.mark.parametrize("data", [b"", b"{}", b'{"broker":null}', b'{"broker":1e999}', b'{"partitions":[5]}'])
@brokers(1)
async def test_unreadable_notifications_go(made: Cluster, data: bytes) -> None:
    for parent in (znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS):
        path = await made.ensemble_store.create(f"{parent}/some_", data, sequential=True)

        async def is_gone(path: str = path) -> bool:
            return await made.ensemble_store.exists(path) is None

        await until(is_gone)
    await create(made, (1,))


async def _is_gone(made: Cluster) -> bool:
    return await made.ensemble_store.exists(znodes.topic_path("t")) is None


@pytest.mark.parametrize("by_request", [True, False])
@brokers(1, 2)
async def test_a_topic_s_deletion_ends_its_reassignments(made: Cluster, *, by_request: bool) -> None:
    controller = made.active.controller
    await create(made, (1,), (1,))
    await create(made, (1,), topic="other")
    wishes = {KEY: (2,), ("other", 0): (2,)}
    if by_request:
        await controller.alter_reassignments({key: list(target) for key, target in wishes.items()})
    else:
        await made.ensemble_store.create(znodes.REASSIGNMENTS, znodes.encode_reassignments(wishes))
        await made.active.quiet()
    assert set(await controller.list_reassignments()) == set(wishes)
    deleted = await made.active.topic_admin.delete(["t"], PATIENCE_MS)
    assert deleted["t"].code is ErrorCode.NONE
    await until(lambda: _is_gone(made))
    for member in made.members.values():
        assert stopped(member) == [False, True]
    assert list(await controller.list_reassignments()) == [("other", 0)]
    if not by_request:
        data, _ = await made.ensemble_store.get(znodes.REASSIGNMENTS)
        assert znodes.decode_reassignments(data) == {("other", 0): (2,)}
    await create(made, (2,))
    assert await assignment(made) == ReplicaAssignment((2,))
    assert list(await controller.list_reassignments()) == [("other", 0)]


async def _delete_while_the_target_is_away(made: Cluster) -> tuple[int, int]:
    """Answers (where its replica is, the target)."""
    stays, target = (each for each in (1, 2, 3) if each != made.active.broker_id)
    await create(made, (stays,))
    await made.active.controller.alter_reassignments({KEY: [target]})
    await made.remove(target)
    await made.active.shows(lambda image: target not in image.brokers)
    deleted = await made.active.topic_admin.delete(["t"], PATIENCE_MS)
    assert deleted["t"].code is ErrorCode.NONE
    await made.active.quiet()
    assert stopped(made.members[stays]) == [False, True], "it takes no more records"
    return stays, target


@brokers(1, 2, 3)
async def test_a_topic_that_moves_to_a_broker_that_is_away_is_deleted(made: Cluster) -> None:
    """Where it was, at once; its name is free when the target is back, which may hold some of it."""
    stays, target = await _delete_while_the_target_is_away(made)
    controller = made.active.controller
    assert controller.counts().topics_ineligible_to_delete == 1
    moving = {KEY: ReplicaAssignment((target, stays), adding=(target,), removing=(stays,))}
    assert await controller.list_reassignments() == await controller.list_reassignments([KEY]) == moving
    for wish in (None, [stays], [made.active.broker_id]):
        refused = await controller.alter_reassignments({KEY: wish})
        assert refused[KEY].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await made.ensemble_store.create(znodes.REASSIGNMENTS, znodes.encode_reassignments({KEY: (stays,)}))

    async def wish_is_gone() -> bool:
        return await made.ensemble_store.exists(znodes.REASSIGNMENTS) is None

    await until(wish_is_gone)
    new = NewTopic("t", assignment={0: [stays]})
    too_early = await made.active.topic_admin.create([new], PATIENCE_MS)
    assert too_early["t"].outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS
    heard = len(told(made.members[stays]))
    await made.add(target)
    await until(lambda: _is_gone(made))
    await made.active.quiet()
    assert told(made.members[target]) == []
    assert stopped(made.members[target]) == [False, True]
    assert len(told(made.members[stays])) == heard
    assert await controller.list_reassignments() == {}
    await create(made, (target,))
    assert controller.counts().topics_ineligible_to_delete == 0


@brokers(1, 2, 3)
async def test_a_new_controller_goes_on_with_the_deletion_of_a_topic_that_moved(made: Cluster) -> None:
    """Nobody who has deleted a replica is told to make it again."""
    stays, target = await _delete_while_the_target_is_away(made)
    heard = len(told(made.members[stays]))
    await made.ensemble_store.delete(znodes.CONTROLLER)
    await made.settled()
    await made.active.quiet()
    assert made.active.controller.epoch == 2
    assert made.active.controller.counts().topics_ineligible_to_delete == 1
    refused = await made.active.controller.alter_reassignments({KEY: None})
    assert refused[KEY].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await made.add(target)
    await until(lambda: _is_gone(made))
    await made.active.quiet()
    assert len(told(made.members[stays])) == heard
    assert told(made.members[target]) == []
    assert stopped(made.members[target])[-1] is True
    assert await made.active.controller.list_reassignments() == {}
    await create(made, (target,))


@brokers(1, 2)
async def test_replicas_on_their_way_out_are_deleted_with_their_topic(made: Cluster) -> None:
    """A controller that died between noting a wish and stopping what it made needless has left them in sync."""
    await create(made, (1, 2))
    context = made.active.controller.context
    assert context is not None
    context.set_assignment(KEY, ReplicaAssignment((1,)))
    context.forget_replica(("t", 0, 2))
    await made.active.topic_admin.delete(["t"], PATIENCE_MS)
    await until(lambda: _is_gone(made))
    assert stopped(made.members[2]) == [False, True]


@brokers(1, 2, 3)
async def test_a_broker_comes_back_while_another_deletes(made: Cluster) -> None:
    """Its replica was passed over when the deletion began, and nobody else would ask for it."""
    ours = made.active.broker_id
    slow, away = (each for each in (1, 2, 3) if each != ours)
    await create(made, (ours, slow, away))
    await made.remove(away)
    await made.active.shows(lambda image: away not in image.brokers)
    await made.active.quiet()
    made.brokers[slow].is_reachable = False
    await made.active.topic_admin.delete(["t"], 50)
    await made.active.quiet()
    await made.add(away)
    await made.active.quiet()
    made.brokers[slow].is_reachable = True

    async def is_gone() -> bool:
        return await made.ensemble_store.exists(znodes.topic_path("t")) is None

    await until(is_gone)
