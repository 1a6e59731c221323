"""Partitions, their replicas, and the reassignments under way, which are only listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi.responses import Response

from client.admin import brokers, replicas, topics
from protocol.errors import ErrorCode, KafkaError
from web.rest_v3.asked import V3, AskedCluster, answer, not_found, outcome, v3_router
from web.rest_v3.resources import (
    PartitionData,
    PartitionDataList,
    ReassignmentData,
    ReassignmentDataList,
    ReplicaData,
    ReplicaDataList,
)

if TYPE_CHECKING:
    from protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
    from protocol.messages.metadata import MetadataResponsePartition
    from protocol.topic_partition import TopicPartition
    from web.rest_v3.links import Links

router = v3_router("Partition (v3)")
_ALL = "/clusters/{cluster_id}/topics/-/partitions/-/reassignment"
_PARTITIONS = "/clusters/{cluster_id}/topics/{topic_name}/partitions"
_PARTITION = _PARTITIONS + "/{partition_id}"


@router.get(_ALL, response_model=ReassignmentDataList)
async def list_all_reassignments(v3: V3) -> Response:
    """List the partitions whose replicas are being moved."""
    found = await v3.user.run(replicas.reassignments())
    rows = [reassignment_data(v3.links, key, found[key]) for key in sorted(found)]
    return v3.collection("KafkaReassignmentList", rows, "topics", "-", "partitions", "-", "reassignment")


@router.get(_PARTITIONS + "/-/reassignment", response_model=ReassignmentDataList)
async def list_topic_reassignments(v3: V3, topic_name: str) -> Response:
    """List the partitions of a topic whose replicas are being moved."""
    await _partitions(v3, topic_name)
    found = await v3.user.run(replicas.reassignments())
    rows = [reassignment_data(v3.links, key, found[key]) for key in sorted(found) if key[0] == topic_name]
    return v3.collection("KafkaReassignmentList", rows, "topics", topic_name, "partitions", "-", "reassignment")


@router.get(_PARTITION + "/reassignment", response_model=ReassignmentData)
async def get_reassignment(v3: V3, topic_name: str, partition_id: int) -> Response:
    """Tell how the replicas of a partition are being moved."""
    await _partition(v3, topic_name, partition_id)
    key = (topic_name, partition_id)
    found = await v3.user.run(replicas.reassignments())
    if key not in found:
        raise not_found(f"A reassignment of partition {partition_id} of topic {topic_name}")
    return answer(reassignment_data(v3.links, key, found[key]))


@router.get(_PARTITIONS, response_model=PartitionDataList)
async def list_partitions(v3: V3, topic_name: str) -> Response:
    """List the partitions of a topic."""
    partitions = await _partitions(v3, topic_name)
    rows = await v3.each(lambda index: partition_data(v3.links, topic_name, partitions[index]), sorted(partitions))
    return v3.collection("KafkaPartitionList", rows, "topics", topic_name, "partitions")


@router.get(_PARTITION, response_model=PartitionData)
async def get_partition(v3: V3, topic_name: str, partition_id: int) -> Response:
    """Tell who leads a partition."""
    return answer(partition_data(v3.links, topic_name, await _partition(v3, topic_name, partition_id)))


@router.get(_PARTITION + "/replicas", response_model=ReplicaDataList, tags=["Replica (v3)"])
async def list_replicas(v3: V3, topic_name: str, partition_id: int) -> Response:
    """List the replicas of a partition."""
    partition = await _partition(v3, topic_name, partition_id)
    rows = [replica_data(v3.links, topic_name, partition, each) for each in partition.replica_nodes]
    return v3.collection("KafkaReplicaList", rows, "topics", topic_name, "partitions", partition_id, "replicas")


@router.get(_PARTITION + "/replicas/{broker_id}", response_model=ReplicaData, tags=["Replica (v3)"])
async def get_replica(v3: V3, topic_name: str, partition_id: int, broker_id: int) -> Response:
    """Tell whether a replica leads, and is in sync."""
    partition = await _partition(v3, topic_name, partition_id)
    if broker_id not in partition.replica_nodes:
        raise not_found(f"Replica {broker_id} of partition {partition_id} of topic {topic_name}")
    return answer(replica_data(v3.links, topic_name, partition, broker_id))


@router.get(
    "/clusters/{cluster_id}/brokers/{broker_id}/partition-replicas",
    response_model=ReplicaDataList,
    tags=["Replica (v3)"],
)
async def search_replicas_by_broker(v3: V3, broker_id: int) -> Response:
    """List the replicas that a broker has."""
    if all(row.node_id != broker_id for row in (await v3.user.run(brokers.cluster())).brokers):
        raise not_found(f"Broker {broker_id}")
    found = await v3.user.run(topics.all_topics())

    def of_topic(name: str) -> list[ReplicaData]:
        partitions = sorted(found[name].partitions, key=lambda each: each.partition_index)
        return [replica_data(v3.links, name, each, broker_id) for each in partitions if broker_id in each.replica_nodes]

    rows = await v3.each(of_topic, sorted(found))
    return v3.collection(
        "KafkaReplicaList", [row for some in rows for row in some], "brokers", broker_id, "partition-replicas"
    )


async def _partitions(v3: AskedCluster, topic: str) -> dict[int, MetadataResponsePartition]:
    """Raises KafkaError."""
    found = outcome(await v3.user.run(topics.describe([topic])), topic)
    return {each.partition_index: each for each in found.partitions}


async def _partition(v3: AskedCluster, topic: str, index: int) -> MetadataResponsePartition:
    """Raises KafkaError."""
    partitions = await _partitions(v3, topic)
    if index not in partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partitions[index]


def partition_data(links: Links, topic: str, partition: MetadataResponsePartition) -> PartitionData:
    index = partition.partition_index
    here = ("topics", topic, "partitions", index)
    data: PartitionData = {
        "kind": "KafkaPartition",
        "metadata": links.metadata(*here, name=links.name("topic", topic, "partition", index)),
        "cluster_id": links.cluster_id,
        "topic_name": topic,
        "partition_id": index,
        "replicas": links.related(*here, "replicas"),
        "reassignment": links.related(*here, "reassignment"),
    }
    if partition.leader_id >= 0:
        data["leader"] = links.related(*here, "replicas", partition.leader_id)
    return data


def replica_data(links: Links, topic: str, partition: MetadataResponsePartition, broker: int) -> ReplicaData:
    index = partition.partition_index
    name = links.name("topic", topic, "partition", index, "replica", broker)
    return {
        "kind": "KafkaReplica",
        "metadata": links.metadata("topics", topic, "partitions", index, "replicas", broker, name=name),
        "cluster_id": links.cluster_id,
        "topic_name": topic,
        "partition_id": index,
        "broker_id": broker,
        "is_leader": broker == partition.leader_id,
        "is_in_sync": broker in partition.isr_nodes,
        "broker": links.related("brokers", broker),
    }


def reassignment_data(links: Links, key: TopicPartition, moving: OngoingPartitionReassignment) -> ReassignmentData:
    topic, index = key
    here = ("topics", topic, "partitions", index)
    return {
        "kind": "KafkaReassignment",
        "metadata": links.metadata(
            *here, "reassignment", name=f"{links.name('topic', topic, 'partition', index)}/reassignment"
        ),
        "cluster_id": links.cluster_id,
        "topic_name": topic,
        "partition_id": index,
        "adding_replicas": list(moving.adding_replicas),
        "removing_replicas": list(moving.removing_replicas),
        "replicas": links.related(*here, "replicas"),
    }
