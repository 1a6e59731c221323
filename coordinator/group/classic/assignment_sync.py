"""SyncGroup: the leader's assignment is stored, then every member gets its part of it.

Rules: no IO. A SyncGroup is parked in its member until the assignment is committed or the rebalance starts over.
Invariant: at most one assignment of a generation is being appended; a leader that repeats its SyncGroup waits for the
first, so that members get the assignment that a replay yields.
Source: Kafka GroupCoordinator.handleSyncGroup; KIP-559 (protocol type and name).
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.group.append_errors import group_append_error
from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.rebalance import Rebalance
from coordinator.group.classic.responses import sync_error, synced
from coordinator.group.classic.validation import generation_error
from coordinator.group.classic.waiting_bytes import WaitingBytes
from coordinator.group.events import AssignmentReceived, RebalanceReason
from coordinator.runtime.contract import AppendRecords, Outbox, Result, Waiter
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest


class AssignmentSync:
    """Handles SyncGroup for the groups of a shard."""

    def __init__(self, rebalance: Rebalance, waiting: WaitingBytes, outbox: Outbox) -> None:
        self._waiting = waiting
        self._rebalance = rebalance
        self._outbox = outbox

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> None:
        error = self._error(group, request)
        if error is not ErrorCode.NONE:
            self._outbox.respond(waiter, sync_error(error))
            return
        member = group.members[request.member_id]
        self._rebalance.synced(group, member.member_id)
        if group.state is GroupState.STABLE:
            self._outbox.respond(waiter, synced(group, member.assignment))
            self._rebalance.extend_session(group, member, now_ms)
            return
        assert group.state is GroupState.COMPLETING_REBALANCE
        if member.syncing is not None:
            # The client abandoned it. Apache Kafka sends no response to it.
            self._outbox.respond(member.syncing, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncing = waiter
        if group.is_leader(member.member_id) and group.assignment_pending_for != group.generation_id:
            self._store_assignment(group, request, now_ms)

    def _error(self, group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
        error = generation_error(
            group, request.member_id, request.group_instance_id, request.generation_id, self._outbox
        )
        if error is not ErrorCode.NONE:
            return error
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name is not None and request.protocol_name != group.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _store_assignment(self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> None:
        sent = {assignment.member_id: assignment.assignment for assignment in request.assignments}
        assignments = {member_id: sent.get(member_id, b"") for member_id in group.members}
        missing = tuple(member_id for member_id in group.members if member_id not in sent)
        self._outbox.put(AssignmentReceived(group.group_id, group.generation_id, request.member_id, missing))
        group.assignment_pending_for = group.generation_id
        record = self._rebalance.record_of(group, assignments)
        change = Assignment(self, group, group.generation_id, len(record.value or b""))
        self._waiting.change(change.size_bytes)
        self._outbox.put(AppendRecords(Result((record,), change)))

    def assignment_completed(self, size_bytes: int) -> None:
        """The outcome of its append is known: its memory counts no longer."""
        self._waiting.change(-size_bytes)

    def assignment_stored(self, group: ClassicGroup, generation_id: int, now_ms: int) -> None:
        """The record was replayed. If the group is still in this generation it is stable: complete every SyncGroup."""
        group.assignment_pending_for = None
        if group.state is GroupState.STABLE and group.generation_id == generation_id:
            for member in group.members.values():
                self._rebalance.complete_sync(group, member, synced(group, member.assignment), now_ms)

    def assignment_not_stored(self, group: ClassicGroup, generation_id: int, error: ErrorCode, now_ms: int) -> None:
        group.assignment_pending_for = None
        if group.state is GroupState.COMPLETING_REBALANCE and group.generation_id == generation_id:
            self._rebalance.refuse_assignment(group, group_append_error(error), now_ms)
            reason = RebalanceReason.ASSIGNMENT_NOT_STORED
            self._rebalance.prepare(group, reason, [group.leader_id or ""], error.name, now_ms)


@dataclass(slots=True, eq=False)
class Assignment:
    """The assignment of one generation while its record of `size_bytes` is appended."""

    sync: AssignmentSync
    group: ClassicGroup
    generation_id: int
    size_bytes: int

    def committed(self, now_ms: int) -> None:
        self.sync.assignment_completed(self.size_bytes)
        self.sync.assignment_stored(self.group, self.generation_id, now_ms)

    def failed(self, error: ErrorCode, now_ms: int) -> None:
        self.sync.assignment_completed(self.size_bytes)
        self.sync.assignment_not_stored(self.group, self.generation_id, error, now_ms)

    def timed_out(self, now_ms: int) -> None:
        self.sync.assignment_not_stored(self.group, self.generation_id, ErrorCode.REQUEST_TIMED_OUT, now_ms)
