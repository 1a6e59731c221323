"""How a group with members moves from one protocol to the other, and back.

    classic -> consumer   the first member of the new protocol joins: the others stay, as members of the classic protocol in a
                          consumer group, with what they own; the group's generation becomes its epoch
    consumer -> classic   the last member of the new protocol goes: the others have the classic group to themselves, with their
                          part of the target; they rebalance

`group.consumer.migration.policy` says which of the two is allowed.

Rules: no IO. Either is a part of an operation and is taken back with it: the group before is put back, and parked requests are
answered so that their members join again. The records of the group before are removed with tombstones, its offsets stay.
Source: Kafka GroupMetadataManager.validateOnlineUpgrade, convertToConsumerGroup, validateOnlineDowngradeWithFencedMembers,
validateOnlineDowngradeWithReplacedMember, convertToClassicGroup; fromClassicGroup, fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from coordinator.group.assigned.entries import EntryKey, EntryKind, GroupEpoch, Target, TargetEpoch
from coordinator.group.assigned.journal import Journal
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.member import Member
from coordinator.group.classic.rebalance import JoinTimer, Rebalance, SessionTimer, SyncTimer
from coordinator.group.classic.waiting_requests import refuse_waiting
from coordinator.group.consumer.embedded_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    CustomAssignorError,
    read_assignment,
    read_subscription,
    write_assignment,
)
from coordinator.group.consumer.entries import ConsumerEntry
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ClassicPart, CurrentAssignment, MemberState, Subscription
from coordinator.group.consumer.membership import ConsumerSessionTimer, RevocationTimer
from coordinator.group.consumer.timers import FetchAssignmentTimer, RejoinTimer
from coordinator.group.events import GroupConverted, RebalanceReason
from coordinator.group.groups import Groups, remove_entries
from coordinator.group.records import group_tombstone, read_group_value
from coordinator.group.settings import GroupSettings
from coordinator.runtime.contract import CancelTimer, Outbox, ScheduleTimer
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import DecodeError


class Conversion:
    """Of the groups of a shard."""

    def __init__(
        self,
        groups: Groups,
        rebalance: Rebalance,
        settings: GroupSettings,
        configs: GroupConfigs,
        topics: GroupTopics,
        outbox: Outbox,
    ) -> None:
        self._groups = groups
        self._rebalance = rebalance
        self._settings = settings
        self._configs = configs
        self._topics = topics
        self._outbox = outbox

    # --- classic -> consumer ---------------------------------------------------------------------------------------

    def upgraded(self, classic: ClassicGroup, journal: Journal, now_ms: int) -> ConsumerGroup:
        """The consumer group that a classic group with members becomes. Raises: KafkaError (GROUP_ID_NOT_FOUND)."""
        self._check_upgrade(classic)
        protocol_name = classic.protocol_name or classic.select_protocol()
        subscriptions = {
            member.member_id: self._subscription(classic, member, protocol_name) for member in classic.members.values()
        }
        taken: dict[bytes, set[int]] = {}
        targets = {member.member_id: self._owned(classic, member, taken) for member in classic.members.values()}
        self._dismiss(classic, journal, now_ms)
        journal.note(group_tombstone(classic.group_id), lambda: self._groups.put_back(classic))
        group = self._groups.make_consumer(classic.group_id)
        epoch = max(classic.generation_id, 1)  # before its first generation, too: 0 is no epoch of a member
        for kind, name, entry in _entries(epoch, subscriptions, targets):
            if kind is EntryKind.GROUP_EPOCH:
                entry = GroupEpoch(epoch, self._topics.hash_of(group.subscribed_topics()))
            journal.put(group, EntryKey(kind, group.group_id, name), entry)
        group.needs_refresh = False
        for member in classic.members.values():
            timer = ConsumerSessionTimer(group.group_id, member.member_id)
            journal.then(ScheduleTimer(timer, now_ms + member.session_timeout_ms))
        journal.then(GroupConverted(group.group_id, "consumer", epoch, len(subscriptions)))
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        settings = self._configs.settings
        if not settings.migration_policy.allows_upgrade:
            raise _not_upgraded(classic, "because online upgrade is disabled.")
        if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise _not_upgraded(classic, "because the group does not use the consumer embedded protocol.")
        if len(classic.members) > settings.max_size:
            raise _not_upgraded(classic, "because the group size exceeds the consumer group maximum size.")

    def _subscription(self, classic: ClassicGroup, member: Member, protocol_name: str) -> Subscription:
        try:
            found = read_subscription(member.metadata(protocol_name))
        except DecodeError:
            raise _malformed(classic) from None
        return Subscription(
            topic_names=frozenset(found.topics),
            instance_id=member.group_instance_id,
            rack_id=found.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicPart(member.session_timeout_ms, member.protocols),
        )

    def _owned(self, classic: ClassicGroup, member: Member, taken: dict[bytes, set[int]]) -> Target:
        """What the leader has given the member, as far as it exists and is not `taken` by one before: leaders may err."""
        try:
            given = read_assignment(member.assignment, self._topics)
        except DecodeError:
            raise _malformed(classic) from None
        except CustomAssignorError:
            raise _not_upgraded(
                classic,
                "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade.",
            ) from None
        owned = {}
        for topic_id, partitions in given.items():
            of_topic = taken.setdefault(topic_id, set())
            count = self._topics.partitions_count(topic_id)
            own = frozenset(partition for partition in partitions if 0 <= partition < count) - of_topic
            of_topic |= own
            if own:
                owned[topic_id] = own
        return Target(owned)

    def _dismiss(self, classic: ClassicGroup, journal: Journal, now_ms: int) -> None:
        """The members' parked requests are answered, so that they join again; timers go when the operation is done."""
        refuse_waiting(classic, ErrorCode.REBALANCE_IN_PROGRESS, self._outbox)
        keys = [JoinTimer(classic.group_id), SyncTimer(classic.group_id)]
        sessions = [SessionTimer(classic.group_id, each) for each in [*classic.members, *classic.pending_members]]
        for key in [*keys, *sessions]:
            journal.then(CancelTimer(key))
        journal.then_undo(lambda: self._watch_again(classic, now_ms))

    def _watch_again(self, classic: ClassicGroup, now_ms: int) -> None:
        """The upgrade was taken back: what the group waited for, it waits for again."""
        for member in classic.members.values():
            self._rebalance.extend_session(classic, member, now_ms)
        for member_id in classic.pending_members:
            self._rebalance.watch_pending_member(classic, member_id, now_ms + self._settings.max_session_timeout_ms)
        deadline_ms = now_ms + classic.rebalance_timeout_ms
        if classic.state is GroupState.PREPARING_REBALANCE:
            self._outbox.put(ScheduleTimer(JoinTimer(classic.group_id), deadline_ms))
        elif classic.state is GroupState.COMPLETING_REBALANCE:
            self._outbox.put(ScheduleTimer(SyncTimer(classic.group_id), deadline_ms))

    # --- consumer -> classic ---------------------------------------------------------------------------------------

    def downgrade_without(self, group: ConsumerGroup, leaving: Collection[str], journal: Journal, now_ms: int) -> bool:
        """Make a classic group of those that are left when `leaving` go; not when other members of the new protocol stay, or
        nobody does, or it is not allowed."""
        gone = set(leaving).intersection(group.subscriptions)
        newer_gone = sum(group.subscriptions[each].classic is None for each in gone)
        if newer_gone < len(group.subscriptions) - group.classic_members_count:
            return False  # as nearly always, and without looking at every member
        staying = [member_id for member_id in group.subscriptions if member_id not in gone]
        if not staying:
            return False
        if not self._may_downgrade(len(staying)):
            return False
        classic = self._downgraded(group, staying, journal, now_ms)
        self._rebalance.prepare(classic, RebalanceReason.GROUP_CONVERTED, tuple(leaving), "downgrade", now_ms)
        return True

    def is_downgraded_by(self, group: ConsumerGroup, replaced_id: str) -> bool:
        """Whether the group becomes a classic one when a member of the classic protocol takes the place of `replaced_id`, a
        static member and the only one of the new protocol."""
        return (
            group.subscriptions[replaced_id].classic is None
            and group.classic_members_count == len(group.subscriptions) - 1
            and self._may_downgrade(len(group.subscriptions))
        )

    def downgrade(self, group: ConsumerGroup, journal: Journal, now_ms: int, *, rebalances: bool) -> None:
        """Make a classic group of all members, which use the classic protocol."""
        classic = self._downgraded(group, list(group.subscriptions), journal, now_ms)
        if rebalances:
            self._rebalance.prepare(classic, RebalanceReason.GROUP_CONVERTED, (), "downgrade", now_ms)

    def _may_downgrade(self, members_count: int) -> bool:
        return self._configs.settings.migration_policy.allows_downgrade and members_count <= self._settings.max_size

    def _downgraded(
        self, group: ConsumerGroup, member_ids: Collection[str], journal: Journal, now_ms: int
    ) -> ClassicGroup:
        members = [_classic_member(member_id, group.subscriptions[member_id]) for member_id in member_ids]
        shares = {member_id: group.target(member_id) for member_id in member_ids}
        epoch, before = group.epoch, dict(group.subscriptions)
        for member_id, subscription in before.items():
            if subscription.classic is not None:
                deadline_ms = now_ms + subscription.classic.session_timeout_ms
                journal.if_refused(ScheduleTimer(ConsumerSessionTimer(group.group_id, member_id), deadline_ms))
            for timer in (ConsumerSessionTimer, RevocationTimer, RejoinTimer, FetchAssignmentTimer):
                journal.then(CancelTimer(timer(group.group_id, member_id)))
        remove_entries(group, journal)
        classic = self._groups.make_classic(group.group_id, now_ms)
        classic.take_over(members, epoch, now_ms)
        assert classic.protocol_name is not None
        for member in members:
            metadata = member.metadata(classic.protocol_name)
            member.assignment = write_assignment(shares[member.member_id], self._topics, metadata)
            self._rebalance.extend_session(classic, member, now_ms)
        record = self._rebalance.record_of(classic, {each.member_id: each.assignment for each in members})
        assert record.value is not None
        classic.stored = read_group_value(record.value)
        journal.note(record, lambda: self._take_back(group, classic, before, now_ms))
        journal.then(GroupConverted(group.group_id, "classic", epoch, len(members)))
        return classic

    def _take_back(
        self, group: ConsumerGroup, classic: ClassicGroup, members: Mapping[str, Subscription], now_ms: int
    ) -> None:
        """The downgrade was taken back, `members` are there again. Who joined the classic group meanwhile joins again."""
        refuse_waiting(classic, ErrorCode.REBALANCE_IN_PROGRESS, self._outbox)
        for member_id in classic.members:
            self._rebalance.unwatch(classic, member_id)
        self._outbox.put(CancelTimer(JoinTimer(classic.group_id)))
        self._outbox.put(CancelTimer(SyncTimer(classic.group_id)))
        self._groups.put_back(group)
        session_timeout_ms = self._configs.of(group.group_id).session_timeout_ms
        for member_id, subscription in members.items():
            part = subscription.classic
            deadline_ms = now_ms + (session_timeout_ms if part is None else part.session_timeout_ms)
            self._outbox.put(ScheduleTimer(ConsumerSessionTimer(group.group_id, member_id), deadline_ms))


def _entries(
    epoch: int, subscriptions: dict[str, Subscription], targets: dict[str, Target]
) -> Iterator[tuple[EntryKind, str, ConsumerEntry]]:
    """In the order in which Apache Kafka writes them."""
    for member_id, subscription in subscriptions.items():
        yield EntryKind.SUBSCRIPTION, member_id, subscription
    yield EntryKind.GROUP_EPOCH, "", GroupEpoch(epoch, 0)
    for member_id, target in targets.items():
        yield EntryKind.TARGET, member_id, target
    yield EntryKind.TARGET_EPOCH, "", TargetEpoch(epoch, 0)
    for member_id, target in targets.items():
        assigned = {topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in target.partitions.items()}
        yield EntryKind.CURRENT, member_id, CurrentAssignment(epoch, epoch, MemberState.STABLE, assigned, {})


def _classic_member(member_id: str, subscription: Subscription) -> Member:
    assert subscription.classic is not None
    return Member(
        member_id=member_id,
        group_instance_id=subscription.instance_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        session_timeout_ms=subscription.classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=subscription.classic.protocols,
    )


def _not_upgraded(classic: ClassicGroup, why: str) -> KafkaError:
    text = f"Cannot upgrade classic group {classic.group_id} to consumer group {why}"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _malformed(classic: ClassicGroup) -> KafkaError:
    return _not_upgraded(classic, "because the embedded consumer protocol is malformed.")
