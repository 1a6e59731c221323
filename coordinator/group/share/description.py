"""ShareGroupDescribe: a share group as administrators see it.

Rules: no IO, nothing changes. Topics that are gone are left out. The rights of whoever asks are not this module's.
Source: Kafka ShareGroup.asDescribedGroup, ShareGroupMember.asShareGroupDescribeMember.
"""

from __future__ import annotations

from typing import TypeAlias

from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.simple_assignor import ASSIGNOR_NAME
from protocol.errors import ErrorCode, fitting
from protocol.messages.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

ShareDescription: TypeAlias = DescribedGroup


def described_share(group: ShareGroup, topics: GroupTopics) -> ShareDescription:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR_NAME,
        members=[_member(group, member_id, topics) for member_id in group.subscriptions],
    )


def described_share_error(group_id: str, error: ErrorCode, message: str | None = None) -> ShareDescription:
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


def _member(group: ShareGroup, member_id: str, topics: GroupTopics) -> Member:
    subscription, current = group.subscriptions[member_id], group.current(member_id)
    return Member(
        member_id=member_id,
        rack_id=subscription.rack_id,
        member_epoch=current.member_epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topic_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(current.assigned[topic_id]))
                for topic_id in sorted(current.assigned)
                if (name := topics.name_of(topic_id)) is not None
            ]
        ),
    )
