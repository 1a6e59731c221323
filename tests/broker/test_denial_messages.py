"""Every API with a message field tells who is refused what is missing, in every version that has the field; of topics only
those who may know whether they exist. The command in it is the one that helps."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from barnabas.embedded import EmbeddedBroker
from broker.handlers import ALL
from broker.handlers.records.produce import TOPIC_IDS_VERSION
from protocol.errors import ErrorCode
from protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, RequestedGroup
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from protocol.messages.share_fetch import ShareFetchRequest
from protocol.messages.share_group_describe import ShareGroupDescribeRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Request
from security.access import Operation, ResourceType
from tests.differential.batches import batch
from tests.differential.wire import NoResponse, SaslWire

ALLOW, ANY, LITERAL = 3, 1, 3
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
DESCRIBED, HIDDEN, NEW = "described", "hidden", "new"
"""Topics that alice may describe, that she may not, and that is not there."""

ON_CLUSTER: dict[Operation, list[Request]] = {
    Operation.ALTER: [
        CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=ResourceType.TOPIC, resource_name="t", resource_pattern_type=LITERAL,
                    principal="User:x", host="*", operation=Operation.READ, permission_type=ALLOW,
                )
            ]
        ),
        DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=ANY, resource_name_filter=None, pattern_type_filter=ANY, principal_filter=None,
                    host_filter=None, operation=ANY, permission_type=ANY,
                )
            ]
        ),
        ElectLeadersRequest(
            election_type=0, topic_partitions=[TopicPartitions(topic=DESCRIBED, partitions=[0])], timeout_ms=1000
        ),
        AlterPartitionReassignmentsRequest(
            timeout_ms=1000,
            topics=[
                ReassignableTopic(
                    name=DESCRIBED, partitions=[ReassignablePartition(partition_index=0, replicas=[0])]
                )
            ],
        ),
        AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="x", mechanism=1)], upsertions=[]),
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="f", max_version_level=1, allow_downgrade=False)]
        ),
    ],
    Operation.DESCRIBE: [
        DescribeAclsRequest(
            resource_type_filter=ANY, resource_name_filter=None, principal_filter=None, host_filter=None, operation=ANY,
            permission_type=ANY,
        ),
        ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None),
        DescribeUserScramCredentialsRequest(users=[UserName(name="x")]),
    ],
    Operation.CLUSTER_ACTION: [
        InitializeShareGroupStateRequest(
            group_id="g",
            topics=[
                initialize_share_group_state.TopicData(
                    topic_id=ZERO_UUID,
                    partitions=[initialize_share_group_state.PartitionData(partition=0, state_epoch=0, start_offset=0)],
                )
            ],
        ),
        ReadShareGroupStateRequest(
            group_id="g",
            topics=[
                read_share_group_state.TopicData(
                    topic_id=ZERO_UUID, partitions=[read_share_group_state.PartitionData(partition=0, leader_epoch=0)]
                )
            ],
        ),
        ReadShareGroupStateSummaryRequest(
            group_id="g",
            topics=[
                read_share_group_state_summary.TopicData(
                    topic_id=ZERO_UUID,
                    partitions=[read_share_group_state_summary.PartitionData(partition=0, leader_epoch=0)],
                )
            ],
        ),
        WriteShareGroupStateRequest(
            group_id="g",
            topics=[
                write_share_group_state.TopicData(
                    topic_id=ZERO_UUID,
                    partitions=[
                        write_share_group_state.PartitionData(
                            partition=0, state_epoch=0, leader_epoch=0, start_offset=0, state_batches=[]
                        )
                    ],
                )
            ],
        ),
        DeleteShareGroupStateRequest(
            group_id="g",
            topics=[
                delete_share_group_state.TopicData(
                    topic_id=ZERO_UUID, partitions=[delete_share_group_state.PartitionData(partition=0)]
                )
            ],
        ),
    ],
    Operation.DESCRIBE_CONFIGS: [
        DescribeClientQuotasRequest(components=[], strict=False),
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="0", configuration_keys=None)
            ]
        ),
    ],
    Operation.ALTER_CONFIGS: [
        AlterClientQuotasRequest(
            entries=[
                RequestEntryData(
                    entity=[EntityData(entity_type="user", entity_name="x")],
                    ops=[OpData(key="producer_byte_rate", value=1.0, remove=False)],
                )
            ],
            validate_only=True,
        ),
        AlterConfigsRequest(
            resources=[ReplacedResource(resource_type=BROKER_RESOURCE, resource_name="0", configs=[])], validate_only=True
        ),
        IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="0", configs=[])],
            validate_only=True,
        ),
    ],
}  # fmt: skip


def on_topic(name: str) -> dict[Operation, list[Request]]:
    """Requests about a topic, by the operation that they need."""
    data = PartitionProduceData(index=0, records=batch(b"x"))
    return {
        Operation.WRITE: [
            ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=name, partition_data=[data])])
        ],
        Operation.READ: [DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[0])])],
        Operation.DELETE: [
            DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], topic_names=[name], timeout_ms=1000
            )
        ],
        Operation.ALTER: [
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=9, assignments=None)],
                timeout_ms=1000,
                validate_only=True,
            )
        ],
        Operation.DESCRIBE_CONFIGS: [
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
                ]
            )
        ],
        Operation.ALTER_CONFIGS: [
            AlterConfigsRequest(
                resources=[ReplacedResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=[])],
                validate_only=True,
            ),
            IncrementalAlterConfigsRequest(
                resources=[AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=[])],
                validate_only=True,
            ),
        ],
    }


CREATION = CreateTopicsRequest(
    topics=[CreatableTopic(name=NEW, num_partitions=1, replication_factor=1, assignments=[], configs=[])],
    timeout_ms=1000,
)
ON_GROUP = [
    (DescribeGroupsRequest(groups=["my-group"]), "describe"),
    (ConsumerGroupDescribeRequest(group_ids=["my-group"], include_authorized_operations=False), "describe"),
    (ConsumerGroupHeartbeatRequest(group_id="my-group", member_id="m", member_epoch=0), "read"),
    (ShareGroupHeartbeatRequest(group_id="my-group", member_id="m", member_epoch=0), "read"),
    (ShareGroupDescribeRequest(group_ids=["my-group"], include_authorized_operations=False), "describe"),
    (DescribeShareGroupOffsetsRequest(groups=[RequestedGroup(group_id="my-group", topics=None)]), "describe"),
    (AlterShareGroupOffsetsRequest(group_id="my-group", topics=[]), "read"),
    (
        ShareFetchRequest(
            group_id="my-group", member_id="m", share_session_epoch=0, max_wait_ms=0, min_bytes=0, max_records=1,
            batch_size=1, topics=[], forgotten_topics_data=[],
        ),
        "read",
    ),
    (ShareAcknowledgeRequest(group_id="my-group", member_id="m", share_session_epoch=1, topics=[]), "read"),
    (DeleteShareGroupOffsetsRequest(group_id="my-group", topics=[]), "delete"),
]  # fmt: skip
COORDINATORS = [
    (0, Operation.DESCRIBE, ResourceType.GROUP, "--group"),
    (1, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "--transactional-id"),
]


class World:
    def __init__(self, broker: EmbeddedBroker) -> None:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        passwords = broker.security.passwords
        self.admin = SaslWire(host, int(port), "admin", passwords["admin"])
        self.alice = SaslWire(host, int(port), "alice", passwords["alice"])
        metadata = self.admin.ask(MetadataRequest(topics=None), 12)
        self.described_id = next(topic.topic_id for topic in metadata.topics if topic.name == DESCRIBED)

    def refused(self, request: Request, code: ErrorCode) -> Iterator[list[str]]:
        """In each version that has a message field, the messages that alice gets, all with this error."""
        for version in range(request.min_version, request.max_version + 1):
            if has_message(request.response_type, version) and any(
                each.request_type is type(request) and each.first_version <= version <= each.last_version
                for each in ALL
            ):
                if isinstance(request, ProduceRequest) and version >= TOPIC_IDS_VERSION:
                    if request.topic_data[0].name != DESCRIBED:
                        continue  # an id that nobody knows is of no topic
                    request.topic_data[0].topic_id = self.described_id
                answer = self.alice.ask(request, version)
                assert not isinstance(answer, NoResponse), (request.api_name, version, answer)
                messages = [message for message, of in errors_in(answer) if of == code]
                assert messages, (request.api_name, version, answer)
                yield messages


def has_message(message: type[Message], version: int) -> bool:
    return any(
        field.versions.covers(version)
        and (field.name == "error_message" or (isinstance(field.element, type) and has_message(field.element, version)))
        for field in message.__fields__
    )


def errors_in(value: object) -> Iterator[tuple[str, int]]:
    """Each message with its error code; empty for one that is not there."""
    if isinstance(value, list):
        for each in value:
            yield from errors_in(each)
    elif isinstance(value, Message):
        if hasattr(value, "error_message") and hasattr(value, "error_code"):
            yield value.error_message or "", value.error_code
        for field in value.__fields__:
            yield from errors_in(getattr(value, field.name))


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    settings = {
        "auto.create.topics.enable": False,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "barnabas.initial.features": "newest",
    }
    topics = {DESCRIBED: 1, HIDDEN: 1}
    with EmbeddedBroker(topics, settings, security="sasl_plaintext", users=["alice"]) as broker:
        made = World(broker)
        describes = AclCreation(
            resource_type=ResourceType.TOPIC, resource_name=DESCRIBED, resource_pattern_type=LITERAL,
            principal="User:alice", host="*", operation=Operation.DESCRIBE, permission_type=ALLOW,
        )  # fmt: skip
        answer = made.admin.ask(CreateAclsRequest(creations=[describes]), 3)
        assert answer.results[0].error_code == 0
        yield made
        made.admin.close()
        made.alice.close()


def test_every_api_with_a_message_and_a_right_is_asked() -> None:
    asked = {
        type(request).api_name
        for requests in (ON_CLUSTER, on_topic("t"))
        for row in requests.values()
        for request in row
    }
    asked |= {"CreateTopics", "FindCoordinator", *(request.api_name for request, _ in ON_GROUP)}
    has = {
        handler.api_name
        for handler in ALL
        if handler.access
        and any(
            has_message(handler.request_type.response_type, version)
            for version in range(handler.first_version, handler.last_version + 1)
        )
    }
    assert asked == has


def command(words: str) -> str:
    return f"An administrator gives it by: barnabas acls add --allow-principal User:alice {words}"


@pytest.mark.parametrize(
    ("operation", "request_"),
    [(operation, request) for operation, requests in ON_CLUSTER.items() for request in requests],
    ids=lambda value: value.name if isinstance(value, Operation) else type(value).__name__,
)
def test_a_right_on_the_cluster_is_named(world: World, operation: Operation, request_: Request) -> None:
    versions = list(world.refused(request_, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert versions
    word = operation.name.lower().replace("_", "-")
    for messages in versions:
        for message in messages:
            assert f"User:alice needs the right {operation.name} on the cluster." in message
            assert message.endswith(command(f"--operation {word} --cluster"))


@pytest.mark.parametrize("operation", on_topic(DESCRIBED), ids=lambda value: value.name)
def test_a_right_on_a_topic_is_named_to_those_who_may_describe_it(world: World, operation: Operation) -> None:
    word = operation.name.lower().replace("_", "-")
    for request in on_topic(DESCRIBED)[operation]:
        versions = list(world.refused(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        assert versions
        for messages in versions:
            for message in messages:
                assert f"User:alice needs the right {operation.name} on the topic {DESCRIBED}." in message
                assert message.endswith(command(f"--operation {word} --topic {DESCRIBED}"))
    told = [
        list(world.refused(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        for name in (HIDDEN, NEW)
        for request in on_topic(name)[operation]
    ]
    assert "barnabas" not in repr(told) and "alice" not in repr(told)
    there, missing = told[: len(told) // 2], told[len(told) // 2 :]
    assert there == missing, "nobody learns whether it exists"


def test_the_right_to_create_a_topic_is_named(world: World) -> None:
    versions = list(world.refused(CREATION, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert len(versions) == 7
    assert all(message.endswith(command(f"--operation create --topic {NEW}")) for each in versions for message in each)


@pytest.mark.parametrize(("request_", "operation"), ON_GROUP, ids=lambda value: getattr(value, "api_name", value))
def test_the_right_on_a_group_is_named(world: World, request_: Request, operation: str) -> None:
    versions = list(world.refused(request_, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    expected = command(f"--operation {operation} --group my-group")
    assert versions and all(message.endswith(expected) for messages in versions for message in messages)


@pytest.mark.parametrize(("key_type", "operation", "kind", "option"), COORDINATORS)
def test_the_right_to_find_a_coordinator_is_named(
    world: World, key_type: int, operation: Operation, kind: ResourceType, option: str
) -> None:
    request = FindCoordinatorRequest(key="my key", key_type=key_type, coordinator_keys=["my key"])
    code = ErrorCode[f"{kind.name}_AUTHORIZATION_FAILED"]
    versions = list(world.refused(request, code))
    assert len(versions) == 6
    expected = command(f"--operation {operation.name.lower()} {option} {shlex.quote('my key')}")
    assert all(message.endswith(expected) for messages in versions for message in messages)
