"""The membership answers that several operations give, and how a failed append reads to a client.

Rules: values only. Every response is that of the newest version; handlers fit it to older ones.
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
    """`member_id` is part of the current generation. Its leader also gets everyone's subscription.

    `leader_id` names another leader than the group's, who then gets no subscriptions (see `Joining`)."""
    told_leader = group.leader_id if leader_id is None else leader_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=told_leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.subscriptions() if told_leader == member_id else [],
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
_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})


def group_append_error(error: ErrorCode) -> ErrorCode:
    """What a member is told when group metadata could not be stored."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _ELSEWHERE:
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if error in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error


def offset_append_error(error: ErrorCode) -> ErrorCode:
    """What a client is told when offsets could not be stored."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _ELSEWHERE:
        return ErrorCode.NOT_COORDINATOR
    if error in _TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return error
