"""The members of share groups: they join, heartbeat, leave, and are fenced.

    heartbeat, epoch 0    joins, or begins again
    heartbeat, epoch > 0  gets the member's assignment when that has changed, or when it names its topics
    heartbeat, epoch -1   leaves
    session timer         the member has stopped to send heartbeats, and is removed

Each heartbeat does the same in the same order: the member's subscription, the group's epoch, the group's target, the member's
part of it, the share states that are lacking. Partitions whose states are not initialized are not assigned: when they are, the
next heartbeat brings a new epoch and target.

Rules: no IO. Every change goes through the journal, which takes them all back when the heartbeat is refused. Share states are
asked for when the record that says so is committed, so that no group asks twice for a state that members use already.
Invariant: the timer of a member's session runs as long as it is a member.
Source: Kafka GroupMetadataManager.shareGroupHeartbeat, shareGroupLeave, shareGroupFenceMember, initializedAssignmentPending,
maybeCreateInitializeShareGroupStateRequest; ShareGroupAssignmentBuilder (KIP-932).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coordinator.group.assigned.assignor import TopicPartitions
from coordinator.group.assigned.entries import EntryKey, EntryKind
from coordinator.group.assigned.epochs import Epochs
from coordinator.group.assigned.journal import Journal
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.targets import Targets
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.assigned.validation import check_known, check_room
from coordinator.group.events import AssignedMemberJoined, MembersRemoved, ShareStatesNotInitialized
from coordinator.group.share import partitions
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.member import JOIN_EPOCH, NO_SUBSCRIPTION, ShareAssignment, ShareSubscription
from coordinator.group.share.state_keeping import NO_START_OFFSET, InitializeShareStates, NewState, Place
from coordinator.group.share.validation import check_epoch
from coordinator.runtime.contract import CancelTimer, ScheduleTimer, Waiter
from protocol.errors import ErrorCode
from protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from protocol.messages.share_group_heartbeat import TopicPartitions as ResponseTopicPartitions

# How long a group waits after the share coordinator has answered an error.
FAILED_PAUSE_MS = 1_000


@dataclass(frozen=True, slots=True)
class ShareSessionTimer:
    """Expires when a member has stopped to send heartbeats."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """A request and who sent it."""

    request: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str
    waiter: Waiter


class ShareMembership:
    """Handles the heartbeats and timers of the share groups of a shard."""

    def __init__(self, configs: GroupConfigs, topics: GroupTopics, targets: Targets[ShareGroup]) -> None:
        self._configs = configs
        self._topics = topics
        self._targets = targets
        self._epochs = Epochs(topics)

    # --- heartbeats ------------------------------------------------------------------------------------------------

    def heartbeat(
        self, group: ShareGroup, beat: ShareHeartbeat, journal: Journal, now_ms: int
    ) -> ShareGroupHeartbeatResponse:
        """Raises: KafkaError when the heartbeat is refused; the caller takes the journal back."""
        request = beat.request
        member_id, is_join = request.member_id, request.member_epoch == JOIN_EPOCH
        check_room(group, member_id, self._configs.share.max_size)
        if is_join:
            if member_id not in group.subscriptions:
                journal.then(AssignedMemberJoined(group.group_id, member_id))
        else:
            check_known(group, member_id)
        before = group.current(member_id)
        check_epoch(before, request.member_epoch)
        lacks_target = group.target_epoch >= group.epoch and self._lacks_target(group)
        names_changed = self._update_subscription(group, beat, journal)
        lacking = self._lacking(group, now_ms)
        why = None
        if names_changed:
            why = f"subscription of {member_id}"
        elif lacks_target:
            why = "share states initialized"
        elif self._asks_again(group, lacking):
            why = "share states asked for again"
        has_changed = self._update_epoch(group, why, journal)
        self._targets.update(group, journal, now_ms)
        current = self._reconcile(group, member_id, journal, has_changed=has_changed)
        config = self._configs.share_of(group.group_id)
        timer = ShareSessionTimer(group.group_id, member_id)
        journal.then(ScheduleTimer(timer, now_ms + config.session_timeout_ms))
        self._initialize(group, lacking, journal, now_ms)
        wants_assignment = is_join or request.subscribed_topic_names is not None or current.assigned != before.assigned
        return heartbeat_response(
            member_id,
            current.member_epoch,
            config.heartbeat_interval_ms,
            _assignment(current.assigned) if wants_assignment else None,
        )

    def _update_subscription(self, group: ShareGroup, beat: ShareHeartbeat, journal: Journal) -> bool:
        """Store what the member asks for. Returns whether it reads other topics than before."""
        member_id = beat.request.member_id
        before = group.subscriptions.get(member_id)
        after = _updated(before or NO_SUBSCRIPTION, beat)
        if before != after:
            journal.put(group, EntryKey(EntryKind.SHARE_SUBSCRIPTION, group.group_id, member_id), after)
        return (before or NO_SUBSCRIPTION).topic_names != after.topic_names

    def _update_epoch(self, group: ShareGroup, why: str | None, journal: Journal) -> bool:
        """Give the group a new epoch if there is a reason, or its topics have changed. Returns whether it has one."""
        if why is None:
            return group.needs_refresh and self._epochs.refresh(group, journal)
        self._epochs.bump(group, journal, why)
        return True

    def _reconcile(self, group: ShareGroup, member_id: str, journal: Journal, *, has_changed: bool) -> ShareAssignment:
        """The member takes its part of the target."""
        current = group.current(member_id)
        epoch = group.target_epoch
        if current.member_epoch == epoch and not has_changed:
            return current
        target = group.target(member_id)
        topic_ids = self._topics.ids_of(group.subscriptions[member_id].topic_names)
        assigned = {topic_id: each for topic_id, each in target.items() if topic_id in topic_ids}
        previous = current.previous_epoch if current.member_epoch == epoch else current.member_epoch
        following = ShareAssignment(epoch, previous, assigned)
        if following == current:
            return current
        journal.put(group, EntryKey(EntryKind.SHARE_CURRENT, group.group_id, member_id), following)
        return following

    # --- share states ----------------------------------------------------------------------------------------------

    def _lacks_target(self, group: ShareGroup) -> bool:
        """Whether the target has other partitions than those that are initialized of topics that members read."""
        if not group.lacks_target or not group.subscriptions:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in group.targets.values():
            for topic_id, of_topic in target.partitions.items():
                assigned.setdefault(topic_id, set()).update(of_topic)
        read = self._topics.ids_of(frozenset(group.members_by_topic))
        lacks = any(
            assigned.get(topic_id, set()) != _below(of_topic, self._topics.partitions_count(topic_id))
            for topic_id, of_topic in group.partitions.initialized.items()
            if topic_id in read
        )
        group.lacks_target = lacks
        return lacks

    def _lacking(self, group: ShareGroup, now_ms: int) -> TopicPartitions:
        """The partitions that members read and whose states have to be asked for, if that is due.

        Those count for which the share coordinator was asked too long ago, and for which another coordinator of the group has
        asked, whose outcome is not known.
        """
        known = group.partitions
        failed_ms = group.failed_at_ms
        if not group.lacks_partitions and not known.initializing:
            return {}
        if failed_ms is not None and failed_ms <= now_ms < failed_ms + FAILED_PAUSE_MS:
            return {}
        retry_ms = self._configs.share.initialize_retry_interval_ms
        lacking = {}
        for topic_id in self._topics.ids_of(frozenset(group.members_by_topic)) - group.forgetting:
            present, count = known.initialized.get(topic_id, frozenset()), self._topics.partitions_count(topic_id)
            if len(present) >= count:
                continue
            asked_ms = group.asked_at_ms.get(topic_id)
            if asked_ms is not None and asked_ms <= now_ms < asked_ms + retry_ms:
                present |= known.initializing.get(topic_id, frozenset())
            missing = frozenset(range(count)) - present
            if missing:
                lacking[topic_id] = missing
        return lacking

    def _asks_again(self, group: ShareGroup, lacking: TopicPartitions) -> bool:
        """Whether a request for the same states may be under way. It is of an older epoch then, so that the share coordinator
        refuses it when it comes late: it would begin anew with what members have read meanwhile."""
        initializing = group.partitions.initializing
        return bool(lacking) and (group.is_outcome_unknown or not initializing.keys().isdisjoint(lacking))

    def _initialize(self, group: ShareGroup, lacking: TopicPartitions, journal: Journal, now_ms: int) -> None:
        """Ask for the states of `lacking`. Topics that were made again are forgotten as they were before."""
        names = self._topics.names()
        stale = [
            topic_id
            for topic_id, name in group.partitions.names.items()
            if group.lacks_partitions and name in names and names[name].topic_id != topic_id
        ]
        if stale:
            left = partitions.without(group.partitions, stale)
            journal.put(group, EntryKey(EntryKind.SHARE_PARTITIONS, group.group_id), left)
        if lacking:
            known = {topic_id: name for topic_id in lacking if (name := self._topics.name_of(topic_id)) is not None}
            rows = self.ask_for(group, dict.fromkeys(_places(lacking), NO_START_OFFSET), known, journal, now_ms)
            journal.when_committed(InitializeShareStates(group.group_id, rows))
        if group.failed_at_ms is None or lacking:
            group.lacks_partitions = bool(group.forgetting)

    def ask_for(
        self,
        group: ShareGroup,
        start_offsets: Mapping[Place, int],
        names: Mapping[bytes, str],
        journal: Journal,
        now_ms: int,
    ) -> tuple[NewState, ...]:
        """Note that the share coordinator is asked for these states. `names` has those of the topics. Returns what to ask."""
        asked = topic_partitions(start_offsets)
        before, was_unknown = dict(group.asked_at_ms), group.is_outcome_unknown
        group.asked_at_ms.update(dict.fromkeys(asked, now_ms))
        group.is_outcome_unknown, group.failed_at_ms = False, None
        journal.then_undo(lambda: setattr(group, "asked_at_ms", before))
        journal.then_undo(lambda: setattr(group, "is_outcome_unknown", was_unknown))
        after = partitions.initializing(group.partitions, asked, names)
        journal.put(group, EntryKey(EntryKind.SHARE_PARTITIONS, group.group_id), after)
        return tuple(
            NewState(topic_id, partition, group.epoch, start_offsets[topic_id, partition])
            for topic_id, partition in sorted(start_offsets)
        )

    def initialized(
        self, group: ShareGroup, outcomes: Mapping[Place, ErrorCode], journal: Journal, now_ms: int
    ) -> None:
        """The share coordinator has answered."""
        done = topic_partitions(place for place, error in outcomes.items() if error is ErrorCode.NONE)
        failed = topic_partitions(place for place, error in outcomes.items() if error is not ErrorCode.NONE)
        after = partitions.initialized(group.partitions, done) if done else group.partitions
        if failed:
            group.is_outcome_unknown, group.failed_at_ms = True, now_ms
            after = partitions.forgotten(after, failed)
            error = next(error for error in outcomes.values() if error is not ErrorCode.NONE)
            count = sum(map(len, failed.values()))
            journal.then(ShareStatesNotInitialized(group.group_id, count, error.name))
        if after != group.partitions:
            journal.put(group, EntryKey(EntryKind.SHARE_PARTITIONS, group.group_id), after)

    # --- leaving ---------------------------------------------------------------------------------------------------

    def leave(
        self, group: ShareGroup, request: ShareGroupHeartbeatRequest, journal: Journal, now_ms: int
    ) -> ShareGroupHeartbeatResponse:
        """Raises: KafkaError when there is no such member."""
        check_known(group, request.member_id)
        self._remove(group, request.member_id, "left", journal, now_ms)
        return heartbeat_response(request.member_id, request.member_epoch)

    def on_session_timer(self, group: ShareGroup, member_id: str, journal: Journal, now_ms: int) -> None:
        if member_id in group.subscriptions:
            self._remove(group, member_id, "session expired", journal, now_ms)

    def _remove(self, group: ShareGroup, member_id: str, why: str, journal: Journal, now_ms: int) -> None:
        """Remove the member; the others get a new target."""
        journal.then(MembersRemoved(group.group_id, (member_id,), why))
        journal.then(CancelTimer(ShareSessionTimer(group.group_id, member_id)))
        journal.if_refused(self._session(group, member_id, now_ms))
        for kind in (EntryKind.SHARE_CURRENT, EntryKind.SHARE_TARGET, EntryKind.SHARE_SUBSCRIPTION):
            journal.put(group, EntryKey(kind, group.group_id, member_id), None)
        self._epochs.bump(group, journal, "members removed")

    def watch_loaded(self, group: ShareGroup, now_ms: int) -> Iterable[ScheduleTimer]:
        """The timers of the members of a group that was loaded: sessions begin anew."""
        for member_id in group.subscriptions:
            yield self._session(group, member_id, now_ms)

    def _session(self, group: ShareGroup, member_id: str, now_ms: int) -> ScheduleTimer:
        timeout_ms = self._configs.share_of(group.group_id).session_timeout_ms
        return ScheduleTimer(ShareSessionTimer(group.group_id, member_id), now_ms + timeout_ms)


def _below(of_topic: frozenset[int], count: int) -> frozenset[int]:
    """A broker that has just become the coordinator may not know yet that a topic has grown."""
    return frozenset(partition for partition in of_topic if partition < count)


def topic_partitions(places: Iterable[Place]) -> TopicPartitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, partition in places:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(of_topic) for topic_id, of_topic in found.items()}


def _places(of_topics: TopicPartitions) -> Iterable[Place]:
    return ((topic_id, partition) for topic_id, of_topic in of_topics.items() for partition in of_topic)


def _updated(subscription: ShareSubscription, beat: ShareHeartbeat) -> ShareSubscription:
    """What a heartbeat does not tell stays."""
    names, rack = beat.request.subscribed_topic_names, beat.request.rack_id
    return ShareSubscription(
        topic_names=subscription.topic_names if names is None else frozenset(names),
        rack_id=subscription.rack_id if rack is None else rack,
        client_id=beat.client_id,
        client_host=beat.client_host,
    )


def _assignment(assigned: TopicPartitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(assigned[topic_id]))
            for topic_id in sorted(assigned)
        ]
    )


def heartbeat_response(
    member_id: str, member_epoch: int, heartbeat_interval_ms: int = 0, assignment: Assignment | None = None
) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        assignment=assignment,
    )


def heartbeat_error(error: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=error, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )
