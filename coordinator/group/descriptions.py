"""DescribeGroups and ListGroups.

Rules: no IO, nothing changes. Subscriptions and assignments are shown of a stable group only, which alone has both.
Source: Kafka GroupMetadata.summary and overview; KIP-518 (states filter), KIP-848 (types filter).
"""

from __future__ import annotations

from collections.abc import Collection

from coordinator.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, GroupState
from coordinator.group.classic.member import Member
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.groups import AnyGroup
from coordinator.group.share.group import ShareGroup
from protocol.errors import ErrorCode, fitting
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.list_groups import ListedGroup

CLASSIC_TYPE = "classic"
SHARE_TYPE = "share"


def described(group_id: str, group: AnyGroup | None) -> DescribedGroup:
    """A classic group, or one that is dead to whoever asks: there is none, or it is of another kind. `error_message` says so,
    for the versions in which that is an error."""
    if not isinstance(group, ClassicGroup):
        dead = described_error(group_id, ErrorCode.NONE, GroupState.DEAD.value)
        dead.error_message = fitting(f"Group {group_id} {'not found' if group is None else 'is not a classic group'}.")
        return dead
    protocol_name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[_described_member(member, protocol_name) for member in group.members.values()],
    )


def described_error(group_id: str, error: ErrorCode, state: str = "") -> DescribedGroup:
    return DescribedGroup(
        error_code=error, group_id=group_id, group_state=state, protocol_type="", protocol_data="", members=[]
    )


def _described_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=b"" if protocol_name is None else member.assignment,
    )


def is_listed(group: AnyGroup, states: Collection[str], types: Collection[str]) -> bool:
    """Whether both filters match. `states` and `types` in lower case; an empty filter matches all, an unknown name none."""
    return (not states or group.state.value.lower() in states) and (not types or type_of(group) in types)


def listed(group: AnyGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=_protocol_type(group),
        group_state=group.state.value,
        group_type=type_of(group),
    )


def _protocol_type(group: AnyGroup) -> str:
    match group:
        case ClassicGroup():
            return group.protocol_type or ""
        case ConsumerGroup():
            return CONSUMER_PROTOCOL_TYPE
        case ShareGroup():
            return SHARE_TYPE


def type_of(group: AnyGroup) -> str:
    return CLASSIC_TYPE if isinstance(group, ClassicGroup) else group.kinds.name
