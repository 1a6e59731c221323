"""The rebalance of a group: how it starts, how long it waits for members, and how it ends in a generation.

    prepare -> (every member joined | join timer) -> a new generation: every parked JoinGroup is completed
            -> (leader's SyncGroup stored, see `assignment_sync`) -> stable
            -> (sync timer: members without a SyncGroup are removed) -> prepare

An empty group waits for its first members `group.initial.rebalance.delay.ms`, extended while members keep coming; any
other rebalance waits until all known members joined, at most the largest rebalance timeout among them.

Rules: no IO; timers and responses are effects. One timer for each key: a member's session, a group's join, a group's sync.
Invariants: a parked JoinGroup or SyncGroup is completed exactly once; a member's session timer runs unless the member has
a parked request; in PREPARING_REBALANCE the join timer runs.
Source: Kafka GroupCoordinator (prepareRebalance, onCompleteJoin, onExpireHeartbeat), DelayedJoin, InitialDelayedJoin,
DelayedSync, DelayedHeartbeat; KIP-134 (initial delay).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.member import Member
from coordinator.group.classic.responses import UNKNOWN_MEMBER_ID, join_error, joined, sync_error
from coordinator.group.events import (
    AppendFailed,
    MembersRemoved,
    RebalanceCompleted,
    RebalanceReason,
    RebalanceStarted,
)
from coordinator.group.records import group_record
from coordinator.group.settings import GroupSettings
from coordinator.runtime.contract import AppendRecords, CancelTimer, CoordinatorRecord, Outbox, Result, ScheduleTimer
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupResponse

# The limit for a parked first JoinGroup: its client sends no heartbeats that would show that it is alive.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """Expires when a member has stopped to send heartbeats, or a pending member did not rejoin."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """Expires when a rebalance has waited long enough for members to join."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """Expires when a generation has waited long enough for the SyncGroup of every member."""

    group_id: str


class Rebalance:
    """The operations that JoinGroup, SyncGroup, Heartbeat and LeaveGroup share."""

    def __init__(self, settings: GroupSettings, outbox: Outbox) -> None:
        self._settings = settings
        self._outbox = outbox

    def record_of(self, group: ClassicGroup, assignments: dict[str, bytes]) -> CoordinatorRecord:
        """The record of `group`, in the value version that every broker of the cluster reads."""
        return group_record(group, assignments, self._settings.version.group_metadata_value)

    # --- sessions --------------------------------------------------------------------------------------------------

    def extend_session(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        self._watch(group, member.member_id, now_ms + member.session_timeout_ms)

    def watch_new_member(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        self._watch(group, member.member_id, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)

    def watch_pending_member(self, group: ClassicGroup, member_id: str, deadline_ms: int) -> None:
        self._watch(group, member_id, deadline_ms)

    def unwatch(self, group: ClassicGroup, member_id: str) -> None:
        self._outbox.put(CancelTimer(SessionTimer(group.group_id, member_id)))

    def on_session_timer(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        if member_id in group.pending_members:
            self.remove_pending(group, member_id, now_ms)
            return
        member = group.members.get(member_id)
        if member is not None and member.is_expected_to_heartbeat:
            self.remove(group, member, RebalanceReason.SESSION_EXPIRED, "session expired", now_ms)

    def _watch(self, group: ClassicGroup, member_id: str, deadline_ms: int) -> None:
        self._outbox.put(ScheduleTimer(SessionTimer(group.group_id, member_id), deadline_ms))

    # --- the start -------------------------------------------------------------------------------------------------

    def maybe_prepare(
        self, group: ClassicGroup, reason: RebalanceReason, member_ids: Iterable[str], detail: str, now_ms: int
    ) -> None:
        """Start a rebalance, unless one is being prepared."""
        if group.can_rebalance:
            self.prepare(group, reason, member_ids, detail, now_ms)

    def prepare(
        self, group: ClassicGroup, reason: RebalanceReason, member_ids: Iterable[str], detail: str, now_ms: int
    ) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.refuse_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        group.pending_sync.clear()
        self._outbox.put(CancelTimer(SyncTimer(group.group_id)))
        if group.state is GroupState.EMPTY:
            delay_ms = self._settings.initial_rebalance_delay_ms
            group.remaining_delay_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        else:
            delay_ms = group.rebalance_timeout_ms
            group.remaining_delay_ms = None
        group.new_member_added = False
        group.transition(GroupState.PREPARING_REBALANCE, now_ms)
        self._outbox.put(
            RebalanceStarted(group.group_id, group.generation_id, len(group.members), reason, tuple(member_ids), detail)
        )
        self._outbox.put(ScheduleTimer(JoinTimer(group.group_id), now_ms + delay_ms))
        self.complete_if_all_joined(group, now_ms)

    def refuse_assignment(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        """The generation gets no assignment: every parked SyncGroup gets `error`."""
        assert group.state is GroupState.COMPLETING_REBALANCE
        for member in group.members.values():
            member.assignment = b""
            self.complete_sync(group, member, sync_error(error), now_ms)

    def complete_sync(self, group: ClassicGroup, member: Member, response: SyncGroupResponse, now_ms: int) -> None:
        """Complete the member's parked SyncGroup, if there is one; its session timer starts again."""
        waiter, member.syncing = member.syncing, None
        if waiter is not None:
            self._outbox.respond(waiter, response)
            self.extend_session(group, member, now_ms)

    # --- the end ---------------------------------------------------------------------------------------------------

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int) -> None:
        is_initial = group.remaining_delay_ms is not None  # waits for its delay even when all known members joined
        if group.state is GroupState.PREPARING_REBALANCE and not is_initial and group.all_members_joined:
            self._complete(group, now_ms)

    def on_join_timer(self, group: ClassicGroup, now_ms: int) -> None:
        assert group.state is GroupState.PREPARING_REBALANCE
        if group.new_member_added and group.remaining_delay_ms:
            group.new_member_added = False
            delay_ms = min(self._settings.initial_rebalance_delay_ms, group.remaining_delay_ms)
            group.remaining_delay_ms -= delay_ms
            self._outbox.put(ScheduleTimer(JoinTimer(group.group_id), now_ms + delay_ms))
        else:
            self._complete(group, now_ms)

    def _complete(self, group: ClassicGroup, now_ms: int) -> None:
        missing = [m for m in group.members.values() if m.joining is None and not m.is_static]
        self._dismiss(group, missing, "did not join in time")
        if group.members and not group.elect_joined_leader():
            # Only static members, none of which rejoined: their sessions decide which are removed.
            group.remaining_delay_ms = None
            deadline_ms = now_ms + group.rebalance_timeout_ms
            self._outbox.put(ScheduleTimer(JoinTimer(group.group_id), deadline_ms))
            return
        self._outbox.put(CancelTimer(JoinTimer(group.group_id)))
        group.start_generation(now_ms)
        self._outbox.put(
            RebalanceCompleted(
                group.group_id, group.generation_id, group.leader_id, group.protocol_name, tuple(group.members)
            )
        )
        if group.state is GroupState.EMPTY:
            self._outbox.put(AppendRecords(Result((self.record_of(group, {}),), _EmptyGroup(group, self._outbox))))
            return
        for member in group.members.values():
            waiter = group.take_joining(member)
            if waiter is not None:
                self._outbox.respond(waiter, joined(group, member.member_id))
            self.extend_session(group, member, now_ms)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._outbox.put(ScheduleTimer(SyncTimer(group.group_id), now_ms + group.rebalance_timeout_ms))

    def on_sync_timer(self, group: ClassicGroup, now_ms: int) -> None:
        assert group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        without_sync = [group.members[member_id] for member_id in group.members if member_id in group.pending_sync]
        if without_sync:
            self._dismiss(group, without_sync, "sent no SyncGroup in time")
            member_ids = [member.member_id for member in without_sync]
            self.prepare(group, RebalanceReason.SYNC_MISSING, member_ids, "", now_ms)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """The member's SyncGroup arrived."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._outbox.put(CancelTimer(SyncTimer(group.group_id)))

    # --- removal ---------------------------------------------------------------------------------------------------

    def remove(self, group: ClassicGroup, member: Member, reason: RebalanceReason, detail: str, now_ms: int) -> None:
        """Remove a member; the others rebalance, or continue the rebalance in progress."""
        self._dismiss(group, [member], detail)
        self.maybe_prepare(group, reason, [member.member_id], detail, now_ms)
        self.complete_if_all_joined(group, now_ms)

    def remove_pending(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        group.remove(member_id)
        self.unwatch(group, member_id)
        self.complete_if_all_joined(group, now_ms)

    def _dismiss(self, group: ClassicGroup, members: list[Member], why: str) -> None:
        if not members:
            return
        for member in members:
            waiter = group.take_joining(member)
            if waiter is not None:
                # The client is alive: without a member id it can join as a new member.
                self._outbox.respond(waiter, join_error(UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID))
            waiter, member.syncing = member.syncing, None
            if waiter is not None:
                self._outbox.respond(waiter, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
            group.remove(member.member_id)
            self.unwatch(group, member.member_id)
        member_ids = tuple(member.member_id for member in members)
        self._outbox.put(MembersRemoved(group.group_id, member_ids, why))


@dataclass(slots=True, eq=False)
class _EmptyGroup:
    """The record of a generation without members. Its loss does no harm: the record before it only has members that left,
    whose sessions expire wherever it is loaded."""

    group: ClassicGroup
    outbox: Outbox

    def committed(self, now_ms: int) -> None:
        pass

    def failed(self, error: ErrorCode, now_ms: int) -> None:
        self.outbox.put(AppendFailed(self.group.group_id, "empty generation", error.name))

    def timed_out(self, now_ms: int) -> None:
        self.outbox.put(AppendFailed(self.group.group_id, "empty generation", ErrorCode.REQUEST_TIMED_OUT.name))
