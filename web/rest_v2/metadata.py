"""Topics, partitions, offsets and brokers in REST v2."""

from __future__ import annotations

from typing import Any

from client.admin import brokers, configs, offsets, topics
from client.admin.brokers import checked
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from web.cluster.user_cluster import UserCluster
from web.requests import Cluster
from web.rest_v2.errors import partition_not_found, topic_not_found
from web.rest_v2.forms import V2Response, v2_router
from web.rest_v2.models import Brokers, PartitionOffsets, PartitionReplica, PartitionState, TopicState

router = v2_router()


@router.get("/brokers", response_model=Brokers)
async def list_brokers(cluster: Cluster) -> Any:
    found = await cluster.run(brokers.cluster())
    return V2Response({"brokers": sorted(each.node_id for each in found.brokers)})


@router.get("/topics", response_model=list[str])
async def list_topics(cluster: Cluster) -> Any:
    return V2Response(sorted(await cluster.run(topics.all_topics())))


@router.get("/topics/{topic}", response_model=TopicState)
async def describe_topic(cluster: Cluster, topic: str) -> Any:
    found = await described(cluster, topic)
    resource = configs.Resource(configs.ResourceKind.TOPIC, topic)
    settings = checked(await cluster.run(configs.describe([resource])))[resource]
    return V2Response(
        TopicState(
            name=topic,
            configs={name: row.value for name, row in settings.items()},
            partitions=partition_states(found),
        ).model_dump()
    )


@router.get("/topics/{topic}/partitions", response_model=list[PartitionState])
async def list_partitions(cluster: Cluster, topic: str) -> Any:
    return V2Response([each.model_dump() for each in partition_states(await described(cluster, topic))])


@router.get("/topics/{topic}/partitions/{partition}", response_model=PartitionState)
async def describe_partition(cluster: Cluster, topic: str, partition: int) -> Any:
    return V2Response(_state(_partition(await described(cluster, topic), partition)).model_dump())


@router.get("/topics/{topic}/partitions/{partition}/offsets", response_model=PartitionOffsets)
async def partition_offsets(cluster: Cluster, topic: str, partition: int) -> Any:
    _partition(await described(cluster, topic), partition)
    key = topic, partition
    first, end = [
        checked(await cluster.run(offsets.offsets({key: time})))[key] for time in (EARLIEST, LATEST)
    ]  # one request names a partition once
    return V2Response({"beginning_offset": first, "end_offset": end})


async def described(cluster: UserCluster, topic: str) -> MetadataResponseTopic:
    """Return a topic. Raises HttpProblem when there is none of this name, KafkaError."""
    found = (await cluster.run(topics.describe([topic])))[topic]
    if isinstance(found, KafkaError):
        if found.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise topic_not_found()
        raise found
    return found


def partition_states(topic: MetadataResponseTopic) -> list[PartitionState]:
    return [_state(each) for each in sorted(topic.partitions, key=lambda row: row.partition_index)]


def _state(row: MetadataResponsePartition) -> PartitionState:
    return PartitionState(
        partition=row.partition_index,
        leader=row.leader_id,
        replicas=[
            PartitionReplica(broker=each, leader=each == row.leader_id, in_sync=each in row.isr_nodes)
            for each in row.replica_nodes
        ],
    )


def _partition(topic: MetadataResponseTopic, partition: int) -> MetadataResponsePartition:
    """Raises HttpProblem."""
    for row in topic.partitions:
        if row.partition_index == partition:
            return row
    raise partition_not_found()
