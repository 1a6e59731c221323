"""The operations on share groups: each finds its group, runs with a journal, and appends what the journal has.

Rules: no IO. An operation that is refused changes nothing.
Source: Kafka GroupCoordinatorShard, GroupMetadataManager (KIP-932).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from coordinator.group.assigned.appends import TIMER_RETRY_MS, Appends
from coordinator.group.assigned.entries import EntryKey, EntryKind
from coordinator.group.assigned.journal import Journal
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.targets import ComputedTarget, Targets
from coordinator.group.assigned.topics import GroupTopics, TopicChanges
from coordinator.group.groups import Groups
from coordinator.group.share import partitions
from coordinator.group.share.administration import ShareAdministration
from coordinator.group.share.description import ShareDescription, described_share, described_share_error
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.member import JOIN_EPOCH
from coordinator.group.share.membership import (
    ShareHeartbeat,
    ShareMembership,
    ShareSessionTimer,
    heartbeat_error,
)
from coordinator.group.share.state_keeping import InitializedShareStates
from coordinator.group.share.target_inputs import ShareTargetInputs
from coordinator.group.share.validation import check_empty, check_heartbeat
from coordinator.runtime.contract import Outbox, ScheduleTimer, Waiter
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest

__all__ = ["ShareDescription", "ShareOperations"]


class ShareOperations:
    """Of a shard."""

    def __init__(
        self, groups: Groups, configs: GroupConfigs, topics: GroupTopics, appends: Appends, outbox: Outbox
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._appends = appends
        self._outbox = outbox
        self._targets: Targets[ShareGroup] = Targets(ShareTargetInputs(configs, topics))
        self._membership = ShareMembership(configs, topics, self._targets)
        self._administration = ShareAdministration(topics, self._membership)

    # --- requests --------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: ShareHeartbeat, now_ms: int) -> None:
        request = beat.request
        journal = Journal()
        try:
            check_heartbeat(request)
            self._appends.check_not_lost()
            if request.member_epoch < JOIN_EPOCH:
                group = self._groups.share(request.group_id)
                response = self._membership.leave(group, request, journal, now_ms)
            else:
                if request.member_epoch == JOIN_EPOCH:
                    group = self._groups.share_or_new(request.group_id, journal)
                else:
                    group = self._groups.share(request.group_id, "Share group")
                response = self._membership.heartbeat(group, beat, journal, now_ms)
        except KafkaError as refused:
            journal.undo()
            self._outbox.respond(beat.waiter, heartbeat_error(refused.code, refused.message))
            return
        self._appends.append(request.group_id, journal, beat.waiter, response, heartbeat_error)

    def describe(self, group_id: str) -> ShareDescription:
        """A group that is being removed is described as any other."""
        group = self._groups.find(group_id)
        if isinstance(group, ShareGroup):
            return described_share(group, self._topics)
        missing = "not found" if group is None else "is not a share group"
        return described_share_error(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {missing}.")

    # --- administration: each refusal is a KafkaError, which the waiter gets as its response ----------------------------

    def plan_offsets(self, request: AlterShareGroupOffsetsRequest, waiter: Waiter, now_ms: int) -> None:
        """The waiter gets `PlannedOffsets`."""
        journal = Journal()
        try:
            self._appends.check_not_lost()
            group = self._groups.share_or_new(request.group_id, journal)
            check_empty(group)
            plan = self._administration.plan_offsets(group, request.topics, journal, now_ms)
        except KafkaError as refused:
            self._refuse(journal, waiter, refused)
            return
        self._groups.forget(group)  # unless it was there, or has an entry now
        self._appends.append(request.group_id, journal, waiter, plan, _not_stored)

    def plan_deletion(self, group_id: str, topics: Sequence[str] | None, waiter: Waiter) -> None:
        """Forget `topics` (None: everything, since the group is to be removed). The waiter gets `PlannedDeletion`."""
        journal = Journal()
        try:
            self._appends.check_not_lost()
            group = self._groups.share(group_id)
            check_empty(group)
            if topics is None:
                plan = self._administration.plan_removal(group, journal)
            else:
                plan = self._administration.plan_deletion(group, topics, journal)
        except KafkaError as refused:
            self._refuse(journal, waiter, refused)
            return
        self._appends.append(group_id, journal, waiter, plan, _not_stored)

    def finish_offsets(self, outcome: InitializedShareStates, waiter: Waiter, now_ms: int) -> None:
        """The waiter gets NONE when it is stored what became of the offsets."""
        journal = Journal()
        group = self._found(outcome.group_id)
        if group is not None:
            self._membership.initialized(group, outcome.outcomes, journal, now_ms)
        self._appends.append(outcome.group_id, journal, waiter, ErrorCode.NONE, _not_stored)

    def finish_deletion(self, group_id: str, asked: Iterable[bytes], done: Collection[bytes], waiter: Waiter) -> None:
        """The waiter gets NONE when it is stored that the topics `done` are forgotten."""
        journal = Journal()
        group = self._found(group_id)
        if group is not None:
            self._administration.finish_deletion(group, asked, done, journal)
        self._appends.append(group_id, journal, waiter, ErrorCode.NONE, _not_stored)

    def _refuse(self, journal: Journal, waiter: Waiter, refused: KafkaError) -> None:
        journal.undo()
        self._outbox.respond(waiter, refused)

    # --- what happens without a request ----------------------------------------------------------------------------

    def target_computed(self, computed: ComputedTarget, now_ms: int) -> None:
        group = self._found(computed.group_id)
        if group is not None:
            journal = Journal()
            self._targets.computed(group, computed, journal, now_ms)
            self._append(group, journal)

    def states_initialized(self, outcome: InitializedShareStates, now_ms: int) -> None:
        group = self._found(outcome.group_id)
        if group is not None:
            journal = Journal()
            self._membership.initialized(group, outcome.outcomes, journal, now_ms)
            self._append(group, journal)

    def topics_changed(self, changes: TopicChanges) -> None:
        for each in self._groups:
            group = self._found(each.group_id)
            if group is None:
                continue
            if any(map(group.is_subscribed_to, changes.names)):
                group.needs_refresh = group.lacks_partitions = group.lacks_target = True
            left = partitions.without(group.partitions, changes.gone)
            if left is not group.partitions:
                journal = Journal()
                journal.put(group, EntryKey(EntryKind.SHARE_PARTITIONS, group.group_id), left)
                self._append(group, journal)

    def on_timer(self, key: ShareSessionTimer, now_ms: int) -> None:
        group = self._found(key.group_id)
        if group is not None:
            journal = Journal()
            journal.if_refused(ScheduleTimer(key, now_ms + TIMER_RETRY_MS))
            self._membership.on_session_timer(group, key.member_id, journal, now_ms)
            self._append(group, journal)

    def loaded(self, group: ShareGroup, now_ms: int) -> None:
        """The whole log was read. A group whose entries are gone has left its offsets."""
        if not group.has_entries:
            self._groups.make_classic(group.group_id, now_ms)
            return
        for effect in self._membership.watch_loaded(group, now_ms):
            self._outbox.put(effect)

    def _found(self, group_id: str) -> ShareGroup | None:
        """None also while it is being removed."""
        group = self._groups.find(group_id)
        return group if isinstance(group, ShareGroup) and not group.is_dead else None

    def _append(self, group: ShareGroup, journal: Journal) -> None:
        self._appends.append_unasked(group.group_id, journal, "share group")


def _not_stored(error: ErrorCode) -> KafkaError:
    return KafkaError(error)
