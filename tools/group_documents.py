"""What is known of a group, as `barnabas groups describe --json` and the page tell it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from client.admin import groups as group_steps
from client.admin.groups import CoordinatedGroup
from protocol.messages.consumer_group_describe import Member as ConsumerMember
from protocol.messages.describe_groups import DescribedGroupMember
from protocol.messages.share_group_describe import Member as ShareMember
from tools.group_lag import Key, PartitionLag, total_lag

MISSING = "Dead"
"""The state of a group that there is not."""


def group_document(description: CoordinatedGroup, lags: Sequence[PartitionLag]) -> dict[str, Any]:
    """Raises DecodeError for members that were assigned what is not in the form of consumers."""
    group, newer = description.group, description.newer
    return {
        "group": group.group_id,
        "type": description.kind,
        "state": group.group_state,
        "group_epoch": None if newer is None else newer.group_epoch,
        "assignment_epoch": None if newer is None else newer.assignment_epoch,
        "coordinator": description.coordinator,
        "assignor": group.protocol_data,
        "total_lag": total_lag(lags),
        "members": [member_document(description, member) for member in group.members],
        "partitions": [lag.row() for lag in lags],
    }


def member_document(description: CoordinatedGroup, member: DescribedGroupMember) -> dict[str, Any]:
    """Members of share groups have no targets: they get what they shall have at once."""
    keys = group_steps.assigned(member, description.group)
    members: Sequence[ConsumerMember | ShareMember] = () if description.newer is None else description.newer.members
    newer = next((each for each in members if each.member_id == member.member_id), None)
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "member_epoch": None if newer is None else newer.member_epoch,
        "partitions": _partitions(keys),
        "target_partitions": _target(newer) if isinstance(newer, ConsumerMember) else None,
    }


def _target(member: ConsumerMember) -> list[str]:
    """Return what a member shall have once the others have given it up."""
    rows = member.target_assignment.topic_partitions
    return _partitions((row.topic_name, partition) for row in rows for partition in row.partitions)


def _partitions(keys: Iterable[Key]) -> list[str]:
    return sorted(f"{topic}-{partition}" for topic, partition in keys)
