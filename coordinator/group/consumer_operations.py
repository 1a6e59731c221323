"""The operations on consumer groups: each finds its group, runs with a journal, and appends what the journal has.

Rules: no IO. An operation that is refused changes nothing.
Source: Kafka GroupCoordinatorShard, CoordinatorRuntime (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from coordinator.group.append_errors import group_append_error
from coordinator.group.assigned.appends import TIMER_RETRY_MS, Appends
from coordinator.group.assigned.journal import Journal
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.targets import ComputedTarget, Targets
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member_join import Join
from coordinator.group.classic.responses import UNKNOWN_MEMBER_ID, join_error, sync_error
from coordinator.group.classic.waiting_requests import refuse_waiting
from coordinator.group.consumer.classic_members import ClassicMembers
from coordinator.group.consumer.description import ConsumerDescription, described_consumer, described_consumer_error
from coordinator.group.consumer.expressions import Expressions, ResolvedExpressions
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import JOIN_EPOCH
from coordinator.group.consumer.membership import (
    ConsumerHeartbeat,
    ConsumerMembership,
    ConsumerSessionTimer,
    RevocationTimer,
    heartbeat_error,
)
from coordinator.group.consumer.target_inputs import ConsumerTargetInputs
from coordinator.group.consumer.timers import FetchAssignmentTimer, RejoinTimer
from coordinator.group.consumer.validation import check_heartbeat
from coordinator.group.conversion import Conversion
from coordinator.group.events import ExpressionsNotResolved
from coordinator.group.groups import Groups
from coordinator.runtime.contract import Outbox, ScheduleTimer, Waiter
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest

__all__ = ["ConsumerDescription", "ConsumerOperations", "ConsumerTimer"]

ConsumerTimer: TypeAlias = ConsumerSessionTimer | RevocationTimer | RejoinTimer | FetchAssignmentTimer
ClassicJoin = Callable[[ClassicGroup, Join, int], None]


class ConsumerOperations:
    """Of a shard."""

    def __init__(
        self,
        groups: Groups,
        configs: GroupConfigs,
        topics: GroupTopics,
        conversion: Conversion,
        appends: Appends,
        outbox: Outbox,
    ) -> None:
        self._groups = groups
        self._appends = appends
        self._conversion = conversion
        self._configs = configs
        self._topics = topics
        self._outbox = outbox
        self._targets: Targets[ConsumerGroup] = Targets(ConsumerTargetInputs(configs, topics))
        self._expressions = Expressions(configs, topics)
        self._membership = ConsumerMembership(
            configs, topics, self._targets, self._expressions, conversion.downgrade_without
        )
        self._classic = ClassicMembers(configs, topics, self._targets, self._membership, conversion)

    # --- requests --------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: ConsumerHeartbeat, now_ms: int) -> None:
        request = beat.request
        journal = Journal()
        try:
            check_heartbeat(request, beat.api_version, self._configs.settings.assignors)
            self._appends.check_not_lost()
            if request.member_epoch < JOIN_EPOCH:
                group = self._groups.consumer(request.group_id)
                response = self._membership.leave(group, request, journal, now_ms)
            else:
                if request.member_epoch == JOIN_EPOCH:
                    group = self._to_join(request.group_id, journal, now_ms)
                else:
                    group = self._groups.consumer(request.group_id, "Consumer group")
                response = self._membership.heartbeat(group, beat, journal, now_ms)
        except KafkaError as refused:
            journal.undo()
            self._outbox.respond(beat.waiter, heartbeat_error(refused.code, refused.message))
            return
        self._appends.append(request.group_id, journal, beat.waiter, response, heartbeat_error)

    def _to_join(self, group_id: str, journal: Journal, now_ms: int) -> ConsumerGroup:
        """The group that a member of the new protocol joins. A classic group with members becomes a consumer group.

        Raises: KafkaError."""
        classic = self._groups.classic(group_id)
        if classic is None or classic.is_empty or classic.is_dead:
            return self._groups.consumer_to_join(group_id, journal)
        return self._conversion.upgraded(classic, journal, now_ms)

    # --- requests of members of the classic protocol ---------------------------------------------------------------

    def join_classic(self, group: ConsumerGroup, join: Join, join_classic: ClassicJoin, now_ms: int) -> None:
        """A member of the classic protocol joins. An empty group becomes a classic one."""
        request = join.request
        if group.is_dead:
            self._outbox.respond(join.waiter, join_error(request.member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif not group.is_empty:
            self._join_among_members(group, join, now_ms)
        elif request.member_id:
            self._outbox.respond(join.waiter, join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            journal = Journal()
            classic = self._groups.replace_empty_consumer(group, journal, now_ms)
            refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
            journal.then_undo(lambda: refuse_waiting(classic, refused, self._outbox))
            self._append(group.group_id, journal)
            join_classic(classic, join, now_ms)

    def _join_among_members(self, group: ConsumerGroup, join: Join, now_ms: int) -> None:
        journal = Journal()
        try:
            self._appends.check_not_lost()
            response = self._classic.join(group, join, journal, now_ms)
        except KafkaError as refused:
            journal.undo()
            self._outbox.respond(join.waiter, join_error(UNKNOWN_MEMBER_ID, refused.code))
            return

        def not_stored(error: ErrorCode) -> JoinGroupResponse:
            return join_error(join.request.member_id, group_append_error(error))

        self._appends.append(group.group_id, journal, join.waiter, response, not_stored)

    def sync_classic(self, group: ConsumerGroup, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> None:
        journal = Journal()
        try:
            self._appends.check_not_lost()
            response = self._classic.sync(group, request, journal, now_ms)
        except KafkaError as refused:
            response = sync_error(refused.code)
        self._appends.append(
            group.group_id, journal, waiter, response, lambda error: sync_error(group_append_error(error))
        )

    def heartbeat_classic(self, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        journal = Journal()
        try:
            self._appends.check_not_lost()
            error = self._classic.heartbeat(group, request, journal, now_ms)
        except KafkaError as refused:
            return refused.code
        self._append(group.group_id, journal)
        return error

    def leave_classic(self, group: ConsumerGroup, identities: list[MemberIdentity], now_ms: int) -> LeaveGroupResponse:
        """It does not wait for the records: of a member that is still there after that, the session ends."""
        if self._appends.is_lost:
            return LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
        leaving = self._classic.leaving(group, identities)
        if leaving.member_ids:
            journal = Journal()
            self._membership.remove(group, leaving.member_ids, "left", journal, now_ms)
            self._append(group.group_id, journal)
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=leaving.responses)

    def describe(self, group_id: str) -> ConsumerDescription:
        """A group that is being removed is described as any other."""
        group = self._groups.find(group_id)
        if isinstance(group, ConsumerGroup):
            return described_consumer(group, self._topics, self._configs.settings.assignors)
        missing = "not found" if group is None else "is not a consumer group"
        return described_consumer_error(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {missing}.")

    # --- what happens without a request ----------------------------------------------------------------------------

    def target_computed(self, computed: ComputedTarget, now_ms: int) -> None:
        group = self._groups.find(computed.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_dead:
            journal = Journal()
            self._targets.computed(group, computed, journal, now_ms)
            self._append(computed.group_id, journal)

    def expressions_resolved(self, outcome: ResolvedExpressions, now_ms: int) -> None:
        group = self._groups.find(outcome.group_id)
        if not isinstance(group, ConsumerGroup) or group.is_dead:
            return
        journal = Journal()
        if outcome.failure is not None:
            group.resolving = False
            self._outbox.put(ExpressionsNotResolved(outcome.group_id, outcome.failure))
        elif self._expressions.resolved(group, outcome, journal, now_ms):
            self._membership.bump_epoch(group, journal, "topics of regular expressions")
        else:
            self._membership.refresh(group, journal)
        self._append(outcome.group_id, journal)

    def topics_changed(self, names: Collection[str]) -> None:
        for group in self._groups:
            if isinstance(group, ConsumerGroup) and any(map(group.is_subscribed_to, names)):
                group.needs_refresh = True

    def on_timer(self, key: ConsumerTimer, now_ms: int) -> None:
        group = self._groups.find(key.group_id)
        if not isinstance(group, ConsumerGroup) or group.is_dead:
            return
        journal = Journal()
        journal.if_refused(ScheduleTimer(key, now_ms + TIMER_RETRY_MS))
        match key:
            case ConsumerSessionTimer():
                self._membership.on_session_timer(group, key.member_id, journal, now_ms)
            case RevocationTimer():
                self._membership.on_revocation_timer(group, key.member_id, journal, now_ms)
            case _:
                why = self._classic.on_timer(group, key)
                if why is not None:
                    self._membership.remove(group, [key.member_id], why, journal, now_ms)
        self._append(key.group_id, journal)

    def loaded(self, group: ConsumerGroup, now_ms: int) -> None:
        """The whole log was read. A group whose entries are gone has left its offsets."""
        if not group.has_entries:
            self._groups.make_classic(group.group_id, now_ms)
            return
        for effect in self._membership.watch_loaded(group, now_ms):
            self._outbox.put(effect)

    def _append(self, group_id: str, journal: Journal) -> None:
        self._appends.append_unasked(group_id, journal, "consumer group")
