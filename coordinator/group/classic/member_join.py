"""JoinGroup: new members, known members that rejoin, and static members that return under a new member id.

    no member id, dynamic      v4+: gets an id (MEMBER_ID_REQUIRED) and must rejoin with it; v0-v3: becomes a member
    no member id, static       becomes a member; a known member with this instance id is replaced, its old id is fenced
    an id that is pending      becomes a member
    an id that is a member     joins the rebalance, starts one (leader, or changed metadata), or gets the current generation

A new member whose request exceeds the memory limit (`coordinator.group.classic.waiting_bytes`) gets
COORDINATOR_LOAD_IN_PROGRESS, after which clients retry; a pending id is removed then, so that no rebalance waits for it.

Rules: no IO. A request is parked by adding its waiter to the member; every other request gets its response here.
Source: Kafka GroupCoordinator.handleJoinGroup; KIP-345 and KIP-814 (static members), KIP-394, KIP-389 (group size),
KIP-800 (reasons).
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.group.append_errors import group_append_error
from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.member import Member, Protocols
from coordinator.group.classic.rebalance import Rebalance
from coordinator.group.classic.responses import UNKNOWN_MEMBER_ID, join_error, joined, sync_error
from coordinator.group.classic.validation import member_error
from coordinator.group.classic.waiting_bytes import WaitingBytes, size_of
from coordinator.group.events import MemberFenced, RebalanceReason, WaitingMemoryFull
from coordinator.group.settings import GroupSettings
from coordinator.runtime.contract import AppendRecords, Outbox, Result, Waiter
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.primitives import MAX_STRING_BYTES

_MEMBER_ID_REQUIRED_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9


@dataclass(frozen=True, slots=True)
class Join:
    """One JoinGroup request. `unique` makes a new member id unique: a UUID's text, made by the caller."""

    request: JoinGroupRequest
    api_version: int
    client_id: str
    client_host: str
    unique: str
    waiter: Waiter

    @property
    def needs_member_id(self) -> bool:
        return self.api_version >= _MEMBER_ID_REQUIRED_SINCE and self.request.group_instance_id is None

    @property
    def knows_skip_assignment(self) -> bool:
        return self.api_version >= _SKIP_ASSIGNMENT_SINCE

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 had one timeout for both."""
        return self.request.session_timeout_ms if self.api_version == 0 else self.request.rebalance_timeout_ms

    @property
    def protocols(self) -> Protocols:
        return tuple((protocol.name, protocol.metadata) for protocol in self.request.protocols)

    @property
    def reason(self) -> str:
        return self.request.reason or ""

    @property
    def new_member_id(self) -> str:
        instance_id = self.request.group_instance_id
        return f"{self.client_id if instance_id is None else instance_id}-{self.unique}"


class MemberJoin:
    """Handles JoinGroup for the groups of a shard; owned by the shard, like its collaborators."""

    def __init__(self, settings: GroupSettings, rebalance: Rebalance, waiting: WaitingBytes, outbox: Outbox) -> None:
        self._settings = settings
        self._waiting = waiting
        self._rebalance = rebalance
        self._outbox = outbox

    def session_timeout_is_valid(self, join: Join) -> bool:
        timeout_ms = join.request.session_timeout_ms
        return self._settings.min_session_timeout_ms <= timeout_ms <= self._settings.max_session_timeout_ms

    def join(self, group: ClassicGroup, join: Join, now_ms: int) -> None:
        member_id = join.request.member_id
        if not self._has_room(group, member_id):
            group.remove(member_id)
            self._rebalance.unwatch(group, member_id)
            self._refuse(join, UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif group.state is GroupState.DEAD:
            # Being deleted: it is removed when the client has looked up the coordinator again.
            self._refuse(join, member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not group.supports(join.request.protocol_type, join.protocols):
            self._refuse(join, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif member_id == UNKNOWN_MEMBER_ID:
            self._join_new(group, join, now_ms)
        else:
            self._join_known(group, join, now_ms)
        self._rebalance.complete_if_all_joined(group, now_ms)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether `group.max.size` admits the member. While a rebalance is prepared it applies to known members too, in the
        order of their requests, since it may have been lowered. Members of a stable generation stay."""
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                member = group.members.get(member_id)
                has_joined = member is not None and member.joining is not None
                return has_joined or group.joining_count < self._settings.max_size
            case _:
                return member_id in group.members or len(group.members) < self._settings.max_size

    def _has_memory(self, group: ClassicGroup, join: Join) -> bool:
        """Whether the memory limit admits the parked request of a new member."""
        if self._waiting.has_room(size_of(join.protocols)):
            return True
        if self._waiting.begins_to_refuse():
            self._outbox.put(WaitingMemoryFull(group.group_id, self._waiting.used_bytes, self._waiting.limit_bytes))
        return False

    # --- without a member id ---------------------------------------------------------------------------------------

    def _join_new(self, group: ClassicGroup, join: Join, now_ms: int) -> None:
        instance_id = join.request.group_instance_id
        new_member_id = join.new_member_id
        if len(new_member_id.encode()) > MAX_STRING_BYTES:
            # Too long for the fields of the response and of the record. (Apache Kafka closes the connection.)
            self._refuse(join, UNKNOWN_MEMBER_ID, ErrorCode.INVALID_REQUEST)
        elif instance_id is not None and instance_id in group.static_members:
            self._replace_static(group, join, instance_id, new_member_id, now_ms)
        elif not self._has_memory(group, join):
            self._refuse(join, UNKNOWN_MEMBER_ID, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        elif join.needs_member_id:
            group.pending_members.add(new_member_id)
            deadline_ms = now_ms + join.request.session_timeout_ms
            self._rebalance.watch_pending_member(group, new_member_id, deadline_ms)
            self._refuse(join, new_member_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(group, join, new_member_id, now_ms)

    def _add(self, group: ClassicGroup, join: Join, member_id: str, now_ms: int) -> None:
        member = Member(
            member_id=member_id,
            group_instance_id=join.request.group_instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.request.session_timeout_ms,
            protocol_type=join.request.protocol_type,
            protocols=join.protocols,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.generation_id == 0:
            group.new_member_added = True
        group.add(member, join.waiter)
        self._rebalance.watch_new_member(group, member, now_ms)
        self._rebalance.maybe_prepare(group, RebalanceReason.MEMBER_JOINED, [member_id], join.reason, now_ms)

    # --- a static member's return ----------------------------------------------------------------------------------

    def _replace_static(
        self, group: ClassicGroup, join: Join, instance_id: str, new_member_id: str, now_ms: int
    ) -> None:
        """The instance was restarted. The group does not rebalance when the chosen protocol stays the same."""
        old_member_id = group.static_members[instance_id]
        old_leader_id = group.leader_id
        member = group.members[old_member_id]
        self._fence(group, member)
        group.rename_static(instance_id, old_member_id, new_member_id)
        self._outbox.put(MemberFenced(group.group_id, instance_id, old_member_id, new_member_id))
        self._rebalance.unwatch(group, old_member_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._park(group, member, join)
        self._rebalance.extend_session(group, member, now_ms)
        reason = RebalanceReason.STATIC_MEMBER_REPLACED
        match group.state:
            case GroupState.STABLE if group.select_protocol() == group.protocol_name:
                assignments = {each.member_id: each.assignment for each in group.members.values()}
                change = _StaticReturn(self, group, member, join, old_member_id, new_member_id, old_leader_id, before)
                record = self._rebalance.record_of(group, assignments)
                self._outbox.put(AppendRecords(Result((record,), change)))
            case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
                # While an assignment is awaited it is the old id that the leader knows.
                self._rebalance.prepare(group, reason, [new_member_id], join.reason, now_ms)
            case _:
                assert group.state is GroupState.PREPARING_REBALANCE

    def _fence(self, group: ClassicGroup, member: Member) -> None:
        """Requests that are parked under the old member id come from another instance: fence them."""
        waiter = group.take_joining(member)
        if waiter is not None:
            self._outbox.respond(waiter, join_error(member.member_id, ErrorCode.FENCED_INSTANCE_ID))
        waiter, member.syncing = member.syncing, None
        if waiter is not None:
            self._outbox.respond(waiter, sync_error(ErrorCode.FENCED_INSTANCE_ID))

    def static_return_stored(self, change: _StaticReturn) -> None:
        if not change.is_parked:
            return  # a rebalance, or a newer return, completes the request
        group, member, join = change.group, change.member, change.join
        group.take_joining(member)
        if join.knows_skip_assignment:
            # A leader stays leader and watches the topics, but must skip the assignment: no member would sync (KIP-814).
            is_leader = group.is_leader(member.member_id)
            response = joined(group, member.member_id, skip_assignment=is_leader)
        else:
            # With the old leader's id in the response the member does not act as the leader and does not assign.
            response = joined(group, member.member_id, leader_id=change.old_leader_id)
        self._outbox.respond(join.waiter, response)

    def static_return_refused(self, change: _StaticReturn, error: ErrorCode) -> None:
        if change.is_parked:
            group = change.group
            group.take_joining(change.member)
            response = joined(group, UNKNOWN_MEMBER_ID, leader_id=change.old_leader_id)
            response.error_code = group_append_error(error)
            self._outbox.respond(change.join.waiter, response)

    def static_return_undone(self, change: _StaticReturn, now_ms: int) -> None:
        """The new id was not stored: restore the old one, unless the group has changed since."""
        group, member, instance_id = change.group, change.member, change.join.request.group_instance_id
        if group.state is GroupState.STABLE and member.member_id == change.new_member_id in group.members:
            assert instance_id is not None
            self._rebalance.unwatch(group, member.member_id)
            group.rename_static(instance_id, member.member_id, change.old_member_id)
            group.update(member, *change.before, joining=None)
            self._rebalance.extend_session(group, member, now_ms)

    # --- with a member id ------------------------------------------------------------------------------------------

    def _join_known(self, group: ClassicGroup, join: Join, now_ms: int) -> None:
        request = join.request
        member_id = request.member_id
        if member_id in group.pending_members:
            if request.group_instance_id is not None:
                # Pending ids are given to dynamic members only. Kafka fails with an IllegalStateException.
                self._refuse(join, UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_SERVER_ERROR)
            elif not self._has_memory(group, join):
                self._refuse(join, member_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                self._rebalance.remove_pending(group, member_id, now_ms)
            else:
                self._add(group, join, member_id, now_ms)
            return
        error = member_error(group, member_id, request.group_instance_id, self._outbox)
        if error is not ErrorCode.NONE:
            self._refuse(join, member_id, error)
            return
        member = group.members[member_id]
        has_changed = member.protocols != join.protocols
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                self._park(group, member, join)
            case GroupState.STABLE if group.is_leader(member_id):
                # A leader requests a rebalance this way: topics changed, which the members' metadata does not show.
                self._park(group, member, join)
                reason = RebalanceReason.LEADER_REJOINED
                self._rebalance.prepare(group, reason, [member_id], join.reason, now_ms)
            case GroupState.STABLE | GroupState.COMPLETING_REBALANCE if has_changed:
                self._park(group, member, join)
                reason = RebalanceReason.MEMBER_CHANGED
                self._rebalance.prepare(group, reason, [member_id], join.reason, now_ms)
            case _:
                # The response to its JoinGroup was lost: send it again.
                self._outbox.respond(join.waiter, joined(group, member_id))

    def _park(self, group: ClassicGroup, member: Member, join: Join) -> None:
        if member.joining is not None:
            # The client abandoned that request, or two clients share an id. Apache Kafka sends no response to it.
            self._outbox.respond(member.joining, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.request.session_timeout_ms, join.waiter)

    def _refuse(self, join: Join, member_id: str, error: ErrorCode) -> None:
        self._outbox.respond(join.waiter, join_error(member_id, error))


@dataclass(slots=True, eq=False)
class _StaticReturn:
    """A static member has its new id immediately, and gets its response when the id is stored."""

    joins: MemberJoin
    group: ClassicGroup
    member: Member
    join: Join
    old_member_id: str
    new_member_id: str
    old_leader_id: str | None
    before: tuple[Protocols, int, int]

    @property
    def is_parked(self) -> bool:
        """Whether the member's parked request is still that of this return, in a group that is still stable."""
        return self.group.state is GroupState.STABLE and self.member.joining is self.join.waiter

    def committed(self, now_ms: int) -> None:
        self.joins.static_return_stored(self)

    def failed(self, error: ErrorCode, now_ms: int) -> None:
        self.joins.static_return_refused(self, error)
        self.joins.static_return_undone(self, now_ms)

    def timed_out(self, now_ms: int) -> None:
        self.joins.static_return_refused(self, ErrorCode.REQUEST_TIMED_OUT)
