"""The changes of an UpdateMetadata request to the cluster image. Pure.

Rules: the brokers of the request replace those of the image; partitions are merged, and one whose leader is
LEADER_DURING_DELETE is removed. A topic with another id is another topic, which replaces the previous one. Only the topics of
the request are rebuilt, so that the cost depends on the request and not on the cluster (except one shallow copy of the topics'
dictionary).
Source: Kafka ZkMetadataCache.updateMetadata; KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from metadata.image import BrokerEndpoint, BrokerImage, ClusterImage, PartitionImage, TopicImage
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition

LEADER_DURING_DELETE = -2
PLAINTEXT = 0

# Versions below 3 have no listener name: it is that of the security protocol.
_PROTOCOL_NAMES = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


@dataclass(slots=True)
class Changes:
    """The differences between two images."""

    updated: list[TopicPartition] = field(default_factory=list)
    deleted: list[TopicPartition] = field(default_factory=list)
    brokers_changed: bool = False
    controller_changed: bool = False


def apply(image: ClusterImage, request: UpdateMetadataRequest) -> tuple[ClusterImage, Changes]:
    changes = Changes()
    brokers = {broker.id: _broker(broker) for broker in request.live_brokers}
    changes.brokers_changed = brokers != dict(image.brokers)
    changes.controller_changed = request.controller_id != image.controller_id
    merged = replace(
        image,
        controller_id=request.controller_id,
        brokers=MappingProxyType(brokers) if changes.brokers_changed else image.brokers,
    )
    states = list(_states(request))
    if not states:
        return merged, changes

    topics = dict(image.topics)
    names_by_id = dict(image.names_by_id)
    for name, topic_id, partition_states in states:
        known = topics.get(name)
        if known is not None and ZERO_UUID not in (topic_id, known.topic_id) and topic_id != known.topic_id:
            changes.deleted += [(name, index) for index in known.partitions]
            names_by_id.pop(known.topic_id, None)
            known = None
        partitions = {} if known is None else dict(known.partitions)
        for state in partition_states:
            if state.leader == LEADER_DURING_DELETE:
                if partitions.pop(state.partition_index, None) is not None:
                    changes.deleted.append((name, state.partition_index))
            else:
                partitions[state.partition_index] = _partition(state)
                changes.updated.append((name, state.partition_index))
        if known is not None:
            names_by_id.pop(known.topic_id, None)
            if topic_id == ZERO_UUID:
                topic_id = known.topic_id
        if not partitions:
            topics.pop(name, None)
            continue
        topics[name] = TopicImage(name, topic_id, MappingProxyType(partitions))
        if topic_id != ZERO_UUID:
            names_by_id[topic_id] = name
    return replace(merged, topics=MappingProxyType(topics), names_by_id=MappingProxyType(names_by_id)), changes


def without_topics(image: ClusterImage, deleted: Iterable[TopicImage]) -> tuple[ClusterImage, Changes]:
    """Return the image without the topics `deleted`; another topic with the same name remains."""
    changes = Changes()
    topics, names_by_id = dict(image.topics), dict(image.names_by_id)
    for topic in deleted:
        known = topics.get(topic.name)
        if known is not None and known.topic_id == topic.topic_id:
            del topics[topic.name]
            names_by_id.pop(topic.topic_id, None)
            changes.deleted += [(topic.name, index) for index in known.partitions]
    if not changes.deleted:
        return image, changes
    return replace(image, topics=MappingProxyType(topics), names_by_id=MappingProxyType(names_by_id)), changes


def _states(request: UpdateMetadataRequest) -> Iterator[tuple[str, bytes, list[UpdateMetadataPartitionState]]]:
    """Iterate over (topic, topic id, states), in either form of the request."""
    ungrouped: dict[str, list[UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        ungrouped.setdefault(state.topic_name, []).append(state)
    for name, states in ungrouped.items():
        yield name, ZERO_UUID, states
    for topic in request.topic_states:
        yield topic.topic_name, topic.topic_id, topic.partition_states


def _partition(state: UpdateMetadataPartitionState) -> PartitionImage:
    return _shared_partition(
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        tuple(state.replicas),
        tuple(state.offline_replicas),
        state.zk_version,
        state.controller_epoch,
    )


@lru_cache(maxsize=512)
def _shared_partition(
    leader: int,
    leader_epoch: int,
    isr: tuple[int, ...],
    replicas: tuple[int, ...],
    offline_replicas: tuple[int, ...],
    partition_epoch: int,
    controller_epoch: int,
) -> PartitionImage:
    """Return one shared image for equal partitions: of thousands, most are equal."""
    return PartitionImage(leader, leader_epoch, isr, replicas, offline_replicas, partition_epoch, controller_epoch)


def _broker(broker: UpdateMetadataBroker) -> BrokerImage:
    if broker.v0_host and not broker.endpoints:
        endpoints = {_PROTOCOL_NAMES[PLAINTEXT]: BrokerEndpoint(broker.v0_host, broker.v0_port, PLAINTEXT)}
    else:
        endpoints = {
            each.listener or _PROTOCOL_NAMES.get(each.security_protocol, ""): BrokerEndpoint(
                each.host, each.port, each.security_protocol
            )
            for each in broker.endpoints
        }
    # The field's default is "", in versions without it; a rack is never empty.
    return BrokerImage(broker.id, MappingProxyType(endpoints), broker.rack or None)
