"""The members of consumer groups: they join, heartbeat, leave, and are fenced.

    heartbeat, epoch 0    joins: a new member, or one that has given up everything and begins again
    heartbeat, epoch > 0  reports what it owns; gets its assignment when that has changed, or when it tells all about itself
    heartbeat, epoch -1   leaves
    heartbeat, epoch -2   a static member leaves for a while: its share is kept until its session ends, or it comes back
    session timer         the member has stopped to send heartbeats, and is removed
    revocation timer      the member did not give up partitions within its rebalance timeout, and is removed

Each heartbeat does the same in the same order: the member's subscription, the group's epoch, the group's target, the member's
next step towards its part of the target.

Rules: no IO. Every change goes through the journal, which takes them all back when the heartbeat is refused; a timer that was
cancelled runs again then. A timer that finds its member gone, or with nothing to give up, does nothing.
Invariant: the timer of a member's session runs as long as it is a member; its revocation timer in UNREVOKED_PARTITIONS.
Source: Kafka GroupMetadataManager.consumerGroupHeartbeat, consumerGroupLeave, consumerGroupFenceMembers (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from coordinator.group.assigned.entries import EntryKey, EntryKind, Target
from coordinator.group.assigned.epochs import Epochs
from coordinator.group.assigned.journal import Journal
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.targets import Targets
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.assigned.validation import check_known, check_room
from coordinator.group.consumer.expressions import ExpressionChange, Expressions, MayDescribe
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import (
    JOIN_EPOCH,
    NO_SUBSCRIPTION,
    STATIC_LEAVE_EPOCH,
    CurrentAssignment,
    MemberState,
    PartitionEpochs,
    Subscription,
)
from coordinator.group.consumer.patterns import invalid_text
from coordinator.group.consumer.reconciliation import Reconciliation, Reported
from coordinator.group.consumer.timers import FetchAssignmentTimer, RejoinTimer
from coordinator.group.consumer.validation import (
    check_epoch,
    check_instance_known,
    check_instance_owner,
    check_instance_released,
)
from coordinator.group.events import AssignedMemberJoined, MembersRemoved
from coordinator.runtime.contract import CancelTimer, ScheduleTimer, Waiter
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


@dataclass(frozen=True, slots=True)
class ConsumerSessionTimer:
    """Expires when a member has stopped to send heartbeats."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RevocationTimer:
    """Expires when a member has not given up partitions in time."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """A request and who sent it. `new_member_id` is that of a new member that has not made its own; `may_describe` decides
    which topics its expression matches."""

    request: ConsumerGroupHeartbeatRequest
    api_version: int
    client_id: str
    client_host: str
    new_member_id: str
    waiter: Waiter
    may_describe: MayDescribe = None


# Makes a classic group of a consumer group without the members that are about to leave, if it can be one. Returns whether.
Downgrade = Callable[[ConsumerGroup, Collection[str], Journal, int], bool]


class ConsumerMembership:
    """Handles the heartbeats and timers of the consumer groups of a shard."""

    def __init__(
        self,
        configs: GroupConfigs,
        topics: GroupTopics,
        targets: Targets[ConsumerGroup],
        expressions: Expressions,
        downgrade: Downgrade,
    ) -> None:
        self._configs = configs
        self._topics = topics
        self._epochs = Epochs(topics)
        self._targets = targets
        self._expressions = expressions
        self._downgrade = downgrade

    # --- heartbeats ------------------------------------------------------------------------------------------------

    def heartbeat(
        self, group: ConsumerGroup, beat: ConsumerHeartbeat, journal: Journal, now_ms: int
    ) -> ConsumerGroupHeartbeatResponse:
        """Raises: KafkaError when the heartbeat is refused; the caller takes the journal back."""
        request = beat.request
        check_room(group, request.member_id, self._configs.settings.max_size)
        member_id = request.member_id or beat.new_member_id
        reported = _reported(request.topic_partitions)
        self._admit(group, member_id, request, reported, journal)
        after = _updated(group.subscriptions.get(member_id, NO_SUBSCRIPTION), beat)
        has_changed = self.update_subscription(group, member_id, after, journal)
        self._expressions.resolve_if_due(group, journal, beat.may_describe, now_ms)
        self._targets.update(group, journal, now_ms)
        before = group.current(member_id)
        current = self.reconcile(group, member_id, reported, journal, now_ms, has_changed=has_changed)
        timer = ConsumerSessionTimer(group.group_id, member_id)
        config = self._configs.of(group.group_id)
        journal.then(ScheduleTimer(timer, now_ms + config.session_timeout_ms))
        tells_all = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        wants_assignment = request.member_epoch == JOIN_EPOCH or tells_all or current.assigned != before.assigned
        return heartbeat_response(
            member_id,
            current.member_epoch,
            config.heartbeat_interval_ms,
            _assignment(current.assigned) if wants_assignment else None,
        )

    def _admit(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        reported: Reported,
        journal: Journal,
    ) -> None:
        """Check that the member may heartbeat, or make it one. Raises: KafkaError."""
        instance_id, is_join = request.instance_id, request.member_epoch == JOIN_EPOCH
        owner = None if instance_id is None else group.static_members.get(instance_id)
        if is_join and instance_id is not None and owner is not None:
            if group.subscriptions[owner].classic is None:
                check_instance_released(group, owner, member_id, instance_id)
            self.replace_static(group, owner, member_id, journal)
            journal.then(AssignedMemberJoined(group.group_id, member_id, instance_id, owner))
        elif is_join:
            if member_id not in group.subscriptions:
                journal.then(AssignedMemberJoined(group.group_id, member_id, instance_id))
        else:
            if instance_id is not None:
                check_instance_owner(check_instance_known(owner, instance_id), member_id, instance_id)
            check_known(group, member_id)
            check_epoch(group.current(member_id), request.member_epoch, reported)

    def replace_static(self, group: ConsumerGroup, old_id: str, new_id: str, journal: Journal) -> None:
        """A static member came back under another id: it gets what the old one had."""
        subscription, current, target = group.subscriptions[old_id], group.current(old_id), group.target(old_id)
        self._remove_entries(group, old_id, journal)
        returned = replace(current, member_epoch=JOIN_EPOCH, previous_epoch=0)
        for kind, entry in (
            (EntryKind.SUBSCRIPTION, subscription),
            (EntryKind.TARGET, Target(target)),
            (EntryKind.CURRENT, returned),
        ):
            journal.put(group, EntryKey(kind, group.group_id, new_id), entry)

    def update_subscription(self, group: ConsumerGroup, member_id: str, after: Subscription, journal: Journal) -> bool:
        """Store what the member asks for, and give the group a new epoch when that or the topics call for one. Returns whether
        the member reads other topics than before. Raises: KafkaError (INVALID_REGULAR_EXPRESSION)."""
        before = group.subscriptions.get(member_id)
        expression = after.topic_regex
        if expression and expression not in group.members_by_expression:
            problem = invalid_text(expression, group.members_by_expression.keys())
            if problem is not None:
                raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, problem)
        if before != after:
            journal.put(group, EntryKey(EntryKind.SUBSCRIPTION, group.group_id, member_id), after)
        before = before or NO_SUBSCRIPTION
        has_names_changed = before.topic_names != after.topic_names
        change = self._expressions.updated(group, before, after, journal)
        if has_names_changed or change is ExpressionChange.RESOLVED:
            self.bump_epoch(group, journal, f"subscription of {member_id}")
        elif group.needs_refresh:
            self.refresh(group, journal)
        return has_names_changed or change is not ExpressionChange.NONE

    def reconcile(
        self,
        group: ConsumerGroup,
        member_id: str,
        reported: Reported,
        journal: Journal,
        now_ms: int,
        *,
        has_changed: bool,
    ) -> CurrentAssignment:
        """The next step of the member. Raises: KafkaError."""
        current = group.current(member_id)
        if not has_changed and current.is_reconciled_to(group.target_epoch):
            return current
        subscription = group.subscriptions[member_id]
        owners = group.owners
        following = Reconciliation(
            group.target_epoch,
            group.target(member_id),
            self._topics.ids_of(group.topics_of(subscription)),
            has_changed,
            reported,
            lambda topic_id, partition: owners.get(topic_id, {}).get(partition, member_id) == member_id,
        ).step(current)
        if following == current:
            return current
        journal.put(group, EntryKey(EntryKind.CURRENT, group.group_id, member_id), following)
        if following.state is MemberState.UNREVOKED_PARTITIONS and subscription.classic is None:
            timer = RevocationTimer(group.group_id, member_id)
            journal.then(ScheduleTimer(timer, now_ms + subscription.rebalance_timeout_ms))
        return following

    # --- epochs ----------------------------------------------------------------------------------------------------

    def bump_epoch(self, group: ConsumerGroup, journal: Journal, why: str) -> None:
        """Give the group a new epoch, for which a target has to be computed."""
        self._epochs.bump(group, journal, why)
        self._refreshed(group, journal)

    def refresh(self, group: ConsumerGroup, journal: Journal) -> None:
        """Give the group a new epoch if its topics have changed."""
        self._epochs.refresh(group, journal)
        self._refreshed(group, journal)

    def _refreshed(self, group: ConsumerGroup, journal: Journal) -> None:
        if group.has_partition_metadata:
            journal.put(group, EntryKey(EntryKind.PARTITION_METADATA, group.group_id), None)

    # --- leaving ---------------------------------------------------------------------------------------------------

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, journal: Journal, now_ms: int
    ) -> ConsumerGroupHeartbeatResponse:
        """Raises: KafkaError when there is no such member."""
        member_id, instance_id = request.member_id, request.instance_id
        if instance_id is not None:
            owner = check_instance_known(group.static_members.get(instance_id), instance_id)
            check_instance_owner(owner, member_id, instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                self._leave_for_a_while(group, member_id, journal)
                return heartbeat_response(member_id, STATIC_LEAVE_EPOCH)
        check_known(group, member_id)
        self.remove(group, [member_id], "left", journal, now_ms)
        return heartbeat_response(member_id, request.member_epoch)

    def _leave_for_a_while(self, group: ConsumerGroup, member_id: str, journal: Journal) -> None:
        current = group.current(member_id)
        kept = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in current.assigned.items()}
        away = replace(current, member_epoch=STATIC_LEAVE_EPOCH, assigned=kept, pending_revocation={})
        journal.put(group, EntryKey(EntryKind.CURRENT, group.group_id, member_id), away)

    def remove(
        self, group: ConsumerGroup, member_ids: Collection[str], why: str, journal: Journal, now_ms: int
    ) -> None:
        """Remove members; what they own is free, and the others get a new target, or have a classic group to themselves."""
        journal.then(MembersRemoved(group.group_id, tuple(member_ids), why))
        for member_id in member_ids:
            self._cancel_timers(group, member_id, journal, now_ms)
        if self._downgrade(group, member_ids, journal, now_ms):
            return
        for member_id in member_ids:
            self._remove_entries(group, member_id, journal)
        self._expressions.remove_unread(group, journal)
        self.bump_epoch(group, journal, "members removed")

    def _remove_entries(self, group: ConsumerGroup, member_id: str, journal: Journal) -> None:
        for kind in (EntryKind.CURRENT, EntryKind.TARGET, EntryKind.SUBSCRIPTION):
            journal.put(group, EntryKey(kind, group.group_id, member_id), None)

    # --- timers ----------------------------------------------------------------------------------------------------

    def on_session_timer(self, group: ConsumerGroup, member_id: str, journal: Journal, now_ms: int) -> None:
        if member_id in group.subscriptions:
            self.remove(group, [member_id], "session expired", journal, now_ms)

    def on_revocation_timer(self, group: ConsumerGroup, member_id: str, journal: Journal, now_ms: int) -> None:
        if group.current(member_id).state is MemberState.UNREVOKED_PARTITIONS:
            self.remove(group, [member_id], "did not give up partitions in time", journal, now_ms)

    def watch_loaded(self, group: ConsumerGroup, now_ms: int) -> Iterable[ScheduleTimer]:
        """The timers of the members of a group that was loaded: sessions begin anew."""
        for member_id in group.subscriptions:
            yield from self._timers(group, member_id, now_ms)

    def _timers(self, group: ConsumerGroup, member_id: str, now_ms: int) -> Iterable[ScheduleTimer]:
        """The timers of a member whose session begins now."""
        subscription = group.subscriptions[member_id]
        classic = subscription.classic
        timeout_ms = (
            self._configs.of(group.group_id).session_timeout_ms if classic is None else classic.session_timeout_ms
        )
        yield ScheduleTimer(ConsumerSessionTimer(group.group_id, member_id), now_ms + timeout_ms)
        if classic is None and group.current(member_id).state is MemberState.UNREVOKED_PARTITIONS:
            deadline_ms = now_ms + subscription.rebalance_timeout_ms
            yield ScheduleTimer(RevocationTimer(group.group_id, member_id), deadline_ms)

    def _cancel_timers(self, group: ConsumerGroup, member_id: str, journal: Journal, now_ms: int) -> None:
        for timer in (ConsumerSessionTimer, RevocationTimer, RejoinTimer, FetchAssignmentTimer):
            journal.then(CancelTimer(timer(group.group_id, member_id)))
        for effect in self._timers(group, member_id, now_ms):
            journal.if_refused(effect)


def _updated(subscription: Subscription, beat: ConsumerHeartbeat) -> Subscription:
    """What a heartbeat does not tell stays. One that comes this way is of the new protocol."""
    request = beat.request
    names = request.subscribed_topic_names
    regex, assignor, rack = request.subscribed_topic_regex, request.server_assignor, request.rack_id
    timeout_ms = request.rebalance_timeout_ms
    return Subscription(
        topic_names=subscription.topic_names if names is None else frozenset(names),
        topic_regex=subscription.topic_regex if regex is None else regex,
        instance_id=subscription.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id if rack is None else rack,
        client_id=beat.client_id,
        client_host=beat.client_host,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=subscription.server_assignor if assignor is None else assignor,
    )


def _reported(rows: list[TopicPartitions] | None) -> Reported:
    if rows is None:
        return None
    reported: dict[bytes, list[int]] = {}
    for row in rows:
        reported.setdefault(row.topic_id, []).extend(row.partitions)
    return reported


def _assignment(assigned: PartitionEpochs) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(assigned[topic_id])) for topic_id in sorted(assigned)
        ]
    )


def heartbeat_response(
    member_id: str, member_epoch: int, heartbeat_interval_ms: int = 0, assignment: Assignment | None = None
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        assignment=assignment,
    )


def heartbeat_error(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=error, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )
