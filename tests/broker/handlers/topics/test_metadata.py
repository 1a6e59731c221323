"""Metadata and DescribeCluster in every version."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.handlers.brokers.describe_cluster import describe_cluster
from broker.handlers.topics.metadata import metadata
from metadata.admin.topic_requests import NewTopic
from metadata.image import BrokerEndpoint, BrokerImage, ClusterImage, PartitionImage, TopicImage
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.primitives import ZERO_UUID
from tests.broker.handlers.ask import ask, on_a_broker
from tests.controller.harness import PATIENCE_MS, Member

VERSIONS = range(13)
INT32_MIN = -(1 << 31)


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


async def create(member: Member, *names: str) -> None:
    await member.topic_admin.create([NewTopic(name, 2, 1) for name in names], PATIENCE_MS)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_topic(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        await create(member, "a", "b")
        answer = await ask(metadata, member, MetadataRequest(topics=named("a", "a")), version)
        [topic] = answer.topics
        assert (topic.error_code, topic.name, topic.is_internal) == (0, "a", False)
        assert [(each.partition_index, each.error_code, each.leader_id) for each in topic.partitions] == [
            (0, 0, 0),
            (1, 0, 0),
        ]
        assert topic.partitions[0].replica_nodes == topic.partitions[0].isr_nodes == [0]
        assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)
        assert topic.topic_id == (member.metadata.image.topic_id("a") if version >= 10 else ZERO_UUID)
        assert topic.topic_authorized_operations == INT32_MIN
        assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [(0, "localhost", 9092)]
        assert answer.controller_id == (0 if version >= 1 else -1)
        assert answer.cluster_id == ("cluster" if version >= 2 else None)

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_and_none(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        await create(member, "a", "b")
        every = MetadataRequest(topics=None if version >= 1 else [])
        assert sorted(topic.name for topic in (await ask(metadata, member, every, version)).topics) == ["a", "b"]
        if version >= 1:
            assert (await ask(metadata, member, MetadataRequest(topics=[]), version)).topics == []

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_topic_is_created(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        request = MetadataRequest(topics=named("new", "bad name"))
        rows = {row.name: row for row in (await ask(metadata, member, request, version)).topics}
        assert rows["new"].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert rows["new"].partitions == []
        assert rows["bad name"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        await member.shows(lambda image: image.has_leader("new", 0))
        [row] = (await ask(metadata, member, MetadataRequest(topics=named("new")), version)).topics
        assert row.error_code == ErrorCode.NONE

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize("is_client", [True, False])
def test_auto_creation_may_be_forbidden(tmp_path: Path, is_client: bool) -> None:
    async def scenario(member: Member) -> None:
        request = MetadataRequest(topics=named("new", "bad name"), allow_auto_topic_creation=not is_client)
        rows = {row.name: row.error_code for row in (await ask(metadata, member, request, 12)).topics}
        assert rows == {
            "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        assert await member.store.children("/brokers/topics") == []

    settings = {} if is_client else {"auto.create.topics.enable": "false"}
    on_a_broker(tmp_path, scenario, settings=settings)


def test_topics_by_id(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await create(member, "a", "b")
        topic_id = member.metadata.image.topic_id("b")
        unknown = b"x" * 16
        wanted = [MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, unknown)]
        answer = await ask(metadata, member, MetadataRequest(topics=[*wanted, *named("a")]), 12)
        assert [(row.error_code, row.name, row.topic_id) for row in answer.topics] == [
            (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown),
            (0, "b", topic_id),
        ]

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize(
    ("version", "topic"),
    [
        (10, MetadataRequestTopic(name=None)),
        (11, MetadataRequestTopic(name="a", topic_id=b"x" * 16)),
        (12, MetadataRequestTopic(name=None)),
    ],
)
def test_malformed_topics_are_refused(tmp_path: Path, version: int, topic: MetadataRequestTopic) -> None:
    async def scenario(member: Member) -> None:
        answer = await ask(metadata, member, MetadataRequest(topics=[topic]), version)
        assert [row.error_code for row in answer.topics] == [ErrorCode.INVALID_REQUEST]
        assert answer.brokers == []

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", range(8, 13))
def test_authorized_operations_when_asked_for(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        await create(member, "a")
        request = MetadataRequest(
            topics=named("a"),
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=version <= 10,
        )
        answer = await ask(metadata, member, request, version)
        assert answer.topics[0].topic_authorized_operations == 3576
        assert answer.cluster_authorized_operations == (8096 if version <= 10 else INT32_MIN)

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_leaders_that_cannot_be_reached(tmp_path: Path, version: int) -> None:
    """Partition 0 is led by a broker without this listener, 1 by a dead one; 2 has a replica without the listener."""

    def partition(leader: int, *replicas: int) -> PartitionImage:
        return PartitionImage(leader, 0, replicas, replicas, (), 0, 1)

    async def scenario(member: Member) -> None:
        topic = TopicImage("a", b"a" * 16, {0: partition(1, 1), 1: partition(2, 2), 2: partition(0, 0, 1)})
        member.metadata.publish(
            ClusterImage(
                brokers={
                    0: BrokerImage(0, {"PLAINTEXT": BrokerEndpoint("h", 1)}, "rack"),
                    1: BrokerImage(1, {"OTHER": BrokerEndpoint("h", 2)}),
                },
                topics={"a": topic},
            )
        )
        answer = await ask(metadata, member, MetadataRequest(topics=named("a")), version)
        rows = answer.topics[0].partitions
        without_listener = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
        partly = ErrorCode.NONE if version else ErrorCode.REPLICA_NOT_AVAILABLE
        assert [row.error_code for row in rows] == [without_listener, ErrorCode.LEADER_NOT_AVAILABLE, partly]
        assert [row.leader_id for row in rows] == [-1, -1, 0]
        assert rows[2].replica_nodes == ([0, 1] if version else [0])
        assert [(each.node_id, each.rack) for each in answer.brokers] == [(0, "rack" if version else None)]

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", [0, 1])
def test_describe_cluster(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = await ask(describe_cluster, member, request, version)
        assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "cluster", 0)
        assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [(0, "localhost", 9092)]
        assert answer.cluster_authorized_operations == 8096
        silent = DescribeClusterRequest(include_cluster_authorized_operations=False)
        assert (await ask(describe_cluster, member, silent, version)).cluster_authorized_operations == INT32_MIN

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_describe_cluster_of_other_endpoints(tmp_path: Path, endpoint_type: int, code: ErrorCode) -> None:
    async def scenario(member: Member) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint_type)
        answer = await ask(describe_cluster, member, request, 1)
        assert answer.error_code == code
        assert answer.error_message
        assert answer.brokers == []

    on_a_broker(tmp_path, scenario)
