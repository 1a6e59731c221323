"""What the targets of consumer groups are computed from: the assignor that most members ask for, and all topics that they read.

Rules: no IO.
Source: Kafka TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder (KIP-848).
"""

from __future__ import annotations

from functools import partial

from coordinator.group.assigned.assignor import MemberInput, TopicPartitions
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.targets import Computation
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.consumer.assignors import ASSIGNORS
from coordinator.group.consumer.group import ConsumerGroup


class ConsumerTargetInputs:
    def __init__(self, configs: GroupConfigs, topics: GroupTopics) -> None:
        self._configs = configs
        self._topics = topics

    def interval_ms(self, group_id: str) -> int:
        return self._configs.of(group_id).assignment_interval_ms

    def computation(self, group: ConsumerGroup) -> Computation:
        assignor = ASSIGNORS[group.preferred_assignor(self._configs.settings.assignors)]
        members = {}
        topics: dict[bytes, int] = {}
        nothing: TopicPartitions = {}
        for member_id, subscription in group.subscriptions.items():
            topic_ids = self._topics.ids_of(group.topics_of(subscription))
            target = group.targets.get(member_id)
            owned = nothing if target is None else target.partitions
            members[member_id] = MemberInput(subscription.instance_id, topic_ids, owned)
            for topic_id in topic_ids - topics.keys():
                topics[topic_id] = self._topics.partitions_count(topic_id)
        work = len(members) + sum(topics.values())
        return Computation(assignor.name, members, partial(assignor.steps, members, topics), work)
