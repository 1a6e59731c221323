"""Who may do what with topics: their metadata, settings, partitions and life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.metadata import MetadataRequest
from security.access import Operation
from tests.differential.cases.metadata import named, own_topics
from tests.differential.cases.topics import creating, deleting, electing, growing, new_topic
from tests.differential.play import Run
from tests.differential.secured import check, numbered, on_cluster, on_topic

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SETTING = "max.message.bytes"
UNKNOWN_ID = bytes(range(16))


# -- Metadata


def _named(run: Run, _: Any) -> MetadataRequest:
    return named(run.name("t"), run.name("missing"))


def _operations(run: Run, _: Any) -> MetadataRequest:
    request = named(run.name("t"), run.name("missing"))
    request.include_topic_authorized_operations = request.include_cluster_authorized_operations = True
    return request


check(
    MetadataRequest,
    _named,
    {
        "may describe the topic": on_topic(Operation.DESCRIBE),
        "may read the topic": on_topic(Operation.READ),
        "may create the topic": on_topic(Operation.CREATE),
        "may describe the missing one": on_topic(Operation.DESCRIBE, name="missing"),
        "may describe both": [*on_topic(Operation.DESCRIBE), *on_topic(Operation.DESCRIBE, name="missing")],
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
        "may describe settings": on_topic(Operation.DESCRIBE_CONFIGS),
    },
    "4+",  # before, clients could not forbid the creation
    about="who may see topics",
    prepare=lambda run: run.topic(),
)

check(
    MetadataRequest,
    lambda run, _: MetadataRequest(topics=None if run.version else []),
    {
        "may describe one": on_topic(Operation.DESCRIBE),
        "may write to one": on_topic(Operation.WRITE),
        "may create topics": on_cluster(Operation.CREATE),
    },
    about="who may see all topics",
    prepare=lambda run: [run.topic(), run.topic("hidden")],
    pick=own_topics,
)

check(
    MetadataRequest,
    _operations,
    {
        "may describe both": [*on_topic(Operation.DESCRIBE), *on_topic(Operation.DESCRIBE, name="missing")],
        "may read and delete": on_topic(Operation.READ, Operation.DELETE),
        "may alter settings, describe the cluster and create": [
            *on_topic(Operation.ALTER_CONFIGS, Operation.WRITE),
            *on_cluster(Operation.DESCRIBE, Operation.CREATE),
        ],
        "may act as the cluster": [*on_topic(Operation.ALTER), *on_cluster(Operation.CLUSTER_ACTION)],
        "may alter the cluster": [*on_topic(Operation.CREATE), *on_cluster(Operation.ALTER)],
        "may write idempotently": on_cluster(Operation.IDEMPOTENT_WRITE),
    },
    "8+",
    about="which operations are authorized",
    prepare=lambda run: run.topic(),
)


def _by_id(run: Run, topic_id: bytes) -> MetadataRequest:
    request = named(None, None, topic_id=topic_id)
    request.topics[1].topic_id = UNKNOWN_ID
    request.include_topic_authorized_operations = True
    run.names.topic_ids[UNKNOWN_ID] = "<unknown id>"
    return request


def _topic_id(run: Run) -> bytes:
    run.topic()
    return run.last_topic_id


check(
    MetadataRequest,
    _by_id,
    {"may describe the topic": on_topic(Operation.DESCRIBE), "may write to the topic": on_topic(Operation.WRITE)},
    "12+",
    about="who may see topics by id",
    prepare=_topic_id,
)

check(
    MetadataRequest,
    lambda run, _: named(run.name(numbered(run, "new")), create=True),
    {
        "may describe it": on_topic(Operation.DESCRIBE, name="new{n}"),
        "may create topics": on_cluster(Operation.CREATE),
        "may create it": on_topic(Operation.CREATE, name="new{n}"),
        "may describe it and create topics": [
            *on_topic(Operation.DESCRIBE, name="new{n}"),
            *on_cluster(Operation.CREATE),
        ],
        "may describe and create it": on_topic(Operation.DESCRIBE, Operation.CREATE, name="new{n}"),
        "may write to it": on_topic(Operation.WRITE, name="new{n}"),
    },
    about="who may create by asking",
)

# -- CreateTopics, CreatePartitions, DeleteTopics


def _one_setting(_: Run) -> Callable[[CreateTopicsResponse], None]:
    def pick(answer: CreateTopicsResponse) -> None:
        for topic in answer.topics:
            topic.configs = [row for row in topic.configs or [] if row.name == SETTING]

    return pick


for only_validates in (False, True):
    check(
        CreateTopicsRequest,
        lambda run, _, only=only_validates: creating(  # type: ignore[misc]
            new_topic(run.name(numbered(run, "new"))),
            new_topic(run.name(numbered(run, "other"))),
            new_topic(run.name("t")),
            validate_only=only,
        ),
        {
            "may create one": on_topic(Operation.CREATE, name="new{n}"),
            "may create one and describe its settings": on_topic(
                Operation.CREATE, Operation.DESCRIBE_CONFIGS, name="new{n}"
            ),
            "may describe settings": on_topic(Operation.DESCRIBE_CONFIGS, name="new{n}"),
            "may alter settings": on_topic(Operation.CREATE, Operation.ALTER_CONFIGS, name="new{n}"),
            "may create topics": on_cluster(Operation.CREATE),
            "may create topics and describe settings of the one that is there": [
                *on_cluster(Operation.CREATE),
                *on_topic(Operation.DESCRIBE_CONFIGS),
            ],
            "may describe all of the cluster": on_cluster(Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
        },
        "1+" if only_validates else "0+",
        about="who may validate" if only_validates else "who may",
        prepare=lambda run: run.topic(),
        pick=_one_setting,
    )

check(
    CreateTopicsRequest,
    lambda run, _: creating(
        new_topic(run.name("twice")),
        new_topic(run.name("twice")),
        new_topic("__cluster_metadata"),
        new_topic("not/legal"),
        new_topic(run.name("counts"), partitions=-5),
    ),
    {"may create one": on_topic(Operation.CREATE, name="twice"), "may create topics": on_cluster(Operation.CREATE)},
    about="who may create what nobody may",
    pick=_one_setting,
)

check(
    CreatePartitionsRequest,
    lambda run, _: growing(run.name("t"), 2 + len(run.answers)),
    {
        "may alter the topic": on_topic(Operation.ALTER),
        "may write to the topic": on_topic(Operation.WRITE),
        "may alter the cluster": on_cluster(Operation.ALTER),
    },
    prepare=lambda run: run.topic(),
)

check(
    CreatePartitionsRequest,
    lambda run, _: growing(run.name("missing"), 2),
    {"may alter it": on_topic(Operation.ALTER, name="missing")},
    about="who may grow a missing topic",
)


def _each_time(run: Run) -> bytes:
    run.topic(numbered(run, "t"))
    return run.last_topic_id


check(
    DeleteTopicsRequest,
    lambda run, _: deleting(run, run.name(numbered(run, "t")), run.name("missing")),
    {
        "may delete it": on_topic(Operation.DELETE, name="t{n}"),
        "may describe it": on_topic(Operation.DESCRIBE, name="t{n}"),
        "may alter it": on_topic(Operation.ALTER, name="t{n}"),
        "may delete the missing one": on_topic(Operation.DELETE, name="missing"),
        "may describe the missing one": on_topic(Operation.DESCRIBE, name="missing"),
        "may alter the cluster": on_cluster(Operation.ALTER),
    },
    prepare_each=_each_time,
)


def _deleting_by_id(run: Run, topic_id: bytes) -> DeleteTopicsRequest:
    run.names.topic_ids[UNKNOWN_ID] = "<unknown id>"
    return deleting(run, ids=(topic_id, UNKNOWN_ID))


check(
    DeleteTopicsRequest,
    _deleting_by_id,
    {
        "may delete it": on_topic(Operation.DELETE, name="t{n}"),
        "may describe it": on_topic(Operation.DESCRIBE, name="t{n}"),
        "may read it": on_topic(Operation.READ, name="t{n}"),
        "may create it": on_topic(Operation.CREATE, name="t{n}"),
    },
    "6+",
    about="who may delete by id",
    prepare_each=_each_time,
)

# -- settings


def _values_of(_: Run) -> Callable[[DescribeConfigsResponse], None]:
    def pick(answer: DescribeConfigsResponse) -> None:
        for result in answer.results:
            for row in result.configs:
                row.value = None if row.value is None else "a value"
                row.synonyms = []

    return pick


def _describing(run: Run, _: Any) -> DescribeConfigsRequest:
    asked = [
        (TOPIC, run.name("t"), SETTING),
        (TOPIC, run.name("missing"), SETTING),
        (BROKER, "0", "log.cleaner.threads"),
        (BROKER_LOGGER, "0", "no.such.logger"),
    ]
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
            for kind, name, key in asked
        ]
    )


check(
    DescribeConfigsRequest,
    _describing,
    {
        "may describe the topic's settings": on_topic(Operation.DESCRIBE_CONFIGS),
        "may alter the topic's settings": on_topic(Operation.ALTER_CONFIGS),
        "may describe the topic": on_topic(Operation.DESCRIBE),
        "may describe the missing one's settings": on_topic(Operation.DESCRIBE_CONFIGS, name="missing"),
        "may describe the cluster's settings": on_cluster(Operation.DESCRIBE_CONFIGS),
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
    },
    prepare=lambda run: run.topic(),
    pick=_values_of,
)


def _altering(run: Run, _: Any) -> AlterConfigsRequest:
    rows = [
        (TOPIC, run.name("t"), SETTING, "1000"),
        (TOPIC, run.name("missing"), SETTING, "1000"),
        (BROKER, "0", "log.cleaner.threads", "1"),
    ]
    return AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, value=value)]
            )
            for kind, name, key, value in rows
        ],
        validate_only=True,
    )


_ALTER_CONFIGS = {
    "may alter the topic's settings": on_topic(Operation.ALTER_CONFIGS),
    "may describe the topic's settings": on_topic(Operation.DESCRIBE_CONFIGS),
    "may alter the topic": on_topic(Operation.ALTER),
    "may alter the missing one's settings": on_topic(Operation.ALTER_CONFIGS, name="missing"),
    "may alter the cluster's settings": on_cluster(Operation.ALTER_CONFIGS),
    "may alter the cluster": on_cluster(Operation.ALTER),
}

check(AlterConfigsRequest, _altering, _ALTER_CONFIGS, prepare=lambda run: run.topic())


def _changing(run: Run, _: Any) -> IncrementalAlterConfigsRequest:
    rows = [
        (TOPIC, run.name("t"), SETTING, "1000"),
        (TOPIC, run.name("missing"), SETTING, "1000"),
        (BROKER, "0", "log.cleaner.threads", "1"),
        (BROKER_LOGGER, "0", "root", "INFO"),
    ]
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalResource(
                resource_type=kind,
                resource_name=name,
                configs=[IncrementalConfig(name=key, config_operation=0, value=value)],
            )
            for kind, name, key, value in rows
        ],
        validate_only=True,
    )


check(IncrementalAlterConfigsRequest, _changing, _ALTER_CONFIGS, prepare=lambda run: run.topic())


def _altering_wrong(run: Run, _: Any) -> AlterConfigsRequest:
    rows: list[tuple[int, str, list[tuple[str, str | None]]]] = [
        (TOPIC, run.name("t"), [(SETTING, "many")]),
        (TOPIC, run.name("u"), [(SETTING, None)]),
        (TOPIC, "", [(SETTING, "1000")]),
        (BROKER, "7", [("log.cleaner.threads", "1")]),
        (BROKER, "0", [("log.cleaner.threads", "many")]),
    ]
    return AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, value=value) for key, value in entries],
            )
            for kind, name, entries in rows
        ],
        validate_only=True,
    )


def _changing_wrong(run: Run, _: Any) -> IncrementalAlterConfigsRequest:
    rows: list[tuple[int, str, list[tuple[str, int, str | None]]]] = [
        (TOPIC, run.name("t"), [(SETTING, 0, "many")]),
        (TOPIC, run.name("u"), [(SETTING, 0, None)]),
        (TOPIC, run.name("v"), [(SETTING, 0, "1"), (SETTING, 0, "2")]),
        (BROKER, "7", [("log.cleaner.threads", 0, "1")]),
        (BROKER, "0", [("log.cleaner.threads", 0, "many")]),
        (BROKER_LOGGER, "0", [("no.such.logger", 0, "WARN")]),
        (BROKER_LOGGER, "7", [("root", 0, "WARN")]),
    ]
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in entries
                ],
            )
            for kind, name, entries in rows
        ],
        validate_only=True,
    )


for api, wrong in ((AlterConfigsRequest, _altering_wrong), (IncrementalAlterConfigsRequest, _changing_wrong)):
    check(
        api,
        wrong,  # type: ignore[arg-type]
        {
            "may alter the topic's settings": on_topic(Operation.ALTER_CONFIGS),
            "may alter the cluster's settings": on_cluster(Operation.ALTER_CONFIGS),
        },
        about="who may alter what nobody may",
        prepare=lambda run: run.topic(),
    )

# -- replicas

_ALTER_CLUSTER = {
    "may alter the cluster": on_cluster(Operation.ALTER),
    "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
    "may alter the topic": on_topic(Operation.ALTER),
}

check(
    ElectLeadersRequest, lambda run, _: electing(run.name("t"), 0, 5), _ALTER_CLUSTER, prepare=lambda run: run.topic()
)


def _reassigning(run: Run, _: Any) -> AlterPartitionReassignmentsRequest:
    rows = [ReassignablePartition(partition_index=index, replicas=[0]) for index in (0, 5)]
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=run.name("t"), partitions=rows)])


check(AlterPartitionReassignmentsRequest, _reassigning, _ALTER_CLUSTER, prepare=lambda run: run.topic())

check(
    ListPartitionReassignmentsRequest,
    lambda run, _: ListPartitionReassignmentsRequest(topics=None),
    {
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
        "may alter the cluster": on_cluster(Operation.ALTER),
        "may describe the topic": on_topic(Operation.DESCRIBE),
    },
    prepare=lambda run: run.topic(),
)
