"""The cases: administration on and off the controller, leaders and followers, requests of brokers from nobody."""

from __future__ import annotations

from typing import Any

from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from protocol.messages.alter_configs import AlterableConfig as Config
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_configs import AlterConfigsResource as Resource
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from protocol.messages.controlled_shutdown import ControlledShutdownRequest
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.stop_replica import StopReplicaRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from protocol.primitives import ZERO_UUID
from tests.differential.batches import batch
from tests.differential.cases.configs import without_own_settings
from tests.interop.cluster.cluster_play import ASSIGNMENT, Run, case
from tests.oracle.admin import ask

TIMEOUT_MS = 10_000
TOPIC, BROKER = 2, 4
"""Types of config resources."""


# --- the cluster ---


@case(DescribeClusterRequest, "0+")
def _every_broker_tells_the_same(run: Run) -> None:
    for broker in (1, 2, 3):
        run.ask(DescribeClusterRequest(include_cluster_authorized_operations=False), broker)


@case(MetadataRequest, "0+")
def _of_a_topic_from_every_broker(run: Run) -> None:
    run.create()
    for broker in (1, 2, 3):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=run.topic)], allow_auto_topic_creation=False)
        run.ask(request, broker)


@case(UpdateFeaturesRequest, "0+")
def _of_an_unknown_feature(run: Run) -> None:
    for broker in (1, 2):
        run.ask(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="f", max_version_level=1)]), broker)


@case(UpdateFeaturesRequest, "0+")
def _of_nothing(run: Run) -> None:
    run.ask(UpdateFeaturesRequest(feature_updates=[]))


# --- topics ---


def create_request(name: str, partitions: int = 1, replicas: int = 3, **more: Any) -> CreateTopicsRequest:
    assigned = more.get("assignment", {})
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreatableReplicaAssignment(partition_index=one, broker_ids=ids) for one, ids in assigned.items()],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in more.get("configs", {}).items()],
    )
    timeout_ms = more.get("timeout_ms", TIMEOUT_MS)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=more.get("validate_only", False))


@case(CreateTopicsRequest, "2+")
def _with_three_replicas(run: Run) -> None:
    run.ask(create_request(run.topic, 3, 3), pick=without_own_settings)


@case(CreateTopicsRequest, "4+")
def _with_default_partitions_and_replicas(run: Run) -> None:
    run.ask(create_request(run.topic, -1, -1), pick=without_own_settings)


@case(CreateTopicsRequest, "2+")
def _off_the_controller(run: Run) -> None:
    run.ask(create_request(run.topic), 2, pick=without_own_settings)


@case(CreateTopicsRequest, "2+")
def _with_more_replicas_than_brokers(run: Run) -> None:
    run.ask(create_request(run.topic, 1, 4), pick=without_own_settings)


@case(CreateTopicsRequest, "2+")
def _with_wrong_assignments(run: Run) -> None:
    for number, wrong in enumerate(({0: [1, 1]}, {0: [1, 2], 1: [1]}, {1: [1]}, {0: [-1]})):
        # A replica on no broker is granted, and waited for in vain.
        run.ask(
            create_request(f"{run.topic}{number}", -1, -1, assignment=wrong, timeout_ms=500), pick=without_own_settings
        )


@case(CreateTopicsRequest, "2+")
def _only_validated(run: Run) -> None:
    run.ask(create_request(run.topic, 3, 2, validate_only=True), pick=without_own_settings)
    run.ask(create_request(run.topic, 3, 4, validate_only=True), pick=without_own_settings)


@case(CreatePartitionsRequest, "0+")
def _with_and_without_assignments(run: Run) -> None:
    run.create()
    for count, assignments in (
        (4, None), (5, [[2, 3]]), (6, [[2]]), (6, [[1, 9]]), (6, [[1, 1]]), (7, [[1, 2]]), (2, None), (5, None),
    ):  # fmt: skip
        given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        wanted = CreatePartitionsTopic(name=run.topic, count=count, assignments=given)
        run.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=False))
    run.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=False), 3)


@case(DeleteTopicsRequest, "1-5")
def _by_name(run: Run) -> None:
    run.create()
    for broker in (2, 1):
        run.ask(DeleteTopicsRequest(topic_names=[run.topic, "missing"], timeout_ms=TIMEOUT_MS), broker)


@case(DeleteTopicsRequest)
def _by_name_and_id(run: Run) -> None:
    topic_id = run.create()
    wanted = [
        DeleteTopicState(name=None, topic_id=topic_id),
        DeleteTopicState(name=None, topic_id=b"x" * 16),
        DeleteTopicState(name="missing", topic_id=ZERO_UUID),
    ]
    for broker in (2, 1):
        run.ask(DeleteTopicsRequest(topics=wanted, timeout_ms=TIMEOUT_MS), broker)


# --- reassignments, elections ---


def reassign_request(topic: str, replicas: dict[int, list[int] | None]) -> AlterPartitionReassignmentsRequest:
    partitions = [ReassignablePartition(partition_index=one, replicas=ids) for one, ids in replicas.items()]
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=partitions)], timeout_ms=TIMEOUT_MS
    )


@case(AlterPartitionReassignmentsRequest)
def _of_every_kind(run: Run) -> None:
    run.create()
    for replicas in ([3, 2, 1], [1, 1], [], [-1], [1, 9], None, [2, 3]):
        run.ask(reassign_request(run.topic, {0: replicas}))
        run.cluster.wait_for("it is done", lambda: not run.admin.reassignments())
    run.ask(reassign_request(run.topic, {7: [1, 2]}))
    run.ask(reassign_request("missing", {0: [1, 2]}))
    run.ask(reassign_request(run.topic, {0: [1, 2], 1: None, 2: [9]}))
    run.ask(reassign_request(run.topic, {0: [1, 2]}), 2)
    run.cluster.wait_for("it is done", lambda: not run.admin.reassignments())
    run.cluster.wait_for("everybody knows", lambda: run.admin.everybody_agrees(run.topic, _is_back))
    run.ask(MetadataRequest(topics=[MetadataRequestTopic(name=run.topic)]), 1, version=12, pick=_without_leader)


def _is_back(topic: Any) -> bool:
    """Every partition has the replicas that it was created with, and they are in sync."""
    return all(
        set(partition.replica_nodes) == set(partition.isr_nodes) == set(ASSIGNMENT[partition.partition_index])
        for partition in topic.partitions
    )


def _without_leader(answer: Any) -> None:
    """How many epochs a reassignment takes is a matter of timing."""
    for partition in answer.topics[0].partitions:
        partition.leader_epoch = 0
        partition.isr_nodes = sorted(partition.isr_nodes)


@case(ListPartitionReassignmentsRequest)
def _while_there_are_none(run: Run) -> None:
    run.create()
    asked = [
        ListPartitionReassignmentsTopics(name=run.topic, partition_indexes=[0, 9]),
        ListPartitionReassignmentsTopics(name="missing", partition_indexes=[0]),
    ]
    for broker in (1, 2):
        run.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=TIMEOUT_MS), broker)
        run.ask(ListPartitionReassignmentsRequest(topics=asked, timeout_ms=TIMEOUT_MS), broker)


@case(ElectLeadersRequest, "0+")
def _preferred(run: Run) -> None:
    run.create()
    wanted = [
        TopicPartitions(topic=run.topic, partitions=[0, 1, 2, 9]),
        TopicPartitions(topic="missing", partitions=[0]),
    ]
    for broker in (1, 2):
        run.ask(ElectLeadersRequest(topic_partitions=wanted, timeout_ms=TIMEOUT_MS), broker)
    run.admin.reassign(run.topic, {0: [2, 1]})
    run.ask(ElectLeadersRequest(topic_partitions=wanted, timeout_ms=TIMEOUT_MS))
    run.ask(MetadataRequest(topics=[MetadataRequestTopic(name=run.topic)]), 1, version=12, pick=_without_leader)


@case(ElectLeadersRequest, "1+")
def _unclean(run: Run) -> None:
    run.create()
    wanted = [TopicPartitions(topic=run.topic, partitions=[0, 9])]
    run.ask(ElectLeadersRequest(election_type=1, topic_partitions=wanted, timeout_ms=TIMEOUT_MS))


# --- settings, on any broker ---


@case(IncrementalAlterConfigsRequest, "0+")
def _of_a_topic_through_any_broker(run: Run) -> None:
    run.create()
    for broker in (2, 3):
        change = AlterableConfig(name="retention.ms", config_operation=0, value=str(1000 * broker))
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=run.topic, configs=[change])
        run.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), broker)
        for asked in (1, 2, 3):
            run.cluster.wait_for("it is known", lambda one=asked, ms=1000 * broker: _retention_ms(run, one) == ms)  # type: ignore[misc]


def _retention_ms(run: Run, broker: int) -> int:
    wanted = DescribeConfigsResource(resource_type=TOPIC, resource_name=run.topic, configuration_keys=["retention.ms"])
    (result,) = ask(run.cluster.brokers[broker], DescribeConfigsRequest(resources=[wanted])).results
    return int(result.configs[0].value)


@case(AlterConfigsRequest, "0+")
def _of_a_topic_and_of_brokers(run: Run) -> None:
    run.create()
    for resource_type, name in ((TOPIC, run.topic), (TOPIC, "missing"), (BROKER, "2"), (BROKER, "3"), (BROKER, "9")):
        resource = Resource(
            resource_type=resource_type, resource_name=name, configs=[Config(name="nonsense", value="1")]
        )
        run.ask(AlterConfigsRequest(resources=[resource], validate_only=True), 2)


@case(DescribeConfigsRequest, "1+")
def _of_brokers_and_a_topic(run: Run) -> None:
    run.create()
    for resource_type, name, keys in (
        (TOPIC, run.topic, ["min.insync.replicas", "retention.ms"]),
        (BROKER, "2", ["broker.id", "default.replication.factor", "broker.rack"]),
        (BROKER, "3", ["broker.id"]),
        (BROKER, "", ["log.retention.ms"]),
    ):
        resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
        run.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 2)


@case(AlterClientQuotasRequest, "0+")
def _through_any_broker(run: Run) -> None:
    entity = [EntityData(entity_type="client-id", entity_name=run.topic)]
    for broker, remove in ((2, False), (3, True)):
        operation = OpData(key="producer_byte_rate", value=1000.0, remove=remove)
        entry = RequestEntryData(entity=entity, ops=[operation])
        run.ask(AlterClientQuotasRequest(entries=[entry], validate_only=False), broker)
        if not remove:
            run.ask(DescribeClientQuotasRequest(components=[], strict=False), 3, version=1)


@case(AlterUserScramCredentialsRequest)
def _on_and_off_the_controller(run: Run) -> None:
    deletion = ScramCredentialDeletion(name="nobody", mechanism=1)
    for broker in (1, 2):
        run.ask(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]), broker)
        run.ask(DescribeUserScramCredentialsRequest(users=None), broker, version=0)


# --- what only a leader or coordinator does ---


@case(DeleteRecordsRequest, "0+")
def _on_a_follower(run: Run) -> None:
    run.create()
    topics = [
        DeleteRecordsTopic(name=run.topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)]),
        DeleteRecordsTopic(name="missing", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)]),
    ]
    for broker in (2, 1):
        run.ask(DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS), broker)


@case(ProduceRequest, "3+")
def _to_a_follower_and_to_a_broker_without_the_partition(run: Run) -> None:
    run.create()
    for partition, broker in ((0, 2), (2, 2), (0, 1)):
        data = [PartitionProduceData(index=partition, records=batch(b"x"))]
        topic_data = [TopicProduceData(name=run.topic, partition_data=data)]
        run.ask(ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=topic_data), broker)


@case(FetchRequest, "4-12")
def _from_a_follower_and_from_a_broker_without_the_partition(run: Run) -> None:
    run.create()
    for partition, broker in ((0, 2), (2, 2), (0, 1)):
        wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=run.topic, partitions=[wanted])])
        run.ask(request, broker)


@case(ListOffsetsRequest, "1+")
def _on_a_follower_with_epochs(run: Run) -> None:
    run.create()
    for broker, epoch in ((2, -1), (2, 0), (2, 5), (1, -1), (1, 0), (1, 5)):
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
        topics = [ListOffsetsTopic(name=run.topic, partitions=[asked])]
        run.ask(ListOffsetsRequest(replica_id=-1, topics=topics), broker)


@case(OffsetForLeaderEpochRequest, "2+")
def _of_leader_and_follower(run: Run) -> None:
    run.create()
    for broker, current, epoch in ((1, -1, 0), (1, 0, 0), (1, 5, 0), (1, 0, 7), (2, 0, 0)):
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=run.topic, partitions=[asked])]
        run.ask(OffsetForLeaderEpochRequest(topics=topics), broker)


@case(DescribeProducersRequest)
def _of_leader_and_follower_(run: Run) -> None:
    run.create()
    for broker in (1, 2):
        run.ask(DescribeProducersRequest(topics=[TopicRequest(name=run.topic, partition_indexes=[0, 2])]), broker)


@case(DescribeLogDirsRequest, "1+")
def _of_every_broker(run: Run) -> None:
    run.create()
    for broker in (1, 2, 3):
        topics = [DescribableLogDirTopic(topic=run.topic, partitions=[0, 1, 2])]
        run.ask(DescribeLogDirsRequest(topics=topics), broker)


@case(AlterReplicaLogDirsRequest, "1+")
def _with_nothing(run: Run) -> None:
    run.ask(AlterReplicaLogDirsRequest(dirs=[]), 2)


@case(DescribeGroupsRequest, "0+")
def _on_every_broker(run: Run) -> None:
    coordinator = run.admin.wait_until_loaded("nobody-here")
    others = [broker for broker in (1, 2, 3) if broker != coordinator]
    for broker in (coordinator, others[0]):
        run.ask(DescribeGroupsRequest(groups=["nobody-here"]), broker)
        run.answers[-1]["to"] = "coordinator" if broker == coordinator else "another"


@case(DeleteGroupsRequest, "0+")
def _on_every_broker_(run: Run) -> None:
    coordinator = run.admin.wait_until_loaded("nobody-here")
    others = [broker for broker in (1, 2, 3) if broker != coordinator]
    for broker in (coordinator, others[0]):
        run.ask(DeleteGroupsRequest(groups_names=["nobody-here"]), broker)
        run.answers[-1]["to"] = "coordinator" if broker == coordinator else "another"


# --- what only brokers ask, from somebody who is none ---


@case(AllocateProducerIdsRequest)
def _with_a_wrong_epoch(run: Run) -> None:
    for broker in (1, 2):
        run.ask(AllocateProducerIdsRequest(broker_id=2, broker_epoch=1), broker)
        run.ask(AllocateProducerIdsRequest(broker_id=9, broker_epoch=1), broker)


@case(AlterPartitionRequest, "0+")
def _with_a_wrong_broker_epoch(run: Run) -> None:
    for broker in (1, 2):
        run.ask(AlterPartitionRequest(broker_id=2, broker_epoch=1, topics=[]), broker)


@case(ControlledShutdownRequest, "2+")
def _with_a_wrong_broker_epoch_(run: Run) -> None:
    for broker in (1, 2):
        run.ask(ControlledShutdownRequest(broker_id=2, broker_epoch=1), broker)


@case(LeaderAndIsrRequest, "2+")
def _of_an_old_controller(run: Run) -> None:
    run.ask(LeaderAndIsrRequest(controller_id=3, controller_epoch=0, broker_epoch=-1, live_leaders=[]), 2)
    run.ask(LeaderAndIsrRequest(controller_id=1, controller_epoch=1, broker_epoch=1, live_leaders=[]), 2)


@case(UpdateMetadataRequest, "5+")
def _of_an_old_controller_(run: Run) -> None:
    run.ask(UpdateMetadataRequest(controller_id=3, controller_epoch=0, broker_epoch=-1, live_brokers=[]), 2)
    run.ask(UpdateMetadataRequest(controller_id=1, controller_epoch=1, broker_epoch=1, live_brokers=[]), 2)


@case(StopReplicaRequest, "1+")
def _of_an_old_controller__(run: Run) -> None:
    run.ask(StopReplicaRequest(controller_id=3, controller_epoch=0, broker_epoch=-1), 2)
    run.ask(StopReplicaRequest(controller_id=1, controller_epoch=1, broker_epoch=1), 2)
