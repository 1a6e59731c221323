"""What the targets of share groups are computed from: the partitions that are initialized of the topics that members read.

Rules: no IO.
Source: Kafka TargetAssignmentBuilder.ShareTargetAssignmentBuilder (KIP-932).
"""

from __future__ import annotations

from functools import partial

from coordinator.group.assigned.assignor import MemberInput, TopicPartitions
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.targets import Computation
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.simple_assignor import ASSIGNOR_NAME, simple_steps


class ShareTargetInputs:
    def __init__(self, configs: GroupConfigs, topics: GroupTopics) -> None:
        self._configs = configs
        self._topics = topics

    def interval_ms(self, group_id: str) -> int:
        return self._configs.share_of(group_id).assignment_interval_ms

    def computation(self, group: ShareGroup) -> Computation:
        nothing: TopicPartitions = {}
        members = {}
        assignable: dict[bytes, frozenset[int]] = {}
        initialized = group.partitions.initialized
        for member_id, subscription in group.subscriptions.items():
            topic_ids = self._topics.ids_of(subscription.topic_names)
            target = group.targets.get(member_id)
            members[member_id] = MemberInput(None, topic_ids, nothing if target is None else target.partitions)
            for topic_id in topic_ids - assignable.keys():
                count = self._topics.partitions_count(topic_id)
                found = initialized.get(topic_id, frozenset())
                assignable[topic_id] = frozenset(partition for partition in found if partition < count)
        work = len(members) + sum(map(len, assignable.values()))
        return Computation(ASSIGNOR_NAME, members, partial(simple_steps, members, assignable), work)
