"""Membership responses that several operations share.

Rules: values only. Every response is of the newest version; handlers adapt it to older ones.
Source: Kafka GroupCoordinator (JoinGroupResult, SyncGroupResult).
"""

from __future__ import annotations

from coordinator.group.classic.group import ClassicGroup
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

UNKNOWN_MEMBER_ID = ""
NO_GENERATION = -1


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, generation_id=NO_GENERATION, protocol_name=None, leader="", member_id=member_id, members=[]
    )


def joined(
    group: ClassicGroup, member_id: str, *, leader_id: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The response to `member_id` of the current generation; the leader's has the subscriptions of all members.

    `leader_id` replaces the group's leader in the response, without subscriptions (see `MemberJoin`)."""
    response_leader_id = group.leader_id if leader_id is None else leader_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=response_leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.subscriptions() if response_leader_id == member_id else [],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, protocol_type=None, protocol_name=None, assignment=b"")


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )
