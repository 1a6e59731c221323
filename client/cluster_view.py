"""What a client knows of a cluster: its brokers, its controller, leaders of partitions, coordinators. Pure.

It is fed with responses, and says which broker a request goes to. What an error or a lost connection disproves is forgotten,
and to be asked again.

The types of keys that have coordinators are FindCoordinator's (`client.admin.steps.KeyKind`).

Rules: messages of the protocol are what it keeps; nobody changes them. A leader with an older epoch than one that was seen does
not replace it: a broker may answer from an older image.
Source: Kafka Metadata, MetadataSnapshot (KIP-320); CoordinatorStrategy (KIP-699).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.topic_partition import TopicPartition

_FIRST_OF_SEVERAL_KEYS: Final = 4
"""The version of FindCoordinator from which a request has several keys."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Topic:
    """`topic_id` is zero when the broker does not say it. `partitions` are sorted by their index."""

    topic_id: bytes
    partitions: Mapping[int, MetadataResponsePartition]
    is_internal: bool


class ClusterView:
    """What is known of one cluster. At first nothing is."""

    def __init__(self) -> None:
        self.brokers: Mapping[int, MetadataResponseBroker] = {}
        self.cluster_id: str | None = None
        self.controller_id: int | None = None
        """None when it is not known, or there is none."""
        self.topics: dict[str, Topic] = {}
        self._topic_errors: dict[str, ErrorCode] = {}
        self._doubtful: set[str] = set()
        """Topics that are to be asked for again."""
        self._coordinators: dict[tuple[int, str], int] = {}

    def address(self, broker_id: int) -> Address | None:
        """Return where a broker listens for this client, None for one that is not in the cluster."""
        broker = self.brokers.get(broker_id)
        return None if broker is None else (broker.host, broker.port)

    def name(self, broker_id: int) -> str:
        """Return how people are told of a broker."""
        broker = self.brokers.get(broker_id)
        return f"broker {broker_id}" if broker is None else f"broker {broker_id} ({broker.host}:{broker.port})"

    # --- brokers and topics ---

    def learn(self, response: MetadataResponse, *, is_of_all_topics: bool = False) -> None:
        """Take what a broker says. What it does not name stays known, but for brokers, and topics where all were asked for. A
        broker that has just started knows none, and says nothing."""
        if not response.brokers:
            return
        self.brokers = {broker.node_id: broker for broker in response.brokers}
        self.cluster_id = response.cluster_id or self.cluster_id
        self.controller_id = response.controller_id if response.controller_id in self.brokers else None
        before, self._topic_errors = self.topics, {}
        self.topics = {} if is_of_all_topics else dict(before)
        self._doubtful = set() if is_of_all_topics else self._doubtful.difference(each.name for each in response.topics)
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code:
                self.topics.pop(topic.name, None)
                self._topic_errors[topic.name] = ErrorCode.of(topic.error_code)
            else:
                self.topics[topic.name] = _newest(topic, before.get(topic.name))

    def unknown_topics(self, names: Iterable[str]) -> list[str]:
        """Return those of which a broker must be asked before one can say who leads their partitions."""
        return [name for name in dict.fromkeys(names) if name not in self.topics or name in self._doubtful]

    def was_told_of(self, name: str) -> bool:
        """Whether a broker has said of a topic what it is, or why nothing can be said."""
        return name in self.topics or name in self._topic_errors

    def leader(self, key: TopicPartition) -> int:
        """Return the broker that leads a partition. Raises KafkaError with what the last response said of it; that there is no
        leader is LEADER_NOT_AVAILABLE."""
        name, index = key
        topic = self.topics.get(name)
        if topic is None:
            code = self._topic_errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(code, f"{name}-{index} does not exist")
            raise KafkaError(code, f"topic {name}: {code.message}")
        partition = topic.partitions.get(index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name}-{index} does not exist")
        if partition.leader_id not in self.brokers:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{index} has no leader")
        return partition.leader_id

    # --- coordinators ---

    def learn_coordinators(
        self, request: FindCoordinatorRequest, response: FindCoordinatorResponse
    ) -> dict[str, KafkaError]:
        """Take the response to a request; return the keys that have an error."""
        errors = {}
        rows: list[tuple[str, Coordinator | FindCoordinatorResponse]]
        rows = [(row.key, row) for row in response.coordinators]
        for key, row in rows or [(request.key, response)]:
            if row.error_code:
                code = ErrorCode.of(row.error_code)
                errors[key] = KafkaError(code, f"coordinator of {key}: {row.error_message or code.message}")
                continue
            self._coordinators[request.key_type, key] = row.node_id
            if row.node_id not in self.brokers:
                found = MetadataResponseBroker(node_id=row.node_id, host=row.host, port=row.port)
                self.brokers = {**self.brokers, row.node_id: found}
        return errors

    def coordinator(self, key_type: int, key: str) -> int | None:
        """Return the coordinator of a key, None when it is not known."""
        found = self._coordinators.get((key_type, key))
        return found if found in self.brokers else None

    # --- what is disproved ---

    def forget_topics(self, names: Iterable[str]) -> None:
        """Ask again who leads the partitions of topics; how new the leaders are that were known stays known."""
        self._doubtful.update(names)

    def forget_coordinators(self, key_type: int, keys: Iterable[str]) -> None:
        for key in keys:
            self._coordinators.pop((key_type, key), None)

    def forget_controller(self) -> None:
        self.controller_id = None

    def forget_roles(self, broker_id: int) -> None:
        """Forget what a broker leads and coordinates: the connection to it was lost. It keeps its address."""
        if self.controller_id == broker_id:
            self.controller_id = None
        self.forget_topics([
            name
            for name, topic in self.topics.items()
            if any(each.leader_id == broker_id for each in topic.partitions.values())
        ])  # fmt: skip
        self._coordinators = {key: each for key, each in self._coordinators.items() if each != broker_id}


def find_coordinator_requests(key_type: int, keys: Sequence[str], version: int) -> list[FindCoordinatorRequest]:
    """Return what asks for the coordinators of keys in a version: brokers before 3.0 take one key at a time."""
    if version >= _FIRST_OF_SEVERAL_KEYS:
        return [FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))]
    return [FindCoordinatorRequest(key_type=key_type, key=key) for key in keys]


def _newest(topic: MetadataResponseTopic, before: Topic | None) -> Topic:
    """Return a topic, with what was known of partitions of which a newer leader was."""
    known = before.partitions if before is not None and before.topic_id == topic.topic_id else {}
    partitions = {}
    for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
        other = known.get(partition.partition_index)
        is_older = other is not None and -1 < partition.leader_epoch < other.leader_epoch
        partitions[partition.partition_index] = other if other is not None and is_older else partition
    return Topic(topic.topic_id, partitions, topic.is_internal)
