"""Metadata where topics are not created by being asked for, and of leaders that clients of a listener cannot reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.handlers.topics.metadata import metadata
from metadata.image import BrokerEndpoint, BrokerImage, ClusterImage, PartitionImage, TopicImage
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.async_tests import played_by
from tests.broker.handlers.ask import ask, on_a_broker
from tests.controller.harness import Member

VERSIONS = range(13)


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


@pytest.mark.parametrize("is_client", [True, False])
def test_auto_creation_may_be_forbidden(tmp_path: Path, is_client: bool) -> None:
    async def scenario(member: Member) -> None:
        request = MetadataRequest(topics=named("new", "bad name"), allow_auto_topic_creation=not is_client)
        rows = {row.name: row.error_code for row in (await ask(metadata, member, request, 12)).topics}
        assert rows == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert await member.store.children("/brokers/topics") == []

    settings = {} if is_client else {"auto.create.topics.enable": "false"}
    on_a_broker(tmp_path, scenario, settings=settings)


@pytest.mark.parametrize("version", VERSIONS)
@played_by(on_a_broker, "tmp_path")
async def test_leaders_that_cannot_be_reached(member: Member, version: int) -> None:
    """Partition 0 is led by a broker without this listener, 1 by a dead one; 2 has a replica without the listener."""

    def partition(leader: int, *replicas: int) -> PartitionImage:
        return PartitionImage(leader, 0, replicas, replicas, (), 0, 1)

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
