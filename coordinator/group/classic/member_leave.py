"""Heartbeat and LeaveGroup.

Rules: no IO; both return their response immediately.
Source: Kafka GroupCoordinator.handleHeartbeat and handleLeaveGroup; KIP-345 (batches, removal by instance id), KIP-800.
"""

from __future__ import annotations

from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.rebalance import Rebalance
from coordinator.group.classic.responses import UNKNOWN_MEMBER_ID
from coordinator.group.classic.validation import generation_error, member_error
from coordinator.group.events import RebalanceReason
from coordinator.runtime.contract import Outbox
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse


class MemberLeave:
    """Handles Heartbeat and LeaveGroup for the groups of a shard."""

    def __init__(self, rebalance: Rebalance, outbox: Outbox) -> None:
        self._rebalance = rebalance
        self._outbox = outbox

    def heartbeat(self, group: ClassicGroup | None, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = generation_error(
            group, request.member_id, request.group_instance_id, request.generation_id, self._outbox
        )
        if error is not ErrorCode.NONE:
            return error
        self._rebalance.extend_session(group, group.members[request.member_id], now_ms)
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    def leave(self, group: ClassicGroup | None, leaving: list[MemberIdentity], now_ms: int) -> LeaveGroupResponse:
        if group is not None and group.state is GroupState.DEAD:
            return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return LeaveGroupResponse(
            error_code=ErrorCode.NONE,
            members=[
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=self._leave_one(group, identity, now_ms),
                )
                for identity in leaving
            ],
        )

    def _leave_one(self, group: ClassicGroup | None, identity: MemberIdentity, now_ms: int) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = identity.member_id
        if member_id == UNKNOWN_MEMBER_ID:
            # An administrator removes a static member by its instance id alone.
            member_id = group.static_members.get(identity.group_instance_id or "", UNKNOWN_MEMBER_ID)
            if identity.group_instance_id is None or member_id == UNKNOWN_MEMBER_ID:
                return ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id in group.pending_members:
            self._rebalance.remove_pending(group, member_id, now_ms)
            return ErrorCode.NONE
        else:
            error = member_error(group, member_id, identity.group_instance_id, self._outbox)
            if error is not ErrorCode.NONE:
                return error
        detail = "left" + (f": {identity.reason}" if identity.reason else "")
        self._rebalance.remove(group, group.members[member_id], RebalanceReason.MEMBER_LEFT, detail, now_ms)
        return ErrorCode.NONE
