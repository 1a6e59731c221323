"""Topics: list, create, get, give more partitions, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi.responses import Response

from client.admin import topics
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from security.access import Operation
from web.requests import WRITING
from web.rest_v3.asked import V3, answer, done, outcome, v3_router
from web.rest_v3.bodies import CreateTopicRequest, UpdatePartitionCountRequest
from web.rest_v3.errors import problem_of
from web.rest_v3.resources import TopicData, TopicDataList

if TYPE_CHECKING:
    from protocol.messages.metadata import MetadataResponseTopic
    from web.rest_v3.links import Links

TIMEOUT_MS = 30_000
"""How long the controller waits for what it was asked for."""
router = v3_router("Topic (v3)")
_TOPICS = "/clusters/{cluster_id}/topics"
_TOPIC = _TOPICS + "/{topic_name}"


@router.get(_TOPICS, response_model=TopicDataList)
async def list_topics(v3: V3) -> Response:
    """List the topics that the caller may see."""
    found = await v3.user.run(topics.all_topics())
    rows = await v3.each(lambda name: topic_data(v3.links, found[name]), sorted(found))
    return v3.collection("KafkaTopicList", rows, "topics")


@router.post(
    _TOPICS,
    response_model=TopicData,
    status_code=201,
    responses={200: {"model": TopicData, "description": "It would be created (`validate_only`)."}},
    dependencies=[WRITING],
)
async def create_topic(v3: V3, body: CreateTopicRequest) -> Response:
    """Create a topic, or only say whether it could be."""
    name = body.topic_name
    created = await v3.user.run(topics.create({name: _creatable(body)}, TIMEOUT_MS, validate_only=body.validate_only))
    _check(created[name])
    here = v3.links.to("topics", name)
    if body.validate_only:
        return answer(_planned(v3.links, body), location=here)
    described = (await v3.user.run(topics.describe([name])))[name]
    # A broker may not have heard of the topic yet: what is told then is what was asked for.
    data = _planned(v3.links, body) if isinstance(described, KafkaError) else topic_data(v3.links, described)
    return answer(data, 201, location=here)


@router.get(_TOPIC, response_model=TopicData)
async def get_topic(v3: V3, topic_name: str, include_authorized_operations: bool = False) -> Response:
    """Tell about a topic, and what the caller may do with it."""
    found = await v3.user.run(topics.describe([topic_name], has_operations=include_authorized_operations))
    topic = outcome(found, topic_name)
    data = topic_data(v3.links, topic)
    if include_authorized_operations:
        data["authorized_operations"] = operations_of(topic.topic_authorized_operations)
    return answer(data)


@router.patch(_TOPIC, response_model=TopicData, dependencies=[WRITING])
async def update_partition_count(v3: V3, topic_name: str, body: UpdatePartitionCountRequest) -> Response:
    """Give a topic more partitions: `partitions_count` is how many it has then."""
    steps = topics.add_partitions({topic_name: body.partitions_count}, {}, TIMEOUT_MS)
    _check((await v3.user.run(steps))[topic_name])
    data = topic_data(v3.links, outcome(await v3.user.run(topics.describe([topic_name])), topic_name))
    data["partitions_count"] = max(data["partitions_count"], body.partitions_count)  # a broker may not know it yet
    return answer(data)


@router.delete(_TOPIC, status_code=204, response_class=Response, dependencies=[WRITING])
async def delete_topic(v3: V3, topic_name: str) -> Response:
    """Delete a topic with its records."""
    _check((await v3.user.run(topics.delete([topic_name], TIMEOUT_MS)))[topic_name])
    return done()


def topic_data(links: Links, topic: MetadataResponseTopic) -> TopicData:
    replicas = [len(each.replica_nodes) for each in topic.partitions]
    return _data(links, topic.name or "", len(replicas), replicas[0] if replicas else 0, is_internal=topic.is_internal)


def operations_of(bits: int) -> list[str]:
    """Return the operations that a broker's bits stand for."""
    return [each.name for each in Operation if bits >= 0 and bits >> each & 1]


def _planned(links: Links, body: CreateTopicRequest) -> TopicData:
    assignments = body.replicas_assignments
    partitions = len(assignments) or body.partitions_count or 0
    replicas = len(assignments[0].broker_ids) if assignments else body.replication_factor or 0
    return _data(links, body.topic_name, partitions, replicas, is_internal=False)


def _data(links: Links, name: str, partitions_count: int, replication_factor: int, *, is_internal: bool) -> TopicData:
    here = ("topics", name)
    return {
        "kind": "KafkaTopic",
        "metadata": links.metadata(*here, name=links.name("topic", name)),
        "cluster_id": links.cluster_id,
        "topic_name": name,
        "is_internal": is_internal,
        "replication_factor": replication_factor,
        "partitions_count": partitions_count,
        "partitions": links.related(*here, "partitions"),
        "configs": links.related(*here, "configs"),
        "partition_reassignments": links.related(*here, "partitions", "-", "reassignment"),
    }


def _creatable(body: CreateTopicRequest) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=each.partition_id, broker_ids=each.broker_ids)
        for each in body.replicas_assignments
    ]

    def given(count: int | None) -> int:
        return topics.NOT_ASSIGNED if count is None else count

    return CreatableTopic(
        name=body.topic_name,
        num_partitions=given(body.partitions_count),
        replication_factor=given(body.replication_factor),
        assignments=assignments,
        configs=[CreatableTopicConfig(name=each.name, value=each.value) for each in body.configs],
    )


def _check(error: KafkaError | None) -> None:
    """Raises HttpProblem."""
    if error is not None:
        found = problem_of(error)
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            found.message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
        raise found
