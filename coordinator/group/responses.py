"""Membership responses that several operations share, and the error codes of clients for a failed append.

Rules: values only. Every response is of the newest version; handlers adapt it to older ones.
Source: Kafka GroupCoordinator (JoinGroupResult, SyncGroupResult), GroupMetadataManager (conversion of append errors).
"""

from __future__ import annotations

from coordinator.group.group import Group
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
    group: Group, member_id: str, *, leader_id: str | None = None, skip_assignment: bool = False
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


def synced(group: Group, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


_NOT_AVAILABLE = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)
_NOT_COORDINATOR = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
# The coordinator of a transaction could not be asked: this code makes clients of every version retry without a new lookup.
_NOT_VERIFIED = ErrorCode.NETWORK_EXCEPTION
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})


def group_append_error(error: ErrorCode) -> ErrorCode:
    """The error code of JoinGroup and SyncGroup when group metadata could not be stored."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if error in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error


def offset_append_error(error: ErrorCode) -> ErrorCode:
    """The error code of a commit or deletion when its records could not be stored, or its transaction not be verified."""
    if error is _NOT_VERIFIED:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if error in _TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return error
