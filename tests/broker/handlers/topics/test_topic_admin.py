"""Requests about topics that come to another broker than the controller, are turned off, or name nothing."""

from __future__ import annotations

import pytest

from broker.handlers.topics.create_partitions import create_partitions
from broker.handlers.topics.create_topics import create_topics
from broker.handlers.topics.delete_topics import delete_topics
from broker.handlers.topics.elect_leaders import elect_leaders
from metadata.admin.topic_requests import NewTopic
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.primitives import ZERO_UUID
from tests.async_tests import played_by
from tests.broker.handlers.ask import ask, on_a_broker
from tests.controller.harness import PATIENCE_MS, Member, cluster


async def test_only_the_controller_serves() -> None:
    async with cluster(1, 2) as made:
        other = next(each for each in made.members.values() if not each.controller.is_active)
        code = ErrorCode.NOT_CONTROLLER
        wanted = CreatableTopic(name="a", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        created = await ask(create_topics, other, CreateTopicsRequest(topics=[wanted]), 7)
        assert [row.error_code for row in created.topics] == [code]
        deleted = await ask(delete_topics, other, DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), 5)
        assert [row.error_code for row in deleted.responses] == [code]
        grown = await ask(
            create_partitions,
            other,
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="a", count=2, assignments=None)], timeout_ms=1, validate_only=False
            ),
            3,
        )
        assert [row.error_code for row in grown.results] == [code]
        election = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0])], timeout_ms=1)
        elected = await ask(elect_leaders, other, election, 2)
        assert elected.error_code == 0
        assert elected.replica_election_results[0].partition_result[0].error_code == code


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
@played_by(on_a_broker, "tmp_path", settings={"delete.topic.enable": "false"})
async def test_delete_when_it_is_disabled(member: Member, version: int, code: ErrorCode) -> None:
    await member.topic_admin.create([NewTopic("a", 1, 1)], PATIENCE_MS)
    answer = await ask(delete_topics, member, DeleteTopicsRequest(topic_names=["a"], timeout_ms=1_000), version)
    assert [row.error_code for row in answer.responses] == [code]
    assert list(member.metadata.image.topics) == ["a"]


@played_by(on_a_broker, "tmp_path")
async def test_delete_without_a_name_and_an_id(member: Member) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=ZERO_UUID)], timeout_ms=1_000)
    [row] = (await ask(delete_topics, member, request, 6)).responses
    assert (row.name, row.error_code) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
