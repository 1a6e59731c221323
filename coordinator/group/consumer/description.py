"""ConsumerGroupDescribe: a consumer group as administrators see it.

Rules: no IO, nothing changes. What a member has to give up counts as its own until it has done so. Topics that are gone are
left out. The rights of whoever asks are not this module's.
Source: Kafka ConsumerGroup.asDescribedGroup, ConsumerGroupMember.asConsumerGroupDescribeMember.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.consumer.group import ConsumerGroup
from protocol.errors import ErrorCode, fitting
from protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

ConsumerDescription: TypeAlias = DescribedGroup

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def described_consumer(group: ConsumerGroup, topics: GroupTopics, assignors: tuple[str, ...]) -> ConsumerDescription:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(assignors),
        members=[_member(group, member_id, topics) for member_id in group.subscriptions],
    )


def described_consumer_error(group_id: str, error: ErrorCode, message: str | None = None) -> ConsumerDescription:
    return DescribedGroup(
        error_code=error,
        error_message=None if message is None else fitting(message),
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _member(group: ConsumerGroup, member_id: str, topics: GroupTopics) -> Member:
    subscription, current = group.subscriptions[member_id], group.current(member_id)
    owned: dict[bytes, list[int]] = {}
    for partitions in (current.assigned, current.pending_revocation):
        for topic_id, of_topic in partitions.items():
            owned.setdefault(topic_id, []).extend(of_topic)
    return Member(
        member_id=member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=current.member_epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topic_names),
        subscribed_topic_regex=subscription.topic_regex,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(group.target(member_id), topics),
        member_type=CONSUMER_MEMBER if subscription.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Collection[int]], topics: GroupTopics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id]))
            for topic_id in sorted(partitions)
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
