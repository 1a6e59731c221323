"""Members of the classic protocol in a consumer group: they join, synchronise, heartbeat and leave as in a classic group.

    JoinGroup   tells what the member reads and owns; its generation is its epoch, and nobody leads
    SyncGroup   gets what the member owns
    Heartbeat   tells the member to join again: for a newer target, to give up partitions, or to get those that became free
    LeaveGroup  removes members, also those of the new protocol

A member takes one step towards its target with each JoinGroup, whose subscription says what it still owns. It reads one epoch
behind until then, so the group does not stop for it.

Rules: no IO. Every change goes through the journal. Texts of errors are for logs: these APIs have none in their responses.
Invariant: the rejoin timer of a member runs from the time at which it is told to join again until it does; the other one from
its JoinGroup to its SyncGroup.
Source: Kafka GroupMetadataManager.classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroupHeartbeatToConsumerGroup, classicGroupLeaveToConsumerGroup.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from coordinator.group.assigned.journal import Journal
from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.targets import Targets
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.assigned.validation import check_known, check_room
from coordinator.group.classic.member_join import Join
from coordinator.group.classic.responses import UNKNOWN_MEMBER_ID, join_error
from coordinator.group.consumer.embedded_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    by_id,
    read_subscription,
    write_assignment,
)
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import (
    NO_SUBSCRIPTION,
    ClassicPart,
    CurrentAssignment,
    MemberState,
    Subscription,
)
from coordinator.group.consumer.membership import ConsumerMembership, ConsumerSessionTimer
from coordinator.group.consumer.timers import FetchAssignmentTimer, RejoinTimer
from coordinator.group.consumer.validation import check_instance_known, check_instance_owner
from coordinator.group.conversion import Conversion
from coordinator.group.events import AssignedMemberJoined
from coordinator.runtime.contract import CancelTimer, ScheduleTimer
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.primitives import DecodeError, uuid_to_text
from protocol.stored.consumer_protocol import ConsumerProtocolSubscription


@dataclass(frozen=True, slots=True)
class Leaving:
    """The members that leave, and the response about each member that was named."""

    member_ids: list[str]
    responses: list[MemberResponse]


class ClassicMembers:
    """Of the consumer groups of a shard."""

    def __init__(
        self,
        configs: GroupConfigs,
        topics: GroupTopics,
        targets: Targets[ConsumerGroup],
        membership: ConsumerMembership,
        conversion: Conversion,
    ) -> None:
        self._configs = configs
        self._topics = topics
        self._targets = targets
        self._membership = membership
        self._conversion = conversion

    # --- JoinGroup -------------------------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, join: Join, journal: Journal, now_ms: int) -> JoinGroupResponse:
        """Raises: KafkaError."""
        request = join.request
        check_room(group, request.member_id, self._configs.settings.max_size)
        member_id = request.member_id or uuid_to_text(uuid.UUID(join.unique).bytes)  # as members of the new protocol
        _check_protocols(group, member_id, join)
        if join.needs_member_id and request.member_id == UNKNOWN_MEMBER_ID:
            return join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED)
        subscription = _read_subscription(join)
        replaced_id = group.static_members.get(request.group_instance_id or "")
        downgrades = replaced_id is not None and self._conversion.is_downgraded_by(group, replaced_id)
        self._admit(group, join, member_id, journal)
        after = _updated(group.subscriptions.get(member_id, NO_SUBSCRIPTION), join, subscription)
        has_changed = self._membership.update_subscription(group, member_id, after, journal)
        reported = by_id(subscription.owned_partitions, self._topics)
        if downgrades:
            is_stale = group.target_epoch < group.epoch
            current = group.current(member_id)
            if not is_stale:
                current = self._membership.reconcile(
                    group, member_id, reported, journal, now_ms, has_changed=has_changed
                )
            self._conversion.downgrade(group, journal, now_ms, rebalances=is_stale)
        else:
            self._targets.update(group, journal, now_ms)
            current = self._membership.reconcile(group, member_id, reported, journal, now_ms, has_changed=has_changed)
            self._joined(group, member_id, join, journal, now_ms)
        return JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=current.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=join.protocols[0][0],
            leader="",
            member_id=member_id,
            members=[],
        )

    def _admit(self, group: ConsumerGroup, join: Join, member_id: str, journal: Journal) -> None:
        """Check the member, or make it one; a static one takes the place of the one before. Raises: KafkaError."""
        instance_id = join.request.group_instance_id
        owner = None if instance_id is None else group.static_members.get(instance_id)
        if instance_id is not None and join.request.member_id != UNKNOWN_MEMBER_ID:
            check_instance_owner(check_instance_known(owner, instance_id), member_id, instance_id)
            return
        if owner is not None:
            self._membership.replace_static(group, owner, member_id, journal)
        if member_id not in group.subscriptions or owner is not None:
            journal.then(AssignedMemberJoined(group.group_id, member_id, instance_id, owner))

    def _joined(self, group: ConsumerGroup, member_id: str, join: Join, journal: Journal, now_ms: int) -> None:
        group.told_to_rejoin.discard(member_id)
        journal.then(CancelTimer(RejoinTimer(group.group_id, member_id)))
        self._watch_session(group, member_id, journal, now_ms)
        timer = FetchAssignmentTimer(group.group_id, member_id)
        journal.then(ScheduleTimer(timer, now_ms + join.rebalance_timeout_ms))

    # --- SyncGroup -------------------------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, journal: Journal, now_ms: int) -> SyncGroupResponse:
        """Raises: KafkaError."""
        member_id = self._check_member(group, request.member_id, request.group_instance_id, request.generation_id)
        classic = _classic(group, member_id)
        protocol_name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (
            None,
            protocol_name,
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id} names another protocol.")
        current = group.current(member_id)
        if group.target_epoch > current.member_epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._tell_to_rejoin(group, member_id, journal, now_ms)
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"A new rebalance is triggered in group {group.group_id} and member {member_id} should rejoin to catch up.",
            )
        journal.then(CancelTimer(FetchAssignmentTimer(group.group_id, member_id)))
        self._watch_session(group, member_id, journal, now_ms)
        return SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(current.assigned, self._topics, metadata),
        )

    # --- Heartbeat -------------------------------------------------------------------------------------------------

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, journal: Journal, now_ms: int) -> ErrorCode:
        """Raises: KafkaError."""
        member_id = self._check_member(group, request.member_id, request.group_instance_id, request.generation_id)
        self._watch_session(group, member_id, journal, now_ms)
        if group.classic_members_count == len(group.subscriptions):
            # Nobody else sends heartbeats with which the target would be computed. (Apache Kafka waits for a JoinGroup.)
            if group.needs_refresh:
                self._membership.refresh(group, journal)
            self._targets.update(group, journal, now_ms)
        current = group.current(member_id)
        must_rejoin = (
            current.member_epoch < group.target_epoch
            or current.state is MemberState.UNREVOKED_PARTITIONS
            or (current.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member_id, current))
        )
        if not must_rejoin:
            return ErrorCode.NONE
        self._tell_to_rejoin(group, member_id, journal, now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS

    # --- LeaveGroup ------------------------------------------------------------------------------------------------

    def leaving(self, group: ConsumerGroup, identities: list[MemberIdentity]) -> Leaving:
        """Who of `identities` may leave: an administrator names static members by their instance id alone."""
        found = Leaving([], [])
        for identity in identities:
            error = ErrorCode.NONE
            try:
                member_id = _identified(group, identity)
                if member_id not in found.member_ids:
                    found.member_ids.append(member_id)
            except KafkaError as refused:
                error = refused.code
            found.responses.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        return found

    # --- timers ----------------------------------------------------------------------------------------------------

    def on_timer(self, group: ConsumerGroup, key: RejoinTimer | FetchAssignmentTimer) -> str | None:
        """Why the member is removed; None when it need not be."""
        if isinstance(key, RejoinTimer):
            group.told_to_rejoin.discard(key.member_id)
        subscription = group.subscriptions.get(key.member_id)
        if subscription is None or subscription.classic is None:
            return None
        return "did not rejoin in time" if isinstance(key, RejoinTimer) else "did not synchronise in time"

    def _tell_to_rejoin(self, group: ConsumerGroup, member_id: str, journal: Journal, now_ms: int) -> None:
        if member_id not in group.told_to_rejoin:
            group.told_to_rejoin.add(member_id)
            timer = RejoinTimer(group.group_id, member_id)
            journal.then(ScheduleTimer(timer, now_ms + group.subscriptions[member_id].rebalance_timeout_ms))

    def _watch_session(self, group: ConsumerGroup, member_id: str, journal: Journal, now_ms: int) -> None:
        timeout_ms = _classic(group, member_id).session_timeout_ms
        journal.then(ScheduleTimer(ConsumerSessionTimer(group.group_id, member_id), now_ms + timeout_ms))

    def _check_member(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int) -> str:
        """The id of a member that uses the classic protocol, in its epoch. Raises: KafkaError."""
        if instance_id is None:
            check_known(group, member_id)
        else:
            check_instance_owner(
                check_instance_known(group.static_members.get(instance_id), instance_id), member_id, instance_id
            )
        if group.subscriptions[member_id].classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        epoch = group.current(member_id).member_epoch
        if generation_id != epoch:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                f"The request generation id {generation_id} is not equal to the member epoch {epoch} of member {member_id}.",
            )
        return member_id


def _check_protocols(group: ConsumerGroup, member_id: str, join: Join) -> None:
    """All members of the classic protocol have to have one assignor in common, although none is asked.

    Raises: KafkaError (INCONSISTENT_GROUP_PROTOCOL).
    """
    count = group.classic_members_count
    is_supported = any(group.classic_protocols[name] == count for name, _ in join.protocols)
    if join.request.protocol_type != CONSUMER_PROTOCOL_TYPE or not is_supported:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")


def _read_subscription(join: Join) -> ConsumerProtocolSubscription:
    """Raises: KafkaError (INCONSISTENT_GROUP_PROTOCOL)."""
    try:
        return read_subscription(join.protocols[0][1])
    except DecodeError:
        text = "Malformed embedded consumer protocol in subscription deserialization."
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text) from None


def _updated(before: Subscription, join: Join, found: ConsumerProtocolSubscription) -> Subscription:
    return Subscription(
        topic_names=frozenset(found.topics),
        instance_id=join.request.group_instance_id or before.instance_id,
        rack_id=found.rack_id or before.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        server_assignor=before.server_assignor,
        classic=ClassicPart(join.request.session_timeout_ms, join.protocols),
    )


def _waits(group: ConsumerGroup, member_id: str, current: CurrentAssignment) -> bool:
    """Whether somebody owns a partition that the member shall own and does not."""
    return any(
        partition in group.owners.get(topic_id, {}) and partition not in current.assigned.get(topic_id, {})
        for topic_id, partitions in group.target(member_id).items()
        for partition in partitions
    )


def _identified(group: ConsumerGroup, identity: MemberIdentity) -> str:
    """Raises: KafkaError (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID)."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        check_known(group, identity.member_id)
        return identity.member_id
    owner = check_instance_known(group.static_members.get(instance_id), instance_id)
    if identity.member_id != UNKNOWN_MEMBER_ID:
        check_instance_owner(owner, identity.member_id, instance_id)
    return owner


def _classic(group: ConsumerGroup, member_id: str) -> ClassicPart:
    classic = group.subscriptions[member_id].classic
    assert classic is not None
    return classic
