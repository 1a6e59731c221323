"""CreateTopics, DeleteTopics, CreatePartitions and ElectLeaders."""

from __future__ import annotations

import itertools
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
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
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from protocol.primitives import ZERO_UUID
from protocol.schema import Request
from tests.differential.cases.configs import without_own_settings
from tests.differential.cases.metadata import named
from tests.differential.play import PATIENCE_S, Run, case
from tests.differential.wire import Wire
from tests.oracle.process import wait_until
from tests.protocol.raw_text import RawText

QUORUM_TOPIC = "__cluster_metadata"


def new_topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assignments: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def creating(*topics: CreatableTopic, timeout_ms: int = 30000, **fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, **fields)


def without_defaults(answer: CreateTopicsResponse) -> None:
    """Only what the topic itself sets: the defaults are DescribeConfigs's matter."""
    for topic in answer.topics:
        topic.configs = (
            None if topic.configs is None else [config for config in topic.configs if config.config_source == 1]
        )


def ask_to_create(run: Run, *topics: CreatableTopic, **fields: Any) -> None:
    run.ask(creating(*topics, **fields), pick=without_defaults)


@case(CreateTopicsRequest, "normal")
def one_with_settings(run: Run) -> None:
    configs: dict[str, str | None] = {"retention.ms": "1000", "cleanup.policy": "compact,delete"}
    ask_to_create(run, new_topic(run.name("t"), 2, configs=configs))
    run.ask(named(run.name("t")), 4)


@case(CreateTopicsRequest, "normal")
def with_an_assignment(run: Run) -> None:
    ask_to_create(run, new_topic(run.name("t"), -1, -1, {0: [0], 1: [0]}))


@case(CreateTopicsRequest, "normal", "5+")
def answers_every_setting(run: Run) -> None:
    request = creating(new_topic(run.name("t"), configs={"segment.bytes": "1000000"}))
    run.ask(request, pick=without_own_settings)


@case(CreateTopicsRequest, "normal", "1+")
def only_validated(run: Run) -> None:
    name = run.name("t")
    ask_to_create(run, new_topic(name), validate_only=True)
    ask_to_create(run, new_topic(name, 0), validate_only=True)
    run.ask(named(name), 4)


@case(CreateTopicsRequest, "edge")
def broker_defaults(run: Run) -> None:
    ask_to_create(run, new_topic(run.name("t"), -1, -1))


@case(CreateTopicsRequest, "edge")
def no_topics(run: Run) -> None:
    ask_to_create(run)


@case(CreateTopicsRequest, "edge")
def one_good_one_bad(run: Run) -> None:
    ask_to_create(run, new_topic(run.name("good")), new_topic("bad name"))


@case(CreateTopicsRequest, "edge")
def without_waiting(run: Run) -> None:
    for index, timeout_ms in enumerate((0, -1)):
        ask_to_create(run, new_topic(run.name(f"t{index}")), timeout_ms=timeout_ms)


@case(CreateTopicsRequest, "wrong")
def names_that_are_not_allowed(run: Run) -> None:
    for name in ("", ".", "..", "a b", "x" * 250, "ä", "a/b"):
        ask_to_create(run, new_topic(name))


@case(CreateTopicsRequest, "wrong")
def the_metadata_topic_of_quorum_controllers(run: Run) -> None:
    ask_to_create(run, new_topic(QUORUM_TOPIC), new_topic(run.name("t")))
    ask_to_create(run, new_topic(QUORUM_TOPIC, 3, 9))
    if run.version >= 1:
        ask_to_create(run, new_topic(QUORUM_TOPIC), validate_only=True)
    ask_to_create(run, new_topic(QUORUM_TOPIC), new_topic(QUORUM_TOPIC))


@case(CreateTopicsRequest, "wrong")
def a_name_that_is_no_utf8(run: Run) -> None:
    ask_to_create(run, new_topic(RawText(run.name("caf").encode() + b"\xe9")))


@case(CreateTopicsRequest, "wrong")
def names_that_exist_or_collide(run: Run) -> None:
    run.topic("a.b")
    ask_to_create(run, new_topic(run.name("a.b")))
    ask_to_create(run, new_topic(run.name("a_b")))


@case(CreateTopicsRequest, "wrong")
def the_same_twice(run: Run) -> None:
    ask_to_create(run, new_topic(run.name("t")), new_topic(run.name("t")), new_topic(run.name("u")))


@case(CreateTopicsRequest, "wrong")
def counts(run: Run) -> None:
    for partitions, replicas in ((0, 1), (-2, 1), (1, 0), (1, 2), (1, -2), (2, 32767)):
        ask_to_create(run, new_topic(run.name("t"), partitions, replicas))


@case(CreateTopicsRequest, "wrong")
def assignments(run: Run) -> None:
    name = run.name("t")
    given: dict[int, list[int]]
    for given in ({0: [0, 0]}, {1: [0]}, {0: [0], 2: [0]}, {0: [-1]}):
        ask_to_create(run, new_topic(name, -1, -1, given), timeout_ms=100)
    ask_to_create(run, new_topic(name, 1, 1, {0: [0]}))
    ask_to_create(run, new_topic(name, 1, -1, {0: [0]}))


@case(CreateTopicsRequest, "wrong")
def assignment_to_nobody(run: Run) -> None:
    ask_to_create(run, new_topic(run.name("gone"), -1, -1, {0: [9]}), timeout_ms=100)
    ask_to_create(run, new_topic(run.name("empty"), -1, -1, {0: []}), timeout_ms=100)


@case(CreateTopicsRequest, "wrong")
def settings(run: Run) -> None:
    bad: tuple[tuple[str, str | None], ...] = (
        ("nonsense", "1"), ("retention.ms", "abc"), ("retention.ms", "-2"), ("cleanup.policy", "nothing"),
        ("segment.bytes", "13"), ("retention.ms", None), ("min.insync.replicas", "0"), ("compression.type", "brotli"),
        ("min.cleanable.dirty.ratio", "1.5"), ("cleanup.policy", ""), ("unclean.leader.election.enable", "maybe"),
        ("max.message.bytes", " 5 "), ("", "x"),
    )  # fmt: skip
    for index, (key, value) in enumerate(bad):
        ask_to_create(run, new_topic(run.name(f"t{index}"), configs={key: value}))


# -- DeleteTopics


def deleting(run: Run, *names: str, ids: tuple[bytes, ...] = (), timeout_ms: int = 30000) -> DeleteTopicsRequest:
    if run.version >= 6:
        states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
        states += [DeleteTopicState(name=None, topic_id=topic_id) for topic_id in ids]
        return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)


@case(DeleteTopicsRequest, "normal")
def two_by_name(run: Run) -> None:
    run.ask(deleting(run, run.topic("a"), run.topic("b", 3)))
    run.ask(named(run.name("a")), 4)


@case(DeleteTopicsRequest, "normal", "6+")
def by_id(run: Run) -> None:
    run.topic()
    run.ask(deleting(run, ids=(run.last_topic_id,)))


@case(DeleteTopicsRequest, "edge")
def no_topics_(run: Run) -> None:
    run.ask(deleting(run))


def create_again(run: Run, name: str) -> None:
    """It is marked for deletion a little longer than the answer tells."""
    run.until(f"{name} is gone", lambda: run.do(creating(new_topic(name))).topics[0].error_code == 0)


@case(DeleteTopicsRequest, "edge")
def created_again(run: Run) -> None:
    name = run.topic()
    run.ask(deleting(run, name))
    create_again(run, name)
    run.ask(named(name), 4)


@case(DeleteTopicsRequest, "edge")
def without_waiting__(run: Run) -> None:
    run.ask(deleting(run, run.topic(), timeout_ms=0))


@case(DeleteTopicsRequest, "wrong")
def missing_twice_and_nameless(run: Run) -> None:
    name = run.topic()
    run.ask(deleting(run, run.name("missing"), ""))
    run.ask(deleting(run, name, name))


@case(DeleteTopicsRequest, "wrong")
def the_metadata_topic_of_quorum_controllers__(run: Run) -> None:
    run.ask(deleting(run, QUORUM_TOPIC))


@case(DeleteTopicsRequest, "wrong", "6+")
def unknown_id_and_both(run: Run) -> None:
    name = run.topic()
    run.ask(deleting(run, ids=(bytes(range(16)),)))
    request = deleting(run, name)
    request.topics[0].topic_id = run.last_topic_id
    run.ask(request)
    run.ask(deleting(run, name, ids=(run.last_topic_id,)))
    run.ask(deleting(run, ids=(ZERO_UUID,)))


# -- CreatePartitions


def growing(
    name: str, count: int, assigned: list[list[int]] | None = None, validate_only: bool = False
) -> CreatePartitionsRequest:
    given = None if assigned is None else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=given)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=30000, validate_only=validate_only)


@case(CreatePartitionsRequest, "normal")
def two_more(run: Run) -> None:
    name = run.topic()
    run.ask(growing(name, 3))
    run.ask(named(name), 4)


@case(CreatePartitionsRequest, "normal")
def with_an_assignment_(run: Run) -> None:
    name = run.topic()
    run.ask(growing(name, 2, [[0]]))
    run.ask(growing(name, 3, validate_only=True))
    run.ask(named(name), 4)


@case(CreatePartitionsRequest, "edge")
def no_topics__(run: Run) -> None:
    run.ask(CreatePartitionsRequest(topics=[], timeout_ms=1000, validate_only=False))


@case(CreatePartitionsRequest, "edge")
def an_empty_assignment(run: Run) -> None:
    run.ask(growing(run.topic(), 2, []))


@case(CreatePartitionsRequest, "edge")
def without_waiting_(run: Run) -> None:
    request = growing(run.topic(), 2)
    request.timeout_ms = 0
    run.ask(request)


@case(CreatePartitionsRequest, "wrong")
def counts_and_names(run: Run) -> None:
    name = run.topic("t", 2)
    for count in (2, 1, 0, -1):
        run.ask(growing(name, count))
    run.ask(growing(run.name("missing"), 2))
    run.ask(growing("", 2))


@case(CreatePartitionsRequest, "wrong")
def the_metadata_topic_of_quorum_controllers_(run: Run) -> None:
    run.ask(growing(QUORUM_TOPIC, 2))


@case(CreatePartitionsRequest, "edge")
def the_topic_of_the_groups(run: Run) -> None:
    run.group()
    run.ask(growing("__consumer_offsets", 400, validate_only=True))


@case(CreatePartitionsRequest, "wrong")
def assignments_(run: Run) -> None:
    name = run.topic()
    bad: tuple[list[list[int]], ...] = ([[0], [0]], [[9]], [[0, 0]], [[]], [[0, 1]], [[-1]])
    for given in bad:
        run.ask(growing(name, 2, given))


@case(CreatePartitionsRequest, "wrong")
def the_same_twice_(run: Run) -> None:
    request = growing(run.topic(), 2)
    request.topics.append(request.topics[0])
    run.ask(request)


# -- ElectLeaders


def electing(name: str, *partitions: int, kind: int = 0, timeout_ms: int = 30000) -> ElectLeadersRequest:
    wanted = [TopicPartitions(topic=name, partitions=list(partitions))]
    return ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=timeout_ms)


@case(ElectLeadersRequest, "normal")
def preferred_that_already_leads(run: Run) -> None:
    run.ask(electing(run.topic("t", 2), 0, 1))


@case(ElectLeadersRequest, "normal", "1+")
def unclean_that_is_not_needed(run: Run) -> None:
    run.ask(electing(run.topic(), 0, kind=1))


@case(ElectLeadersRequest, "edge")
def all_partitions(run: Run) -> None:
    def own(answer: ElectLeadersResponse) -> None:
        results = answer.replica_election_results
        answer.replica_election_results = [result for result in results if result.topic.startswith(run.prefix)]

    run.topic()
    run.ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=5000), pick=own)


@case(ElectLeadersRequest, "edge")
def nothing_to_elect(run: Run) -> None:
    run.ask(ElectLeadersRequest(topic_partitions=[], timeout_ms=5000))
    run.ask(electing(run.topic()))


@case(ElectLeadersRequest, "wrong")
def missing_topic_and_partition(run: Run) -> None:
    run.ask(electing(run.topic(), 7, -1))
    run.ask(electing(run.name("missing"), 0))


@case(ElectLeadersRequest, "wrong", "1+")
def of_type_nine(run: Run) -> None:
    run.ask(electing(run.topic(), 0, kind=9))


@case(ElectLeadersRequest, "wrong")
def of_a_partition_whose_replicas_are_gone(run: Run) -> None:
    name = run.name("gone")
    run.do(creating(new_topic(name, -1, -1, {0: [9]}), timeout_ms=100))
    run.topic("later")  # a controller that knows this one knows the other
    for kind in (0, 1) if run.version else (0,):
        run.ask(electing(name, 0, kind=kind, timeout_ms=100), may_be_silent=True)


# --- quotas of changes (KIP-599) ---

BURST = 11
"""How many seconds of a quota may be used at once."""


class Limited:
    """A client that may change one partition a second. Each request has a connection of its own: it is muted afterwards. What a
    response says about its throttle time is kept."""

    def __init__(self, run: Run, short: str) -> None:
        self._run = run
        self.client_id = run.name(short)
        self._limit(self.client_id)
        self._wait_for_the_limit(run.name(f"{short}-later"))

    def _limit(self, client_id: str) -> None:
        entity = [EntityData(entity_type="client-id", entity_name=client_id)]
        limit = [OpData(key="controller_mutation_rate", value=1.0, remove=False)]
        entries = [RequestEntryData(entity=entity, ops=limit)]
        self._run.do(AlterClientQuotasRequest(entries=entries, validate_only=False))

    def _wait_for_the_limit(self, later: str) -> None:
        """Other threads of Apache Kafka apply limits, in the order in which they were set: until that of another client is
        felt."""
        self._limit(later)
        names = (f"{later}-{number}" for number in itertools.count())

        def is_refused() -> bool:
            wire = Wire(self._run.host, self._run.port, later)
            (topic,) = self._run.do(creating(new_topic(next(names), BURST)), wire=wire).topics
            wire.close()
            return bool(topic.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED)

        assert wait_until(is_refused, PATIENCE_S)

    def ask(self, request: Request, **more: Any) -> None:
        wire = Wire(self._run.host, self._run.port, self.client_id)
        answer = self._run.ask(request, wire=wire, **more)
        self._run.note({"is_throttled": answer.throttle_time_ms > 0})
        wire.close()


@case(CreateTopicsRequest, "wrong", "2+")
def above_the_quota(run: Run) -> None:
    limited = Limited(run, "c")
    for names in ("a", "b"), ("c", "d"):
        request = creating(*(new_topic(run.name(name), BURST) for name in names))
        limited.ask(request, pick=without_defaults)
    limited.ask(creating(new_topic(run.name("e")), validate_only=True), pick=without_defaults)
    limited.ask(creating(new_topic(run.name("a"))), pick=without_defaults)


@case(DeleteTopicsRequest, "wrong", "1+")
def above_the_quota_(run: Run) -> None:
    limited = Limited(run, "c")
    topics = [run.topic(name, BURST) for name in "abcd"]
    for names in topics[:2], topics[2:]:
        limited.ask(deleting(run, *names))
    limited.ask(deleting(run, run.name("missing")))


@case(CreatePartitionsRequest, "wrong")
def above_the_quota__(run: Run) -> None:
    limited = Limited(run, "c")
    topics = [run.topic(name) for name in "abcd"]
    for names in topics[:2], topics[2:]:
        rows = [CreatePartitionsTopic(name=name, count=BURST + 1, assignments=None) for name in names]
        limited.ask(CreatePartitionsRequest(topics=rows, timeout_ms=30000, validate_only=False))
