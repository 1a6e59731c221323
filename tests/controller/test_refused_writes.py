"""What the store will never take, such as a node above its limit, or show: whoever asked for it is told, and the controller,
or another one, goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from controller import controller
from controller.elections.leader_election_rules import ElectionReason
from metadata.admin.topic_requests import NewPartitions, NewTopic
from metadata.image import ClusterImage
from metadata.store import znodes
from metadata.store.port import (
    AccessDeniedError,
    Delete,
    NoNodeError,
    Operation,
    OperationResult,
    RefusedError,
    SetData,
    Stat,
    StoreError,
    Transaction,
    Watch,
)
from metadata.store.znodes import ReplicaAssignment, TopicRegistration
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from tests.controller.cluster_steps import KEY, alter_isr, assignment, brokers, code_of, create, state
from tests.controller.harness import PATIENCE_MS, Cluster

LIMIT_BYTES = 2_000


def refuse(made: Cluster, refusal: Callable[[Operation], StoreError | None]) -> Callable[[], None]:
    """Until what is returned is called."""
    transact = made.ensemble.transact

    def refusing(session_id: int, operations: Transaction) -> list[OperationResult]:
        for index, operation in enumerate(operations):
            error = refusal(operation)
            if error is not None:
                error.operation_index = index
                raise error
        return transact(session_id, operations)

    def allow() -> None:
        made.ensemble.transact = transact  # type: ignore[method-assign]

    made.ensemble.transact = refusing  # type: ignore[method-assign]
    return allow


def too_large(operation: Operation) -> StoreError | None:
    return RefusedError(operation.path) if len(getattr(operation, "data", b"")) > LIMIT_BYTES else None


def denied(kind: type[Operation], path: str) -> Callable[[Operation], StoreError | None]:
    def refusal(operation: Operation) -> StoreError | None:
        return AccessDeniedError(path) if isinstance(operation, kind) and operation.path == path else None

    return refusal


@brokers(1, 2)
async def test_a_topic_that_is_too_large_is_not_there(made: Cluster) -> None:
    refuse(made, too_large)
    topics = made.active.topic_admin
    created = await topics.create([NewTopic("large", 500, 1), NewTopic("small", 1, 1)], PATIENCE_MS)
    assert created["large"].outcome.code is ErrorCode.POLICY_VIOLATION
    assert created["small"].outcome.code is ErrorCode.NONE
    await create(made, (1,))
    grown = await topics.grow([NewPartitions("small", 500), NewPartitions("t", 2)], PATIENCE_MS)
    assert grown["small"].code is ErrorCode.POLICY_VIOLATION
    assert grown["t"].code is ErrorCode.NONE


@brokers(1)
async def test_a_topic_that_nobody_can_read_does_not_grow(made: Cluster) -> None:
    await create(made, (1,))
    await made.ensemble_store.set(znodes.topic_path("t"), b"{")
    grown = await made.active.topic_admin.grow([NewPartitions("t", 2)], PATIENCE_MS)
    assert grown["t"].code is ErrorCode.UNKNOWN_SERVER_ERROR


@brokers(1)
async def test_a_topic_whose_node_takes_no_id_has_none(made: Cluster) -> None:
    refuse(made, denied(SetData, znodes.topic_path("t")))
    registration = TopicRegistration(ZERO_UUID, {0: ReplicaAssignment((1,))})
    await made.ensemble_store.create(znodes.topic_path("t"), registration.encode())
    await made.members[1].shows(lambda image: image.has_leader("t", 0))
    assert made.members[1].metadata.image.topic_id("t") == ZERO_UUID


@brokers(1, 2, 3, 4)
async def test_a_reassignment_that_cannot_be_written_is_refused(made: Cluster) -> None:
    """While a topic is reassigned its node says three times as much of each partition."""
    await create(made, *[(1, 2)] * 100)
    refuse(made, too_large)
    controller = made.active.controller
    outcomes = await controller.alter_reassignments({("t", index): [3, 4] for index in range(100)})
    assert {each.code for each in outcomes.values()} == {ErrorCode.POLICY_VIOLATION}
    assert await controller.list_reassignments() == {}
    outcomes = await controller.alter_reassignments({KEY: [3, 4]})
    assert outcomes[KEY].code is ErrorCode.NONE
    again = await controller.alter_reassignments({("t", index): [3, 4, 1] for index in range(100)})
    assert {each.code for each in again.values()} == {ErrorCode.POLICY_VIOLATION}
    assert list(await controller.list_reassignments()) == [KEY], "what was under way goes on"
    assert code_of(await alter_isr(made, [1, 2, 3, 4])) is ErrorCode.NONE
    await made.active.quiet()
    assert (await assignment(made, KEY)).replicas == (3, 4)
    assert (await assignment(made, ("t", 99))).replicas == (1, 2)


@brokers(1, 2)
async def test_a_reassignment_of_a_topic_that_is_gone(made: Cluster) -> None:
    await create(made, (1,))

    def gone(operation: Operation) -> StoreError | None:
        """The nodes go by hand between the read and the write."""
        return NoNodeError(operation.path) if operation.path == znodes.topic_path("t") else None

    refuse(made, gone)
    outcomes = await made.active.controller.alter_reassignments({KEY: [2]})
    assert outcomes[KEY].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await made.active.controller.list_reassignments() == {}


@brokers(1, 2)
async def test_a_wish_that_cannot_be_written_goes(made: Cluster) -> None:
    await create(made, (1,))
    refuse(made, denied(SetData, znodes.topic_path("t")))
    await made.ensemble_store.create(znodes.REASSIGNMENTS, znodes.encode_reassignments({KEY: [2]}))
    await made.active.quiet()
    assert await made.ensemble_store.exists(znodes.REASSIGNMENTS) is None
    assert await made.active.controller.list_reassignments() == {}


@pytest.mark.parametrize("path", [znodes.REASSIGNMENTS, znodes.PREFERRED_ELECTION])
@brokers(1)
async def test_a_wish_that_cannot_be_taken_away_is_read_once(made: Cluster, path: str) -> None:
    await create(made, (1,))
    refuse(made, denied(Delete, path))
    await made.ensemble_store.create(path, znodes.encode_topic_partitions([]))
    await made.active.quiet()
    assert made.active.controller.is_active


@brokers(1, 2)
async def test_a_state_that_cannot_be_written_leaves_all_others(made: Cluster) -> None:
    await create(made, (1, 2), (1, 2))
    allow = refuse(made, denied(SetData, znodes.state_path(*KEY)))
    before = await state(made)
    assert code_of(await alter_isr(made, [1])) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert await state(made) == before
    context = made.active.controller.context
    assert context is not None
    assert context.leadership[KEY].isr == (1, 2), "what is not written is not believed"
    assert code_of(await alter_isr(made, [1], ("t", 1))) is ErrorCode.NONE
    allow()
    assert code_of(await alter_isr(made, [1])) is ErrorCode.NONE


@brokers(1, 2)
async def test_a_leader_that_cannot_be_written_is_none(made: Cluster) -> None:
    await create(made, (2, 1), (2, 1))
    refuse(made, denied(SetData, znodes.state_path(*KEY)))
    await made.remove(2)
    await made.active.shows(lambda image: _leader_of(image, 1) == 1)
    await made.active.quiet()
    assert (await state(made)).leader == 2
    outcomes = await made.active.controller.elect_leaders([KEY], ElectionReason.PREFERRED, 0)
    assert outcomes[KEY].code is not ErrorCode.NONE


@brokers(1, 2, 3)
async def test_a_term_ends_with_what_its_controller_may_not_write(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And who had asked hears it; the next term goes on as soon as it may."""
    monkeypatch.setattr(controller, "REFUSAL_BACKOFF_S", 0.01)
    await create(made, (1,))
    allow = refuse(made, denied(SetData, znodes.state_path(*KEY)))
    first_epoch = made.active.controller.epoch
    with pytest.raises(KafkaError) as told:
        await made.active.controller.alter_reassignments({KEY: [2, 3]})
    assert told.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    allow()
    await made.settled()
    assert made.active.controller.epoch > first_epoch
    assert list(await made.active.controller.list_reassignments()) == [KEY]


@brokers(1, 2, 3)
async def test_who_waits_for_a_controller_that_gives_way_hears_it_at_once(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "REFUSAL_BACKOFF_S", 3600)
    monkeypatch.setattr(controller, "CLOSE_TIMEOUT_S", 0.05)
    await create(made, (1,))
    refuse(made, denied(SetData, znodes.state_path(*KEY)))
    active = made.active.controller
    refused = asyncio.ensure_future(active.alter_reassignments({KEY: [2, 3]}))
    behind = asyncio.ensure_future(active.list_reassignments())
    async with asyncio.timeout(PATIENCE_MS / 1000):
        outcomes = await asyncio.gather(refused, behind, return_exceptions=True)
    codes = [outcome.code for outcome in outcomes if isinstance(outcome, KafkaError)]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER]


@brokers(1, 2)
async def test_a_controller_that_may_not_read_gives_way_to_one_that_may(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "REFUSAL_BACKOFF_S", 3600)
    monkeypatch.setattr(controller, "CLOSE_TIMEOUT_S", 0.05)
    denied_to = made.active
    session = denied_to.store.session()
    read_many = session.read_many

    async def denying(paths: Sequence[str], watch: Watch | None = None) -> list[tuple[bytes, Stat] | None]:
        if znodes.topic_path("t") in paths:
            raise AccessDeniedError(znodes.topic_path("t"))
        found: list[tuple[bytes, Stat] | None] = await read_many(paths, watch)
        return found

    monkeypatch.setattr(session, "read_many", denying)
    registration = TopicRegistration(ZERO_UUID, {0: ReplicaAssignment((1,))})
    await made.ensemble_store.create(znodes.topic_path("t"), registration.encode())
    for member in made.members.values():
        await member.shows(lambda image: image.has_leader("t", 0))
    await made.settled()
    assert made.active is not denied_to


def _leader_of(image: ClusterImage, partition: int) -> int | None:
    known = image.partition("t", partition)
    return None if known is None else known.leader
