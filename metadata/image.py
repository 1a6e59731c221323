"""The cluster image: brokers, topics, partitions and their leaders, as one immutable value. Pure.

Rules: an image is immutable; `metadata.delta.apply` makes the next one, which shares unchanged topics. A reader reads
`cache.image` once and has a consistent state for its whole work.
Invariants: `names_by_id` contains exactly the topics that have an id; a topic has at least one partition.
Source: Kafka ZkMetadataCache, MetadataSnapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from protocol.primitives import ZERO_UUID

NO_CONTROLLER = -1
NO_LEADER = -1

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})


def is_internal(topic: str) -> bool:
    return topic in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """The address of a broker's listener; `security_protocol` is Kafka's number (0 PLAINTEXT, 1 SSL, 2, 3)."""

    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class BrokerImage:
    broker_id: int
    endpoints: Mapping[str, BrokerEndpoint]
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """A partition. `leader` is NO_LEADER when the partition has none. `partition_epoch` is the version of its state node."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]


def _empty() -> Mapping[str, TopicImage]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ClusterImage:
    cluster_id: str | None = None
    controller_id: int = NO_CONTROLLER
    brokers: Mapping[int, BrokerImage] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicImage] = field(default_factory=_empty)
    names_by_id: Mapping[bytes, str] = field(default_factory=lambda: MappingProxyType({}))

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def partitions_count(self, topic: str) -> int | None:
        """Return the number of partitions, None for an unknown topic."""
        known = self.topics.get(topic)
        return None if known is None else len(known.partitions)

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id; ZERO_UUID for an unknown topic and for one without an id."""
        found = self.topics.get(topic)
        return ZERO_UUID if found is None else found.topic_id

    def endpoint(self, broker_id: int, listener: str) -> BrokerEndpoint | None:
        """Return a broker's endpoint; None if it is not alive or has no such listener."""
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(listener)

    def has_leader(self, topic: str, partition: int) -> bool:
        """Whether the partition has a live leader."""
        found = self.partition(topic, partition)
        return found is not None and found.leader in self.brokers


class MetadataCache:
    """Holds the current image. One writer (UpdateMetadata); listeners are called after each change, on the event loop."""

    def __init__(self, cluster_id: str | None = None) -> None:
        self._image = ClusterImage(cluster_id=cluster_id)
        self._listeners: dict[Callable[[ClusterImage], None], None] = {}

    @property
    def image(self) -> ClusterImage:
        return self._image

    def publish(self, image: ClusterImage) -> None:
        self._image = image
        for listener in list(self._listeners):
            listener(image)

    def subscribe(self, listener: Callable[[ClusterImage], None]) -> None:
        self._listeners[listener] = None

    def unsubscribe(self, listener: Callable[[ClusterImage], None]) -> None:
        self._listeners.pop(listener, None)
