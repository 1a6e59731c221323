"""CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders and InitProducerId in every version."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.handlers.topics.create_partitions import create_partitions
from broker.handlers.topics.create_topics import create_topics
from broker.handlers.topics.delete_topics import delete_topics
from broker.handlers.topics.elect_leaders import elect_leaders
from broker.handlers.transactions.init_producer_id import init_producer_id
from metadata.admin.topic_requests import NewTopic
from protocol.errors import ErrorCode
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
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.primitives import ZERO_UUID
from tests.broker.handlers.ask import ask, on_a_broker
from tests.controller.harness import PATIENCE_MS, Member, cluster


async def make(member: Member, *names: str, partitions: int = 1) -> None:
    await member.topic_admin.create([NewTopic(name, partitions, 1) for name in names], PATIENCE_MS)


def creatable(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    assignments: dict[int, list[int]] | None = None,
    **config: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=each)
            for index, each in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()],
    )


# --- CreateTopics ---


@pytest.mark.parametrize("version", range(8))
def test_create(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        request = CreateTopicsRequest(
            topics=[creatable("a", 3, retention_ms="5000"), creatable("b", -1, -1, {0: [0]}), creatable("a b")],
            timeout_ms=PATIENCE_MS,
        )
        answer = await ask(create_topics, member, request, version)
        a, b, refused = answer.topics
        assert (a.name, a.error_code, b.name, b.error_code) == ("a", 0, "b", 0)
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        image = member.metadata.image
        assert len(image.topics["a"].partitions) == 3
        if version >= 1:
            assert a.error_message is None
            assert "Topic name is invalid" in refused.error_message
        if version >= 5:
            assert (a.num_partitions, a.replication_factor) == (3, 1)
            assert (refused.num_partitions, refused.replication_factor, refused.configs) == (-1, -1, [])
            rows = {row.name: row for row in a.configs}
            assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("5000", 1)
            assert (rows["cleanup.policy"].value, rows["cleanup.policy"].config_source) == ("delete", 5)
            assert not any(row.read_only or row.is_sensitive for row in a.configs)
        if version >= 7:
            assert a.topic_id == image.topic_id("a") != ZERO_UUID

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", range(1, 8))
def test_create_validate_only(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        request = CreateTopicsRequest(
            topics=[creatable("a", 3), creatable("b", 1, 3)], timeout_ms=PATIENCE_MS, validate_only=True
        )
        a, b = (await ask(create_topics, member, request, version)).topics
        assert (a.error_code, b.error_code) == (0, ErrorCode.INVALID_REPLICATION_FACTOR)
        assert b.error_message == "Replication factor: 3 larger than available brokers: 1."
        assert await member.store.children("/brokers/topics") == []
        assert a.topic_id == ZERO_UUID

    on_a_broker(tmp_path, scenario)


def test_create_refuses_doubles_and_the_metadata_topic(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        request = CreateTopicsRequest(
            topics=[creatable("a"), creatable("a", 2), creatable("__cluster_metadata"), creatable("b")],
            timeout_ms=PATIENCE_MS,
        )
        answer = await ask(create_topics, member, request, 7)
        assert [(row.name, row.error_code, row.error_message) for row in answer.topics] == [
            ("a", ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic."),
            ("a", ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic."),
            (
                "__cluster_metadata",
                ErrorCode.INVALID_REQUEST,
                "Creation of internal topic __cluster_metadata is prohibited.",
            ),
            ("b", 0, None),
        ]

    on_a_broker(tmp_path, scenario)


def test_create_times_out_and_the_topic_exists(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        request = CreateTopicsRequest(topics=[creatable("a", -1, -1, {0: [5]})], timeout_ms=20)
        [row] = (await ask(create_topics, member, request, 7)).topics
        assert (row.error_code, row.num_partitions) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert await member.store.children("/brokers/topics") == ["a"]

    on_a_broker(tmp_path, scenario)


# --- off the controller ---


def test_only_the_controller_serves() -> None:
    async def run() -> None:
        async with cluster(1, 2) as made:
            other = next(each for each in made.members.values() if not each.controller.is_active)
            code = ErrorCode.NOT_CONTROLLER
            created = await ask(create_topics, other, CreateTopicsRequest(topics=[creatable("a")]), 7)
            assert [row.error_code for row in created.topics] == [code]
            deleted = await ask(delete_topics, other, DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), 5)
            assert [row.error_code for row in deleted.responses] == [code]
            grown = await ask(create_partitions, other, growth("a", 2), 3)
            assert [row.error_code for row in grown.results] == [code]
            wanted = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0])], timeout_ms=1)
            elected = await ask(elect_leaders, other, wanted, 2)
            assert elected.error_code == 0
            assert elected.replica_election_results[0].partition_result[0].error_code == code

    asyncio.run(run())


# --- DeleteTopics ---


@pytest.mark.parametrize("version", range(7))
def test_delete_by_name(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        await make(member, "a", "b")
        names = ["a", "missing", "a", "missing"]
        request = DeleteTopicsRequest(
            topic_names=names if version < 6 else [],
            topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names] if version >= 6 else [],
            timeout_ms=PATIENCE_MS,
        )
        answer = await ask(delete_topics, member, request, version)
        assert [(row.name, row.error_code) for row in answer.responses] == [
            ("a", 0),
            ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("a", 0),
        ]
        assert list(member.metadata.image.topics) == ["b"]

    on_a_broker(tmp_path, scenario)


def test_delete_by_id(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await make(member, "a", "b")
        topic_id, unknown = member.metadata.image.topic_id("a"), b"x" * 16
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=each) for each in (topic_id, unknown)],
            timeout_ms=PATIENCE_MS,
        )
        answer = await ask(delete_topics, member, request, 6)
        assert [(row.name, row.topic_id, row.error_code) for row in answer.responses] == [
            ("a", topic_id, 0),
            (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        both = DeleteTopicsRequest(topics=[DeleteTopicState(name="b", topic_id=unknown)], timeout_ms=PATIENCE_MS)
        answer = await ask(delete_topics, member, both, 6)
        assert [row.error_code for row in answer.responses] == [ErrorCode.INVALID_REQUEST]
        assert list(member.metadata.image.topics) == ["b"]

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_delete_when_it_is_disabled(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async def scenario(member: Member) -> None:
        await make(member, "a")
        answer = await ask(delete_topics, member, DeleteTopicsRequest(topic_names=["a"], timeout_ms=1_000), version)
        assert [row.error_code for row in answer.responses] == [code]
        assert list(member.metadata.image.topics) == ["a"]

    on_a_broker(tmp_path, scenario, settings={"delete.topic.enable": "false"})


# --- CreatePartitions ---


def growth(
    name: str, count: int, assignments: list[list[int]] | None = None, *, validate_only: bool = False
) -> CreatePartitionsRequest:
    rows = None if assignments is None else [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
    return CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=rows)],
        timeout_ms=PATIENCE_MS,
        validate_only=validate_only,
    )


@pytest.mark.parametrize("version", range(4))
def test_grow(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        await make(member, "a")
        cases = [
            (growth("a", 3, validate_only=True), 0, 1),
            (growth("a", 3), 0, 3),
            (growth("a", 4, [[0]]), 0, 4),
            (growth("a", 5, [[7]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, 4),
            (growth("a", 5, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT, 4),
            (growth("a", 4), ErrorCode.INVALID_PARTITIONS, 4),
            (growth("a", -1), ErrorCode.INVALID_PARTITIONS, 4),
            (growth("missing", 4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 4),
        ]
        for request, code, partitions in cases:
            [row] = (await ask(create_partitions, member, request, version)).results
            assert row.error_code == code, request
            assert bool(row.error_message) is (code != 0)
            assert len(member.metadata.image.topics["a"].partitions) == partitions
        empty = CreatePartitionsRequest(topics=[], timeout_ms=1, validate_only=False)
        assert (await ask(create_partitions, member, empty, version)).results == []

    on_a_broker(tmp_path, scenario)


def test_grow_refuses_doubles_and_topics_that_are_going(tmp_path: Path) -> None:
    async def scenario(member: Member) -> None:
        await make(member, "a", "b")
        member.broker.deletion_error = ErrorCode.KAFKA_STORAGE_ERROR
        await member.topic_admin.delete(["b"], PATIENCE_MS)
        rows = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("a", "a", "b")]
        request = CreatePartitionsRequest(topics=rows, timeout_ms=PATIENCE_MS, validate_only=False)
        answer = await ask(create_partitions, member, request, 3)
        assert [(row.name, row.error_code, row.error_message) for row in answer.results] == [
            ("a", ErrorCode.INVALID_REQUEST, "Duplicate topic in request."),
            ("b", ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion."),
        ]

    on_a_broker(tmp_path, scenario)


# --- ElectLeaders ---


@pytest.mark.parametrize("version", range(3))
def test_elect(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        await make(member, "a", partitions=2)
        chosen = ElectLeadersRequest(
            topic_partitions=[
                TopicPartitions(topic="a", partitions=[1, 7]),
                TopicPartitions(topic="b", partitions=[0]),
            ],
            timeout_ms=PATIENCE_MS,
        )
        answer = await ask(elect_leaders, member, chosen, version)
        assert answer.error_code == 0
        assert [
            (topic.topic, row.partition_id, row.error_code)
            for topic in answer.replica_election_results
            for row in topic.partition_result
        ] == [
            ("a", 1, ErrorCode.ELECTION_NOT_NEEDED),
            ("a", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("b", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        every = ElectLeadersRequest(topic_partitions=None, timeout_ms=PATIENCE_MS)
        assert (await ask(elect_leaders, member, every, version)).replica_election_results == []
        if version >= 1:
            wrong = ElectLeadersRequest(election_type=9, topic_partitions=None)
            assert (await ask(elect_leaders, member, wrong, version)).error_code == ErrorCode.INVALID_REQUEST

    on_a_broker(tmp_path, scenario)


# --- InitProducerId ---


@pytest.mark.parametrize("version", range(6))
def test_producer_ids(tmp_path: Path, version: int) -> None:
    async def scenario(member: Member) -> None:
        plain = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        first = await ask(init_producer_id, member, plain, version)
        second = await ask(init_producer_id, member, plain, version)
        assert (first.error_code, first.producer_id, first.producer_epoch) == (0, 0, 0)
        assert (second.error_code, second.producer_id) == (0, 1)

    on_a_broker(tmp_path, scenario)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0, producer_id=5, producer_epoch=3), 0),
        (
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0, producer_id=5),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0, producer_epoch=5),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_producer_id_rules(tmp_path: Path, request_: InitProducerIdRequest, code: int) -> None:
    async def scenario(member: Member) -> None:
        answer = await ask(init_producer_id, member, request_, 5)
        assert answer.error_code == code
        expected = (0, 0) if code == 0 else (-1, -1)
        assert (answer.producer_id, answer.producer_epoch) == expected

    on_a_broker(tmp_path, scenario)
