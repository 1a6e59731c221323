"""Several brokers: notifications in the tree, brokers and controllers that come, go and change."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from metadata.admin.topic_requests import NewTopic
from metadata.store import znodes
from metadata.store.port import Create, Delete, OperationResult, SetData, Transaction, Watch
from metadata.store.znodes import FinalizedFeatures, PartitionState, ReplicaAssignment, TopicRegistration
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from protocol.primitives import ZERO_UUID
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
    until,
    until_true,
)
from tests.controller.harness import PATIENCE_MS, Cluster, Member
from tests.simulation.store import Fault, SimulatedSession

# Of the store.
CALLS = ("get", "exists", "children", "read_many", "sync", "create", "set", "delete", "multi", "write_many")
MOST_CALLS = 100  # of all members, while one takes over

# --- notifications ---


@brokers(1, 2)
async def test_changed_isrs_told_through_the_tree(made: Cluster) -> None:
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


async def lose_directory(made: Cluster, broker_id: int) -> None:
    data = znodes.encode_log_dir_event(broker_id)
    await made.ensemble_store.create(znodes.log_dir_event_path(), data, sequential=True)


@brokers(1, 2)
async def test_a_failed_log_directory_is_asked_about(made: Cluster) -> None:
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


@brokers(1, 2)
async def test_what_was_lost_with_a_directory_is_not_lost_to_a_topic_of_the_same_name(made: Cluster) -> None:
    """The replica has gone elsewhere: the next one may be in any directory that works."""
    active = made.active.broker_id
    other = 3 - active
    await create(made, (other, active))
    made.brokers[other].leader_error = ErrorCode.KAFKA_STORAGE_ERROR
    await lose_directory(made, other)
    await made.active.shows(lambda image: image.topics["t"].partitions[0].offline_replicas == (other,))
    made.brokers[other].leader_error = ErrorCode.NONE
    await made.active.controller.alter_reassignments({KEY: [active]})
    await made.active.topic_admin.delete(["t"], PATIENCE_MS)

    async def is_gone() -> bool:
        return await made.ensemble_store.exists(znodes.topic_path("t")) is None

    await until(is_gone)
    await made.active.quiet()
    await create(made, (other,))
    assert (await state(made)).leader == other


# --- brokers ---


@brokers(1, 2)
async def test_a_bounced_broker_is_a_failure_and_a_start(made: Cluster) -> None:
    """Its node was replaced between two looks: the higher czxid tells."""
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
    await until_true(lambda: bool(told(made.members[other])))
    first = made.brokers[other].requests[0]
    assert isinstance(first, UpdateMetadataRequest)
    assert first.broker_epoch == made.epoch(other)
    assert told(made.members[other])[-1].leader == active.broker_id


@brokers(1, 2)
async def test_an_answer_of_the_life_before_does_not_undo_what_the_next_was_asked(
    made: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes while the controller looks who lives, and so is heard after the next life was asked to delete."""
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
    deletion = asyncio.ensure_future(active.topic_admin.delete(["t"], PATIENCE_MS))
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


@brokers(1, 2)
async def test_a_broker_that_moves_keeps_what_waits_for_it(made: Cluster) -> None:
    active = made.active
    other = 3 - active.broker_id
    made.brokers[other].is_reachable = False
    created = await active.topic_admin.create([NewTopic("t", assignment={0: [other]})], 50)
    assert created["t"].outcome.code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
    assert active.controller.request_queue_sizes()[other] > 0
    await made.members[other].register(port=19_092)
    await active.shows(lambda image: image.brokers[other].endpoints["PLAINTEXT"].port == 19_092)
    made.brokers[other].is_reachable = True
    await until_true(lambda: bool(told(made.members[other])))


def test_a_broker_out_of_reach_is_one_line_and_not_one_for_each_attempt(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(made: Cluster) -> None:
        await create(made, (1, 2), (1, 2))
        other = next(each.broker for each in made.members.values() if each is not made.active)
        with caplog.at_level("INFO", "controller.requests.channels"):
            other.is_reachable = False
            await made.active.controller.alter_reassignments({KEY: [2, 1]})
            await until_true(lambda: other.refused_count >= 4)
            other.is_reachable = True
            await until_true(lambda: made.active.controller.request_queue_sizes()[other.broker_id] == 0)

    together(scenario, 1, 2)
    told = [record.getMessage() for record in caplog.records if record.name == "controller.requests.channels"]
    assert len(told) == 2, told
    assert "not answered" in told[0]
    assert "responds again" in told[1]


@brokers(1)
async def test_unreadable_nodes_are_passed_over(made: Cluster) -> None:
    await create(made, (1,))
    await made.ensemble_store.create(znodes.topic_path("bad"), b"[]")
    await made.ensemble_store.create(f"{znodes.BROKER_IDS}/8", b"{}")
    await made.ensemble_store.create(f"{znodes.BROKER_IDS}/x", b"{}")
    await create(made, (1,), topic="good")
    await made.ensemble_store.delete(znodes.CONTROLLER)
    await made.settled()
    assert made.active.controller.epoch == 2
    assert sorted(made.active.metadata.image.topics) == ["good", "t"]


# --- controllers ---


@brokers(1)
async def test_a_partition_whose_state_its_controller_could_not_write_any_more(made: Cluster) -> None:
    """Apache Kafka makes a partition's node and its state one after the other, and may die between them."""
    path = znodes.topic_path("t")
    registration = TopicRegistration(ZERO_UUID, {index: ReplicaAssignment((1,)) for index in range(2)})
    half_made = [znodes.partitions_path("t"), znodes.partition_path("t", 0)]
    await made.ensemble_store.multi([Create(path, registration.encode()), *map(Create, half_made)])
    await made.active.shows(lambda image: image.has_leader("t", 0) and image.has_leader("t", 1))
    assert (await state(made, ("t", 0))).isr == (1,)


@brokers(1)
async def test_names_that_are_no_numbers_do_not_keep_a_topic_from_going(made: Cluster) -> None:
    await create(made, (1,))
    await made.ensemble_store.create(f"{znodes.partitions_path('t')}/x")
    await made.ensemble_store.create(f"{znodes.BROKER_IDS}/\u00b2")
    outcome = await made.active.topic_admin.delete(["t"], PATIENCE_MS)
    assert outcome["t"].code is ErrorCode.NONE

    async def is_gone() -> bool:
        return await made.ensemble_store.exists(znodes.topic_path("t")) is None

    await until(is_gone)


@brokers(1)
async def test_a_topic_grows_while_it_gets_its_id(made: Cluster) -> None:
    """The id that brokers hear of is the one in the topic's node: the next controller reads it there."""
    path = znodes.topic_path("t")
    one = TopicRegistration(ZERO_UUID, {0: ReplicaAssignment((1,))})
    two = TopicRegistration(ZERO_UUID, {0: ReplicaAssignment((1,)), 1: ReplicaAssignment((1,))})
    transact = made.ensemble.transact

    def transact_late(session_id: int, operations: Transaction) -> list[OperationResult]:
        if any(isinstance(each, SetData) and each.path == path for each in operations):
            made.ensemble.transact = transact  # type: ignore[method-assign]
            transact(session_id, [SetData(path, two.encode())])
        return transact(session_id, operations)

    made.ensemble.transact = transact_late  # type: ignore[method-assign]
    await made.ensemble_store.create(path, one.encode())
    await made.members[1].shows(lambda image: "t" in image.topics and len(image.topics["t"].partitions) == 2)
    data, _ = await made.ensemble_store.get(path)
    topic_id = TopicRegistration.decode("t", data).topic_id
    assert topic_id != ZERO_UUID
    assert made.members[1].metadata.image.topic_id("t") == topic_id


@brokers(1, 2, 3)
async def test_an_operator_deletes_the_controller_node(made: Cluster) -> None:
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


@brokers(1)
async def test_the_features_of_a_cluster(made: Cluster) -> None:
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
    response = (await made.active.controller.update_features(request, 1)).response
    assert response.error_code == 0
    assert {row.error_code for row in response.results} == {ErrorCode.INVALID_REQUEST}
    assert [row.feature for row in response.results] == ["metadata.version", "", "a", "b", "c"]
    assert all(row.error_message for row in response.results)

    await made.ensemble_store.set(znodes.FEATURE, FinalizedFeatures({"old": 2}).encode())
    deletion = FeatureUpdateKey(feature="old", max_version_level=0, allow_downgrade=True)
    deleted = await made.active.controller.update_features(UpdateFeaturesRequest(feature_updates=[deletion]), 0)
    response = deleted.response
    assert [row.error_code for row in response.results] == [0]
    data, _ = await made.ensemble_store.get(znodes.FEATURE)
    assert data == b'{"features":{},"version":2,"status":1}'


@brokers(1, settings={"inter.broker.protocol.version": "2.6"})
async def test_features_are_switched_off_for_old_brokers(made: Cluster) -> None:
    data, _ = await made.ensemble_store.get(znodes.FEATURE)
    assert FinalizedFeatures.decode(data).is_enabled is False
    await made.active.topic_admin.create([NewTopic("t", 1, 1)], PATIENCE_MS)
    data, _ = await made.ensemble_store.get(znodes.topic_path("t"))
    assert b"topic_id" not in data


@brokers(1, 2)
async def test_producer_ids_for_brokers_that_are_known(made: Cluster) -> None:
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


@brokers(1)
async def test_producer_ids_are_not_guessed(made: Cluster) -> None:
    await made.ensemble_store.set(znodes.PRODUCER_ID_BLOCK, b"nonsense")
    with pytest.raises(KafkaError) as refused:
        await made.active.controller.allocate_producer_ids(1)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert made.active.controller.is_active


@brokers(1, 2, settings={"barnabas.host.id": "a"})
async def test_replicas_are_put_on_different_machines(made: Cluster) -> None:
    for broker_id, host in ((3, "b"), (4, "b")):
        await made.add(broker_id, settings={"barnabas.host.id": host})
    for member in made.members.values():
        await member.shows(lambda image: len(image.brokers) == 4)
    created = await made.active.topic_admin.create([NewTopic("t", 12, 2)], PATIENCE_MS)
    assert created["t"].outcome.code is ErrorCode.NONE
    for partition in made.active.metadata.image.topics["t"].partitions.values():
        assert len({each > 2 for each in partition.replicas}) == 2, "1 and 2 are one machine, 3 and 4 another"


def test_a_thousand_partitions_are_taken_over_in_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call of the store, and no request to a broker, is for one partition."""
    calls: Counter[str] = Counter()

    def counted(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def count(*arguments: object, **options: object) -> object:
            calls[name] += 1
            return call(*arguments, **options)

        return count

    async def scenario(made: Cluster) -> None:
        created = await made.active.topic_admin.create([NewTopic("t", 1_000, 3)], PATIENCE_MS)
        assert created["t"].outcome.code is ErrorCode.NONE
        for member in made.members.values():
            await member.shows(lambda image: len(image.topics["t"].partitions) == 1_000)
            member.broker.requests.clear()
        for name in CALLS:
            monkeypatch.setattr(SimulatedSession, name, counted(name, getattr(SimulatedSession, name)))
        await made.ensemble_store.delete(znodes.CONTROLLER)
        await made.settled()
        for member in made.members.values():
            await until_true(lambda member=member: _rows(member) == 1_000)  # type: ignore[misc]
        assert calls["read_many"] > 0
        assert calls.total() < MOST_CALLS
        assert all(len(member.broker.received(LeaderAndIsrRequest)) == 1 for member in made.members.values())

    def _rows(member: Member) -> int:
        requests = member.broker.received(LeaderAndIsrRequest)
        return sum(len(topic.partition_states) for request in requests for topic in request.topic_states)

    together(scenario, 1, 2, 3)
