"""The whole controller over the embedded store, as the only broker: its election, topics, producer ids, settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from metadata.admin.replication_policy import FallBackToOneReplica
from metadata.admin.topic_requests import NewPartitions, NewTopic
from metadata.admin.topic_rules import MAX_NEW_PARTITIONS
from metadata.store import configs, znodes
from metadata.store.port import NodeExistsError, WatchEvent
from metadata.store.znodes import ReplicaAssignment, TopicRegistration
from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.stop_replica import StopReplicaRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from protocol.primitives import ZERO_UUID, uuid_to_text
from runtime.clock import SystemClock
from runtime.slices import Slices
from tests.async_tests import played_by
from tests.controller.harness import PATIENCE_MS, Member, embedded_member
from tests.controller.member_steps import create, state


def alone(folder: Path, scenario: Callable[[Member], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        async with embedded_member(folder, **options) as member:
            await scenario(member)

    asyncio.run(run())


@played_by(alone, "tmp_path")
async def test_one_broker_elects_itself_and_tells_itself(member: Member) -> None:
    assert member.controller.is_active
    assert member.controller.epoch == 1
    assert member.metadata.image.controller_id == 0
    data, stat = await member.store.get(znodes.CONTROLLER)
    assert znodes.decode_controller(data) == 0
    assert stat.is_ephemeral
    epoch, epoch_stat = await member.store.get(znodes.CONTROLLER_EPOCH)
    assert (epoch, epoch_stat.version) == (b"1", 1)


@played_by(alone, "tmp_path")
async def test_a_created_topic_is_online_when_the_answer_comes(member: Member) -> None:
    created = await member.topic_admin.create(
        [NewTopic("orders", 3, 1, config={"retention.ms": "86400000"})], PATIENCE_MS
    )
    topic_id = created["orders"].topic_id
    image = member.metadata.image
    assert all(image.has_leader("orders", each) for each in range(3))
    assert image.names_by_id[topic_id] == "orders"

    data, _ = await member.store.get("/brokers/topics/orders")
    text = uuid_to_text(topic_id)
    assert data.decode() == (
        f'{{"partitions":{{"0":[0],"1":[0],"2":[0]}},"topic_id":"{text}",'
        '"adding_replicas":{},"removing_replicas":{},"version":3}'
    )
    data, stat = await member.store.get("/brokers/topics/orders/partitions/2/state")
    assert data == b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
    assert stat.version == 0
    data, _ = await member.store.get("/config/topics/orders")
    assert data == b'{"version":1,"config":{"retention.ms":"86400000"}}'


@played_by(alone, "tmp_path")
async def test_the_broker_hears_leader_and_isr_before_metadata(member: Member) -> None:
    member.broker.requests.clear()
    await create(member, "orders", 2)
    first, second = member.broker.requests[:2]
    assert isinstance(first, LeaderAndIsrRequest)
    assert isinstance(second, UpdateMetadataRequest)
    [topic] = first.topic_states
    assert [each.partition_index for each in topic.partition_states] == [0, 1]
    assert all(each.is_new and each.leader == 0 and each.isr == [0] for each in topic.partition_states)
    assert topic.topic_id != ZERO_UUID
    assert first.broker_epoch == member.epoch > 0
    assert (first.controller_id, first.controller_epoch) == (0, 1)
    assert [(each.broker_id, each.port) for each in first.live_leaders] == [(0, 9092)]
    assert second.live_brokers[0].endpoints[0].port == 9092
    assert len(member.broker.requests) == 2


def test_a_restart_finds_everything_again_with_a_higher_controller_epoch(tmp_path: Path) -> None:
    async def first(member: Member) -> None:
        await create(member, "orders", 2)

    async def second(member: Member) -> None:
        await member.shows(lambda image: image.has_leader("orders", 1))
        assert member.controller.epoch == 2
        assert (await state(member, "orders")).leader_epoch == 0
        request = member.broker.received(LeaderAndIsrRequest)[0]
        assert isinstance(request, LeaderAndIsrRequest)
        assert [each.is_new for each in request.topic_states[0].partition_states] == [False, False]
        kinds = [type(each) for each in member.broker.requests]
        assert kinds == [UpdateMetadataRequest, LeaderAndIsrRequest, UpdateMetadataRequest]

    alone(tmp_path, first)
    alone(tmp_path, second)


@played_by(alone, "tmp_path")
async def test_a_deleted_topic_leaves_nothing(member: Member) -> None:
    await create(member, "orders", 3)
    before = set(await nodes(member))
    member.broker.requests.clear()
    outcome = await member.topic_admin.delete(["orders"], PATIENCE_MS)
    assert outcome["orders"].code is ErrorCode.NONE
    assert "orders" not in member.metadata.image.topics
    while await member.store.exists("/admin/delete_topics/orders") is not None:
        await member.quiet()
    left = {path for path in await nodes(member) if "orders" in path}
    assert not left, before
    stops = member.broker.received(StopReplicaRequest)
    assert [each.topic_states[0].partition_states[0].delete_partition for each in stops] == [False, True]
    assert {each.leader_epoch for each in stops[1].topic_states[0].partition_states} == {-2}
    await create(member, "orders")


async def nodes(member: Member, path: str = "/") -> list[str]:
    found = [path]
    for name in await member.store.children(path):
        found += await nodes(member, f"{path.rstrip('/')}/{name}")
    return found


def test_files_that_cannot_be_deleted_keep_the_wish(tmp_path: Path) -> None:
    async def first(member: Member) -> None:
        await create(member, "orders")
        member.broker.deletion_error = ErrorCode.KAFKA_STORAGE_ERROR
        await member.topic_admin.delete(["orders"], PATIENCE_MS)
        await member.quiet()
        assert await member.store.exists("/brokers/topics/orders") is not None
        created = await member.topic_admin.create([NewTopic("orders", 1, 1)], PATIENCE_MS)
        assert created["orders"].outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert created["orders"].outcome.message == "Topic 'orders' is marked for deletion."

    async def second(member: Member) -> None:
        while await member.store.exists("/admin/delete_topics/orders") is not None:
            await member.quiet()
        assert await member.store.exists("/brokers/topics/orders") is None

    alone(tmp_path, first)
    alone(tmp_path, second)


@played_by(alone, "tmp_path", settings={"delete.topic.enable": "false"})
async def test_deletion_may_be_disabled(member: Member) -> None:
    await create(member, "orders")
    await member.store.create("/admin/delete_topics/orders")
    while await member.store.exists("/admin/delete_topics/orders") is not None:
        await member.quiet()
    assert member.metadata.image.has_leader("orders", 0)


@played_by(alone, "tmp_path")
async def test_a_topic_grows(member: Member) -> None:
    await create(member, "orders", 2)
    topic_id = member.metadata.image.topic_id("orders")
    outcome = await member.topic_admin.grow([NewPartitions("orders", 5)], PATIENCE_MS)
    assert outcome["orders"].code is ErrorCode.NONE
    assert sorted(member.metadata.image.topics["orders"].partitions) == [0, 1, 2, 3, 4]
    data, _ = await member.store.get("/brokers/topics/orders")
    assert TopicRegistration.decode("orders", data).topic_id == topic_id

    refused = await member.topic_admin.grow(
        [NewPartitions("orders", 5), NewPartitions("missing", 2), NewPartitions("orders2", 0)], PATIENCE_MS
    )
    assert refused["orders"].code is ErrorCode.INVALID_PARTITIONS
    assert refused["orders"].message == "Topic already has 5 partitions."
    assert refused["missing"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    dry = await member.topic_admin.grow([NewPartitions("orders", 9)], PATIENCE_MS, validate_only=True)
    assert dry["orders"].code is ErrorCode.NONE
    assert len(member.metadata.image.topics["orders"].partitions) == 5


@played_by(alone, "tmp_path")
async def test_a_request_for_more_partitions_than_anybody_has_is_refused_at_once(member: Member) -> None:
    """All of a request is planned and told in one go: two million would keep everybody from the broker until it gave up."""
    most = MAX_NEW_PARTITIONS
    admin = member.topic_admin
    asked = [NewTopic("one", 2_000_000, 1), NewTopic("two", most, 1), NewTopic("three", 1, 1)]
    created = await admin.create(asked, 0, validate_only=True)
    assert created["one"].outcome.code is ErrorCode.POLICY_VIOLATION
    assert created["two"].outcome.code is ErrorCode.NONE
    assert created["three"].outcome.code is ErrorCode.POLICY_VIOLATION
    assert created["three"].outcome.message == (
        f"Excessively large number of partitions per request: 1 in addition to {most}, at most {most}."
    )
    await create(member, "orders", 2)
    wanted = [NewPartitions("orders", most + 3), NewPartitions("orders", most + 2), NewPartitions("orders", 3)]
    for each, code in zip(wanted, (ErrorCode.POLICY_VIOLATION, ErrorCode.NONE, ErrorCode.NONE), strict=True):
        assert (await admin.grow([each], PATIENCE_MS, validate_only=True))["orders"].code is code


@played_by(alone, "tmp_path", settings={"num.partitions": "2000000"})
async def test_automatic_topics_are_no_larger_than_others(member: Member) -> None:
    answers = await member.topic_admin.auto_create(["orders"])
    assert answers == {"orders": ErrorCode.POLICY_VIOLATION}


@played_by(alone, "tmp_path")
async def test_a_topic_node_without_an_id_gets_one(member: Member) -> None:
    old = TopicRegistration(ZERO_UUID, {0: ReplicaAssignment((0,))})
    await member.store.create("/brokers/topics/old", old.encode())
    await member.shows(lambda image: image.has_leader("old", 0))
    data, _ = await member.store.get("/brokers/topics/old")
    given = TopicRegistration.decode("old", data).topic_id
    assert given != ZERO_UUID
    assert member.metadata.image.topic_id("old") == given


@played_by(alone, "tmp_path")
async def test_create_answers_every_refusal(member: Member) -> None:
    wanted = [
        (NewTopic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("taken", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("with_dot", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("p", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("r", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("both", 1, 1, {0: [0]}), ErrorCode.INVALID_REQUEST),
        (NewTopic("gap", -1, -1, {1: [0]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("twice", -1, -1, {0: [0, 0]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("uneven", -1, -1, {0: [0], 1: [0, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("c", 1, 1, config={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("n", 1, 1, config={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic("v", 1, 1, config={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
    ]
    await create(member, "taken")
    await create(member, "with.dot")
    answers = await member.topic_admin.create([topic for topic, _ in wanted], PATIENCE_MS)
    for topic, code in wanted:
        assert answers[topic.name].outcome.code is code, topic
        assert answers[topic.name].outcome.message, topic
    assert sorted(member.metadata.image.topics) == ["taken", "with.dot"]


@played_by(alone, "tmp_path", settings={"num.partitions": "4"})
async def test_validate_only_creates_nothing(member: Member) -> None:
    answers = await member.topic_admin.create([NewTopic("a", -1, -1)], PATIENCE_MS, validate_only=True)
    assert answers["a"].outcome.code is ErrorCode.NONE
    assert (answers["a"].partitions, answers["a"].replication_factor) == (4, 1)
    assert await member.store.children("/brokers/topics") == []


@played_by(alone, "tmp_path")
async def test_others_run_between_topics_that_are_planned(member: Member) -> None:
    """Each is compared with all topics that there are, which takes long where there are many; the store answers at once."""
    breaths: list[None] = []

    class Breaths(Slices):
        async def yield_if_due(self) -> None:
            breaths.append(None)

    wanted = [NewTopic(f"of_{index}", 1, 1) for index in range(50)]
    await member.topic_admin.create(wanted, 0, validate_only=True, slices=Breaths(SystemClock()))
    assert len(breaths) >= len(wanted)


@played_by(alone, "tmp_path")
async def test_without_time_to_wait_the_topic_is_made_and_the_answer_is_a_timeout(member: Member) -> None:
    answers = await member.topic_admin.create([NewTopic("a", 1, 1)], 0)
    assert answers["a"].outcome.code is ErrorCode.REQUEST_TIMED_OUT
    await member.shows(lambda image: image.has_leader("a", 0))


@played_by(alone, "tmp_path")
async def test_an_assignment_to_a_broker_that_is_not_there_times_out(member: Member) -> None:
    answers = await member.topic_admin.create([NewTopic("a", assignment={0: [7]})], 50)
    assert answers["a"].outcome.code is ErrorCode.REQUEST_TIMED_OUT
    assert await member.store.exists("/brokers/topics/a") is not None
    assert await member.store.exists("/brokers/topics/a/partitions") is None


@played_by(alone, "tmp_path")
async def test_auto_creation_answers_leader_not_available_first(member: Member) -> None:
    answers = await member.topic_admin.auto_create(["a", "b c", "a"])
    assert answers == {"b c": ErrorCode.INVALID_TOPIC_EXCEPTION, "a": ErrorCode.LEADER_NOT_AVAILABLE}
    await member.shows(lambda image: image.has_leader("a", 0))
    again = await member.topic_admin.auto_create(["a"])
    assert again == {"a": ErrorCode.LEADER_NOT_AVAILABLE}


@played_by(alone, "tmp_path")
async def test_two_requests_that_auto_create_one_topic(member: Member) -> None:
    first, second = await asyncio.gather(member.topic_admin.auto_create(["a"]), member.topic_admin.auto_create(["a"]))
    assert first == {"a": ErrorCode.LEADER_NOT_AVAILABLE}
    assert second == {"a": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@played_by(alone, "tmp_path")
async def test_internal_topics_need_enough_brokers(member: Member) -> None:
    answers = await member.topic_admin.auto_create(["__consumer_offsets"])
    assert answers == {"__consumer_offsets": ErrorCode.INVALID_REPLICATION_FACTOR}


@played_by(alone, "tmp_path", policy=FallBackToOneReplica(), settings={"default.replication.factor": "3"})
async def test_internal_topics_fall_back_to_one_replica_where_the_policy_says_so(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    answers = await member.topic_admin.auto_create(["__consumer_offsets", "__transaction_state", "a"])
    assert set(answers.values()) == {ErrorCode.LEADER_NOT_AVAILABLE}
    await member.shows(lambda image: image.has_leader("__transaction_state", 49))
    data, _ = await member.store.get("/config/topics/__consumer_offsets")
    assert data == (
        b'{"version":1,"config":{"compression.type":"producer","cleanup.policy":"compact","segment.bytes":"104857600"}}'
    )
    data, _ = await member.store.get("/config/topics/__transaction_state")
    assert data == (
        b'{"version":1,"config":{"compression.type":"uncompressed","cleanup.policy":"compact",'
        b'"min.insync.replicas":"1","segment.bytes":"104857600","unclean.leader.election.enable":"false"}}'
    )
    told = [each for each in caplog.records if "gets one replica" in each.message]
    assert len(told) == 1


def test_producer_ids_come_in_blocks_and_never_twice(tmp_path: Path) -> None:
    async def first(member: Member) -> None:
        assert [await member.producer_ids.next_id() for _ in range(3)] == [0, 1, 2]
        data, _ = await member.store.get("/latest_producer_id_block")
        assert data == b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
        ids = await asyncio.gather(*(member.producer_ids.next_id() for _ in range(2_000)))
        assert len(set(ids)) == 2_000

    async def second(member: Member) -> None:
        assert await member.producer_ids.next_id() == 3_000

    alone(tmp_path, first)
    alone(tmp_path, second)


@played_by(alone, "tmp_path")
async def test_a_change_of_settings_is_notified_in_order(member: Member) -> None:
    heard: list[WatchEvent] = []
    assert await configs.changes_after(member.store, -1, heard.append) == []
    await configs.alter_entity_config(member.store, "topics", "orders", {"retention.ms": "1"})
    await configs.alter_entity_config(member.store, "brokers", "<default>", {"log.cleaner.threads": "2"})
    assert len(heard) == 1
    changes = await configs.changes_after(member.store, -1)
    assert [each.entity_path for each in changes] == ["topics/orders", "brokers/<default>"]
    assert await configs.changes_after(member.store, changes[0].sequence) == changes[1:]
    data, _ = await member.store.get("/config/changes/config_change_0000000000")
    assert data == b'{"version":2,"entity_path":"topics/orders"}'
    assert await configs.entity_config(member.store, "topics", "orders") == {"retention.ms": "1"}
    assert await configs.entity_configs(member.store, "brokers") == {"<default>": {"log.cleaner.threads": "2"}}
    assert await configs.purge_changes(member.store, 0) == 0
    assert await configs.purge_changes(member.store, 1 << 50) == 2


@played_by(alone, "tmp_path")
async def test_changes_behind_one_are_found_among_nodes_of_others(member: Member) -> None:
    for name in ("a", "config_change_", "config_change_x", "config_changes", "z"):
        await member.store.create(f"/config/changes/{name}")
    for number in range(12):
        await configs.notify(member.store, f"topics/t{number}")
    found = await configs.changes_after(member.store, -1)
    assert [each.entity_path for each in found] == [f"topics/t{number}" for number in range(12)]
    for at, each in enumerate(found):
        assert await configs.changes_after(member.store, each.sequence) == found[at + 1 :]


@played_by(alone, "tmp_path")
async def test_many_partitions_in_one_topic(member: Member) -> None:
    await create(member, "wide", 1_000)
    assert len(member.metadata.image.topics["wide"].partitions) == 1_000
    with pytest.raises(NodeExistsError):
        await member.store.create("/brokers/topics/wide/partitions/999")
