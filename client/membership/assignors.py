"""Who gets which partitions: the assignors `range` and `roundrobin`, and the bytes in which members tell it each other. Pure.

The leader of a group gets the subscription of each member and gives each an assignment, both in the forms of Java's
consumers, so that a group may have members of both kinds.

Rules: the result depends on the members and the numbers of partitions alone. Members with an instance id come first, so that
static members keep what they had after a restart. Eager: nobody owns anything while a group rebalances; the sticky assignors of
Kafka are not here.
Source: Kafka ConsumerProtocol, AbstractPartitionAssignor, RangeAssignor, RoundRobinAssignor; KIP-345.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from protocol.primitives import Buffer
from protocol.stored.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from protocol.stored.stored import stored_version
from protocol.topic_partition import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
VERSION: Final = 3
_PREFIX_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member of a group, as its leader sees it."""

    member_id: str
    instance_id: str | None
    topics: frozenset[str]

    @property
    def order(self) -> tuple[bool, str]:
        return (self.instance_id is None, self.instance_id or self.member_id)


Assignment = dict[str, list[TopicPartition]]
"""By member id."""


def assign_ranges(subscribers: Sequence[Subscriber], counts: Mapping[str, int]) -> Assignment:
    """Give each member a range of each topic's partitions; the first members get one more where they do not come out even."""
    found: Assignment = {each.member_id: [] for each in subscribers}
    for topic, count in sorted(counts.items()):
        interested = sorted((each for each in subscribers if topic in each.topics), key=lambda each: each.order)
        at = 0
        for index, member in enumerate(interested):
            size = count // len(interested) + (index < count % len(interested))
            found[member.member_id] += [(topic, partition) for partition in range(at, at + size)]
            at += size
    return found


def assign_in_turn(subscribers: Sequence[Subscriber], counts: Mapping[str, int]) -> Assignment:
    """Give the partitions of all topics to the members in turn; a member that has not subscribed to the topic is passed
    over."""
    found: Assignment = {each.member_id: [] for each in subscribers}
    members = sorted(subscribers, key=lambda each: each.order)
    turn = 0
    for topic, count in sorted(counts.items()):
        if not any(topic in each.topics for each in members):
            continue
        for partition in range(count):
            while topic not in members[turn % len(members)].topics:
                turn += 1
            found[members[turn % len(members)].member_id].append((topic, partition))
            turn += 1
    return found


ASSIGNORS: Mapping[str, Callable[[Sequence[Subscriber], Mapping[str, int]], Assignment]] = MappingProxyType(
    {"range": assign_ranges, "roundrobin": assign_in_turn}
)
"""By the names under which members offer them."""


def encode_subscription(topics: Sequence[str]) -> bytes:
    return ConsumerProtocolSubscription(topics=sorted(topics)).encode_stored(VERSION)


def decode_subscription(member_id: str, instance_id: str | None, data: Buffer) -> Subscriber:
    """Raises DecodeError."""
    version = min(stored_version(data), VERSION)  # what newer members say beyond it is not needed
    found = ConsumerProtocolSubscription.decode(data, version, _PREFIX_BYTES)
    return Subscriber(member_id, instance_id, frozenset(found.topics))


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    rows = [AssignmentTopicPartition(topic=topic, partitions=found) for topic, found in topics.items()]
    return ConsumerProtocolAssignment(assigned_partitions=rows).encode_stored(VERSION)


def decode_assignment(data: Buffer) -> list[TopicPartition]:
    """Return the partitions; no bytes are none. Raises DecodeError."""
    if not data:
        return []
    found = ConsumerProtocolAssignment.decode(data, min(stored_version(data), VERSION), _PREFIX_BYTES)
    return [(row.topic, partition) for row in found.assigned_partitions for partition in row.partitions]
