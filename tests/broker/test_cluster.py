"""Several real brokers on one simulated ensemble: what only they together can do."""

from __future__ import annotations

import asyncio

import pytest

from broker.observability.gauges import gauges
from metadata.store import znodes
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from protocol.primitives import ZERO_UUID
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.simulation.loop import SimLoop

TOPIC, BROKER = 2, 4  # kinds of resources with settings


async def alter(world: ClusterWorld, asked: int, kind: int, name: str, setting: str, value: str) -> None:
    row = AlterableConfig(name=setting, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[row])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await world.ask(asked, request, 1, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer


@simulated(1)
async def test_three_brokers_replicate_and_survive_one(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders", partitions=3)
    for number in range(10):
        assert await world.produce("orders", b"%d" % number) == (ErrorCode.NONE, number)
    leader = world.leader_of("orders")
    world.machines[leader].crash()
    await world.until(lambda: world.leader_of("orders") not in (leader, -1))
    assert await world.produce("orders", b"after") == (ErrorCode.NONE, 10)
    await world.start(leader)
    await world.until(lambda: world.isr_of("orders") == {1, 2, 3})
    for broker in world.live.values():
        log = broker.logs.find("orders", 0)
        assert log is not None
        assert log.log_end_offset == 11
        read = {sample.metric.name: sample.value for sample in gauges(broker.services)}
        assert (read["UnderReplicatedPartitions"], read["MaxLag"], read["FailedPartitionsCount"]) == (0, 0, 0)


def delete_request(topic: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=topic, topic_id=ZERO_UUID)], timeout_ms=10_000)


@simulated(6)
async def test_a_topic_that_was_deleted_while_a_broker_was_not_registered_is_forgotten_there(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    away = next(broker_id for broker_id in world.live if broker_id != world.controller_id)
    others = [broker_id for broker_id in world.live if broker_id != away]
    await world.create_topic("stays", partitions=3)
    await world.create_topic("passes", assignment=others)
    session = world.machines[away]._access.store.session()  # type: ignore[union-attr]
    session.cut()
    await world.until(lambda: away not in world.live[others[0]].metadata.image.brokers)
    answer = await world.ask(world.controller_id, delete_request("passes"), 6, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE
    await world.until(lambda: znodes.topic_path("passes") not in world.ensemble.tree.nodes)
    assert "passes" in world.live[away].metadata.image.topics
    session.mend()
    await world.until(lambda: "passes" not in world.live[away].metadata.image.topics)
    assert "stays" in world.live[away].metadata.image.topics
    await world.until(lambda: world.isr_of("stays") == {1, 2, 3})


@simulated(7)
async def test_a_topic_whose_deletion_died_with_the_controllers_line_is_forgotten_everywhere(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    first = world.controller_id
    deaf = next(broker_id for broker_id in world.live if broker_id != first)
    others = [broker_id for broker_id in world.live if broker_id != deaf]
    await world.create_topic("passes", assignment=others)
    world.network.cut(f"host{first}", f"host{deaf}")
    answer = await world.ask(first, delete_request("passes"), 6, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE
    await world.until(lambda: znodes.topic_path("passes") not in world.ensemble.tree.nodes)
    world.machines[first].crash()
    await world.until(lambda: world.live[deaf].metadata.image.controller_id not in (first, -1))
    await world.until(lambda: "passes" not in world.live[deaf].metadata.image.topics)


@simulated(3)
async def test_the_controller_is_replaced_when_it_dies_and_the_next_one_works(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("before")
    first = world.controller_id
    world.machines[first].crash()
    await world.until(lambda: any(broker.services.controller.is_active for broker in world.live.values()))
    second = world.controller_id
    assert second != first
    await world.until(lambda: all(b.metadata.image.controller_id == second for b in world.live.values()))
    await world.until(lambda: world.leader_of("before") not in (first, -1))
    assert await world.produce("before", b"x") == (ErrorCode.NONE, 0)
    await world.create_topic("after", replicas=2)
    await world.start(first)
    assert world.controller_id == second
    await world.until(lambda: world.isr_of("before") == {1, 2, 3})


@simulated(6)
async def test_nobody_but_the_controller_is_believed(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders")
    controller_id = world.controller_id
    epoch = world.live[controller_id].services.controller.epoch
    victim = next(broker_id for broker_id in world.live if broker_id != controller_id)
    before = world.live[victim].metadata.image

    async def lie(asked: int, sender: int, its_epoch: int) -> set[int]:
        empty = UpdateMetadataRequest(controller_id=sender, controller_epoch=its_epoch, live_brokers=[])
        row = StopReplicaPartitionState(partition_index=0, leader_epoch=99, delete_partition=True)
        stop = StopReplicaRequest(
            controller_id=sender,
            controller_epoch=its_epoch,
            topic_states=[StopReplicaTopicState(topic_name="orders", partition_states=[row])],
        )
        leader = LeaderAndIsrRequest(controller_id=sender, controller_epoch=its_epoch, live_leaders=[])
        answers = [(await world.ask(asked, empty, version, UpdateMetadataResponse)).error_code for version in (0, 8)]
        answers.append((await world.ask(asked, stop, 4, StopReplicaResponse)).error_code)
        answers.extend(
            [(await world.ask(asked, leader, version, LeaderAndIsrResponse)).error_code for version in (0, 7)]
        )
        return set(answers)

    for sender, its_epoch in ((99, epoch), (99, epoch + 1), (controller_id, epoch + 5), (controller_id, epoch - 1)):
        assert await lie(victim, sender, its_epoch) == {ErrorCode.STALE_CONTROLLER_EPOCH}
    for its_epoch in (epoch, epoch + 1):
        assert await lie(controller_id, controller_id, its_epoch) == {ErrorCode.STALE_CONTROLLER_EPOCH}
    assert world.live[victim].metadata.image is before
    assert await world.produce("orders", b"x") == (ErrorCode.NONE, 0)


@simulated(9)
async def test_producer_ids_of_all_brokers_are_different(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    given: list[int] = []

    async def ids(count: int) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        for _ in range(count):
            for broker_id in world.live:
                answer = await world.ask(broker_id, request, 4, InitProducerIdResponse)
                assert answer.error_code == ErrorCode.NONE
                given.append(answer.producer_id)

    await ids(3)
    world.machines[world.controller_id].crash()
    await world.until(lambda: any(broker.services.controller.is_active for broker in world.live.values()))
    await ids(3)
    assert len(set(given)) == len(given)


@simulated(12)
async def test_any_broker_changes_settings_and_every_broker_hears(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders")
    for asked, value in ((1, "1000"), (2, "2000"), (3, "3000")):
        await alter(world, asked, TOPIC, "orders", "retention.ms", value)
        await world.until(
            lambda value=value: all(  # type: ignore[misc]
                broker.logs.find("orders", 0).config.retention_ms == int(value)  # type: ignore[union-attr]
                for broker in world.live.values()
            ),
            5,
        )
    await alter(world, 2, BROKER, "", "message.max.bytes", "5000")
    await alter(world, 3, BROKER, "3", "message.max.bytes", "6000")
    await world.until(
        lambda: (
            [world.live[each].services.dynamic_settings.settings.message_max_bytes for each in (1, 2, 3)]
            == [5000, 5000, 6000]
        ),
        5,
    )
    world.machines[1].expire_session()
    await alter(world, 2, TOPIC, "orders", "retention.ms", "4000")
    await world.until(lambda: world.live[1].logs.find("orders", 0).config.retention_ms == 4000, 5)  # type: ignore[union-attr]


@simulated(13)
async def test_what_only_the_controller_does_is_refused_elsewhere(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    other = next(broker_id for broker_id in world.live if broker_id != world.controller_id)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    create = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    created = await world.ask(other, create, 7, CreateTopicsResponse)
    assert created.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    move = AlterPartitionReassignmentsRequest(topics=[])
    moved = await world.ask(other, move, 0, AlterPartitionReassignmentsResponse)
    assert moved.error_code == ErrorCode.NOT_CONTROLLER
    listed = await world.ask(
        other, ListPartitionReassignmentsRequest(topics=None), 0, ListPartitionReassignmentsResponse
    )
    assert listed.error_code == ErrorCode.NOT_CONTROLLER
    features = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="f", max_version_level=1)])
    updated = await world.ask(other, features, 1, UpdateFeaturesResponse)
    assert updated.error_code == ErrorCode.NOT_CONTROLLER
    updated = await world.ask(world.controller_id, features, 1, UpdateFeaturesResponse)
    assert updated.error_code != ErrorCode.NOT_CONTROLLER


@simulated(14)
async def test_partitions_move_to_other_brokers(loop: SimLoop) -> None:
    world = ClusterWorld(loop, (1, 2, 3, 4))
    await world.start()
    await world.create_topic("orders", replicas=2)
    image = world.live[1].metadata.image.partition("orders", 0)
    assert image is not None
    for number in range(5):
        assert await world.produce("orders", b"x") == (ErrorCode.NONE, number)
    target = sorted({1, 2, 3, 4} - set(image.replicas))
    partition = ReassignablePartition(partition_index=0, replicas=target)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="orders", partitions=[partition])])
    answer = await world.ask(world.controller_id, request, 0, AlterPartitionReassignmentsResponse)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    await world.until(lambda: world.leader_of("orders") in target and world.isr_of("orders") == set(target))
    listed = await world.ask(
        world.controller_id, ListPartitionReassignmentsRequest(topics=None), 0, ListPartitionReassignmentsResponse
    )
    assert listed.topics == []
    for broker_id in image.replicas:
        await world.until(lambda each=broker_id: world.live[each].logs.find("orders", 0) is None)  # type: ignore[misc]
    assert await world.produce("orders", b"x") == (ErrorCode.NONE, 5)


@simulated(14)
async def test_a_leader_whose_partition_went_elsewhere_while_it_was_cut_off_leads_no_more(loop: SimLoop) -> None:
    """Nobody tells it: it is no replica any more when it can be reached again. It would acknowledge what nobody copies."""
    world = ClusterWorld(loop, (1, 2, 3, 4))
    await world.start()
    former = min({1, 2, 3} - {world.controller_id})
    rest = sorted({1, 2, 3} - {former})
    await world.create_topic("orders", assignment=(former, *rest))
    assert await world.produce("orders", b"x") == (ErrorCode.NONE, 0)
    partition = world.live[former].services.partitions.find("orders", 0)
    assert partition is not None
    world.machines[former].cut_off()
    controller = world.live[world.controller_id]
    await world.until(lambda: former not in controller.metadata.image.brokers)
    row = ReassignablePartition(partition_index=0, replicas=[4, *rest])
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="orders", partitions=[row])])
    answer = await world.ask(world.controller_id, request, 0, AlterPartitionReassignmentsResponse)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    await world.until(lambda: 4 in controller.metadata.image.topics["orders"].partitions[0].isr, 20)
    assert partition.is_leader, "it does not know better"
    world.machines[former].reach_again()
    await world.until(lambda: former in controller.metadata.image.brokers)
    await world.until(lambda: not partition.is_leader)


@pytest.mark.parametrize("version", ["0.11.0", "1.1", "2.2", "2.6", "2.7", "2.8", "3.0", "3.4", "3.9"])
@simulated(15)
async def test_replication_in_the_words_of_older_releases(loop: SimLoop, version: str) -> None:
    world = ClusterWorld(loop, inter_broker_protocol_version=version, replica_lag_time_max_ms="5000")
    await world.start()
    await world.create_topic("orders", partitions=2)
    for number in range(5):
        assert await world.produce("orders", b"%d" % number) == (ErrorCode.NONE, number)
    leader = world.leader_of("orders")
    follower = next(each for each in world.live if each not in (leader, world.controller_id))
    world.machines[follower].pause()
    await world.until(lambda: follower not in world.isr_of("orders"))
    assert (await world.produce("orders", b"x"))[0] is ErrorCode.NONE
    world.machines[follower].resume()
    await world.until(lambda: world.isr_of("orders") == {1, 2, 3}, 120)
    world.machines[leader].crash()
    await world.until(lambda: world.leader_of("orders") not in (leader, -1), 120)
    assert await world.produce("orders", b"after") == (ErrorCode.NONE, 6)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    for broker_id in world.live:
        answer = await world.ask(broker_id, request, 4, InitProducerIdResponse)
        assert answer.error_code == ErrorCode.NONE
    await world.start(leader)
    await world.until(lambda: world.isr_of("orders") == {1, 2, 3}, 120)


@simulated(16)
async def test_a_failed_log_directory_is_told_and_its_leaderships_move(loop: SimLoop) -> None:
    world = ClusterWorld(loop, log_dirs="/data,/more")
    await world.start()
    await world.create_topic("orders", partitions=6)
    victim = next(each for each in world.live if each != world.controller_id)
    broker = world.live[victim]
    led = [index for index in range(6) if world.leader_of("orders", index) == victim]
    assert led
    directories = {index: broker.logs.find("orders", index).directory for index in led}  # type: ignore[union-attr]
    failing = "/more" if directories[led[0]].startswith("/more") else "/data"
    world.machines[victim].storage.fail(failing)
    broker.logs.fail_directory(failing, OSError(5, "broken"))
    gone = [index for index in led if directories[index].startswith(failing)]
    await world.until(lambda: all(world.leader_of("orders", index) not in (victim, -1) for index in gone))
    for index in range(6):
        assert (await world.produce("orders", b"x", index))[0] is ErrorCode.NONE


@simulated(17)
async def test_copying_goes_on_while_its_settings_change(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders", partitions=4)
    await alter(world, 1, BROKER, "", "num.replica.fetchers", "2")
    await alter(world, 2, BROKER, "", "follower.replication.throttled.rate", "1")
    await alter(world, 2, BROKER, "", "leader.replication.throttled.rate", "1")
    await alter(world, 3, TOPIC, "orders", "follower.replication.throttled.replicas", "*")
    await alter(world, 3, TOPIC, "orders", "leader.replication.throttled.replicas", "*")
    await asyncio.sleep(1)
    assert max(len(broker.services.fetchers or ()) for broker in world.live.values()) > 2
    for index in range(4):
        for _ in range(3):  # replicas in sync are not held back
            assert (await world.produce("orders", b"x" * 1000, index))[0] is ErrorCode.NONE
    follower = next(each for each in world.live if each != world.leader_of("orders"))
    world.machines[follower].crash()
    await world.until(lambda: follower not in world.isr_of("orders"))
    assert (await world.produce("orders", b"x" * 1000))[0] is ErrorCode.NONE
    await world.start(follower)
    await asyncio.sleep(2)
    assert follower not in world.isr_of("orders"), "a byte a second is not enough"
    await alter(world, 1, BROKER, "", "follower.replication.throttled.rate", "1000000")
    await alter(world, 1, BROKER, "", "leader.replication.throttled.rate", "1000000")
    await world.until(lambda: world.isr_of("orders") == {1, 2, 3})


@simulated(18)
async def test_unclean_election_when_it_is_allowed_at_last(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders", replicas=2)
    image = world.live[1].metadata.image.partition("orders", 0)
    assert image is not None
    assert (await world.produce("orders", b"x"))[0] is ErrorCode.NONE
    first, second = image.replicas
    world.machines[second].crash()
    await world.until(lambda: world.isr_of("orders") == {first})
    assert (await world.produce("orders", b"only here"))[0] is ErrorCode.NONE
    world.machines[first].crash()
    await world.until(lambda: world.leader_of("orders") == -1)
    await world.start(second)
    await asyncio.sleep(5)
    assert world.leader_of("orders") == -1
    await alter(world, second, TOPIC, "orders", "unclean.leader.election.enable", "true")
    await world.until(lambda: world.leader_of("orders") == second)
    assert await world.produce("orders", b"instead") == (ErrorCode.NONE, 1)
