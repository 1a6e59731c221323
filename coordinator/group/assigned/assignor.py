"""What a server-side assignor is asked and what it answers.

Rules: pure. An assignor decides by the order of the members in the mapping that it is given, so the same order gives the same
answer; topics and partitions it takes in ascending order. It works in slices of a few milliseconds: `steps` yields between
them, and whoever runs it may serve other requests before it asks for the next one; a call runs all of them at once.
Racks decide nothing in Apache Kafka 4.3.0's assignors, so they are no part of what is asked.
Source: Kafka ConsumerGroupPartitionAssignor, GroupSpec, SubscribedTopicDescriber (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Final

STEP_WORK: Final = 4_096
"""How many topics and partitions of members are looked at in one step, about."""

TopicPartitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; no topic has an empty set."""

Assignment = dict[str, TopicPartitions]
"""What each member of the group shall own, by member id. A member whose share stays gets the very object `owned`."""

Steps = Generator[None, None, Assignment]

Topics = Mapping[bytes, int]
"""How many partitions each topic has, by topic id. All topics that some member reads are in it."""


@dataclass(frozen=True, slots=True)
class MemberInput:
    """A member: the topics it reads, by id, as far as they exist, and `owned`, its share of the present target.

    Members that read the same topics should have the same object `topic_ids`, which is quick to compare.
    """

    instance_id: str | None
    topic_ids: frozenset[bytes]
    owned: TopicPartitions


Members = Mapping[str, MemberInput]


@dataclass(frozen=True, slots=True)
class Assignor:
    """`name` is what members and the setting `group.consumer.assignors` call it."""

    name: str
    steps: Callable[[Members, Topics], Steps]

    def __call__(self, members: Members, topics: Topics) -> Assignment:
        """All steps at once. Every member is in the answer."""
        return run_all(self.steps(members, topics))


def run_all(steps: Steps) -> Assignment:
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            assignment: Assignment = ended.value
            return assignment


def id_order(topic_id: bytes) -> tuple[int, int]:
    """Sorts topic ids as Kafka's Uuid does: as two signed numbers."""
    return int.from_bytes(topic_id[:8], signed=True), int.from_bytes(topic_id[8:], signed=True)
