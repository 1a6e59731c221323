"""Checks that a request comes from a member of the group, and of its generation.

Rules: no IO. Every function returns an error code, NONE when the request is valid. The order of the checks matters: the
client gets the first error.
Source: Kafka GroupCoordinator.validateCurrentMember, validateHeartbeat, validateSyncGroup, validateOffsetCommit.
"""

from __future__ import annotations

from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.events import MemberFenced
from coordinator.runtime.contract import Outbox
from protocol.errors import ErrorCode


def member_error(group: ClassicGroup, member_id: str, group_instance_id: str | None, outbox: Outbox) -> ErrorCode:
    """Check that `member_id` is a member, and has this instance id when one is given."""
    if group_instance_id is not None:
        current = group.static_members.get(group_instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            outbox.put(MemberFenced(group.group_id, group_instance_id, member_id, current))
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def generation_error(
    group: ClassicGroup, member_id: str, group_instance_id: str | None, generation_id: int, outbox: Outbox
) -> ErrorCode:
    """Check `member_error`, and that the member is in the group's generation. A group that is being deleted has no members."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = member_error(group, member_id, group_instance_id, outbox)
    if error is ErrorCode.NONE and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def commit_error(
    group: ClassicGroup,
    member_id: str,
    group_instance_id: str | None,
    generation_id: int,
    outbox: Outbox,
    *,
    is_transactional: bool,
) -> ErrorCode:
    """Whether offsets may be committed. Without members anybody may who claims no generation: a simple consumer, or an
    administrator. Transactional commits of old clients name neither member nor generation."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    is_empty = group.state is GroupState.EMPTY
    if generation_id < 0 and is_empty:
        return ErrorCode.NONE
    if generation_id >= 0 or member_id or group_instance_id is not None:
        return generation_error(group, member_id, group_instance_id, generation_id, outbox)
    return ErrorCode.NONE if is_transactional or is_empty else ErrorCode.UNKNOWN_MEMBER_ID
