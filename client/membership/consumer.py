"""A member of a consumer group (KIP-848): heartbeats, reconciliation, fencing, deadlines. Pure.

    OUT -> JOINING -> STABLE <-> REVOKING, until the application has let go
     ^                   |
     +--- all is lost ---+

The shell is that of `client.membership.classic`: it sends what `next` returns, tells what was answered, takes the events in
their order and calls `let_go` after each `Revoked`. It finds the names of `unnamed_topic_ids`, and tells them by `named`.

Rules: one heartbeat is under way at a time. The first of a membership says everything, the others only what is new; after
one that failed or was not answered everything is said again, as nobody knows what the broker has heard. An assignment is
the whole of what the member may have: what is not in it is let go of first, then what is new is taken, and the heartbeat
that follows at once names what is owned: only then does the broker give to others what was let go of. While the
application lets go heartbeats go on, so that it may commit. A member that is fenced or unknown has lost everything, and
joins again with epoch 0 and its old id as soon as the application knows. A member whose application has not asked for
records within `max_poll_interval_ms` leaves, and joins again when it asks. A static member that leaves keeps its
partitions until its session ends.
Source: KIP-848; Kafka AbstractMembershipManager, ConsumerMembershipManager, ConsumerHeartbeatRequestManager of 4.3.0;
librdkafka rdkafka_cgrp.c.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from client.committing import GroupMembership
from client.membership.contract import NOT_ASSIGNED, Assigned, MemberSettings, Phase, Revoked, TopicPattern
from client.membership.verdicts import MemberVerdict, verdict_on, verdict_on_consumer_commit
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.schema import Request
from protocol.topic_partition import TopicPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member goes, and will be back: its partitions stay its own."""

OwnedPartition = tuple[bytes, int]
"""Topic id and partition."""


class ConsumerMember:
    """`member_id` is new for each membership; `backoff_ms` returns the pause before an attempt, by how many there were."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        subscription: Sequence[str] | TopicPattern,
        settings: MemberSettings,
        backoff_ms: Callable[[int], int],
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.subscription = subscription if isinstance(subscription, TopicPattern) else tuple(sorted(subscription))
        self.settings = settings
        self.phase = Phase.OUT
        self.error: KafkaError | None = None
        self.complaint: KafkaError | None = None
        """What the application should hear, though the member goes on: it may not read a topic of its subscription."""
        self.events: deque[Assigned | Revoked] = deque()
        self.unnamed_topic_ids: set[bytes] = set()
        """Topics of the assignment whose names are not known; their partitions wait for them."""
        self.topic_ids: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._backoff_ms = backoff_ms
        self._epoch = JOIN_EPOCH
        self._target: frozenset[OwnedPartition] = frozenset()
        self._owned: frozenset[OwnedPartition] = frozenset()
        self._released: frozenset[OwnedPartition] = frozenset()
        """Of `_owned`: what the application is letting go of."""
        self._revocations_count = 0  # of which the application has not said that they are done
        self._told: frozenset[OwnedPartition] | None = (
            None  # what the broker has heard is owned; None: it may know nothing
        )
        self._beating: ConsumerGroupHeartbeatRequest | None = None
        self._attempts_count = 0
        self._not_before_ms = 0
        self._next_beat_ms = 0
        self._polled_ms: int | None = None

    @property
    def membership(self) -> GroupMembership:
        """Who commits: the member with its epoch."""
        return GroupMembership(
            self.group_id, self._epoch if self._epoch > JOIN_EPOCH else -1, self.member_id, self.settings.instance_id
        )

    def membership_for(
        self, partitions: Collection[TopicPartition], earlier: GroupMembership | None
    ) -> GroupMembership:
        """Return who commits offsets of partitions: the present epoch counts, for as long as they are owned. Raises
        KafkaError."""
        if not partitions or not set(partitions).issubset(self.partitions):
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH, NOT_ASSIGNED)
        return self.membership

    @property
    def partitions(self) -> list[TopicPartition]:
        """What the application may read and commit."""
        return self._named(self._owned)

    # --- the application ---

    def polled(self, now_ms: int) -> None:
        """The application asks for records."""
        self._polled_ms = now_ms
        if self.phase is Phase.IDLE:
            self.phase = Phase.OUT

    def let_go(self) -> None:
        """The application has let go of what the earliest `Revoked` named."""
        self._revocations_count = max(self._revocations_count - 1, 0)
        if self.phase is not Phase.REVOKING or self._revocations_count:
            return
        if self._epoch == JOIN_EPOCH:
            self.phase = Phase.OUT
            return
        self._owned -= self._released
        self._released = frozenset()
        self.phase = Phase.STABLE
        self._reconcile()

    def leave(self) -> ConsumerGroupHeartbeatRequest | None:
        """Return what tells the group that this member leaves; None for one that is not in it. Its partitions are lost."""
        epoch, self._epoch = self._epoch, JOIN_EPOCH
        is_in = epoch != JOIN_EPOCH or self._beating is not None  # a broker may have taken it in without its knowing
        self._beating = None
        self._lose()
        if self.phase is not Phase.FAILED:
            self.phase = Phase.IDLE
        if not is_in:
            return None
        is_static = self.settings.instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH,
            instance_id=self.settings.instance_id,
        )

    # --- the shell ---

    def named(self, names: Mapping[bytes, str]) -> None:
        """Learn names of topics."""
        self._names |= names
        self.topic_ids |= {name: topic_id for topic_id, name in names.items()}
        if self.phase is Phase.STABLE:
            self._reconcile()

    def next(self, now_ms: int) -> Request | None:
        """Return what is to be sent now; it is answered by `answered` or `unanswered`. One that leaves has no answer
        here."""
        if self._is_overdue(now_ms):
            request = self.leave()
            if request is not None:
                return request
        if self._beating is not None or now_ms < self._not_before_ms:
            return None
        match self.phase:
            case Phase.OUT:
                self.phase = Phase.JOINING
            case Phase.STABLE | Phase.REVOKING if self._epoch != JOIN_EPOCH:
                if now_ms < self._next_beat_ms and self._told == self._owned:
                    return None
            case _:
                return None
        self._beating = self._heartbeat()
        return self._beating

    def wakeup_ms(self, now_ms: int) -> int | None:
        """Return when to call `next` again, if nothing happens before."""
        times = []
        if self._beating is None and self.phase is Phase.OUT:
            times.append(self._not_before_ms)
        if self.phase in (Phase.STABLE, Phase.REVOKING):
            times += [self._next_beat_ms, self._not_before_ms]
            if self._polled_ms is not None:
                times.append(self._polled_ms + self.settings.max_poll_interval_ms + 1)
        return min((each for each in times if each > now_ms), default=None)

    def answered(self, request: Request, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> bool:
        """Take a response to what `next` returned; return whether the coordinator is to be looked for."""
        if self._beating is not request:
            return False  # given up meanwhile
        self._beating = None
        code = ErrorCode.of(response.error_code)
        verdict = verdict_on(ConsumerGroupHeartbeatRequest, code)
        match verdict:
            case MemberVerdict.DONE:
                self._on_heartbeat(response, now_ms)
            case MemberVerdict.LOST:
                self._epoch = JOIN_EPOCH
                self._lose()
                if self.phase is not Phase.REVOKING:
                    self.phase = Phase.OUT
                self._pause(now_ms)
            case MemberVerdict.REPEAT | MemberVerdict.FIND:
                if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    self.complaint = KafkaError(code, response.error_message or code.message)
                self._repeat(now_ms)
            case _:
                self._fail(KafkaError(code, response.error_message or code.message))
        return verdict is MemberVerdict.FIND

    def unanswered(self, request: Request, now_ms: int) -> bool:
        """No answer came; return whether the coordinator is to be looked for."""
        if self._beating is request:
            self._beating = None
            self._repeat(now_ms)
        return True

    def refused(self, error: KafkaError) -> None:
        """The coordinator does not know the request, or nobody tells who it is."""
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            error = KafkaError(
                error.code, f"{error.message}; group.protocol=classic is for clusters without consumer groups"
            )
        self._fail(error)

    def commit_answered(self, membership: GroupMembership, code: ErrorCode) -> MemberVerdict:
        """Take the answer to a commit of `membership`; return what it means. What has become of the member a heartbeat says,
        which goes at once."""
        verdict = verdict_on_consumer_commit(code)
        if code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID) and membership == self.membership:
            self._next_beat_ms = 0
        return verdict

    # --- inside ---

    def _is_overdue(self, now_ms: int) -> bool:
        if self.phase not in (Phase.STABLE, Phase.REVOKING) or self._epoch == JOIN_EPOCH or self._polled_ms is None:
            return False
        return now_ms - self._polled_ms > self.settings.max_poll_interval_ms

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            instance_id=self.settings.instance_id,
        )
        if self._told is None:
            request.rack_id = self.settings.rack_id
            request.rebalance_timeout_ms = self.settings.max_poll_interval_ms
            request.server_assignor = self.settings.server_assignor
            if isinstance(self.subscription, TopicPattern):
                request.subscribed_topic_regex = self.subscription.expression
            else:
                request.subscribed_topic_names = list(self.subscription)
        if self._told != self._owned:
            request.topic_partitions = _rows(self._owned)
        self._told = self._owned
        return request

    def _on_heartbeat(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        self._attempts_count = 0
        self._epoch = response.member_epoch
        self._next_beat_ms = now_ms + response.heartbeat_interval_ms
        if self.phase is Phase.JOINING:
            self.phase = Phase.STABLE
            if self._polled_ms is not None:
                self._polled_ms = now_ms
        if response.assignment is not None:
            self._target = _partitions(response.assignment)
            if self.phase is Phase.STABLE:
                self._reconcile()

    def _reconcile(self) -> None:
        """Let go of what the assignment has not, or else take what is new in it."""
        released = self._owned - self._target
        if released:
            self._released = released
            self._revoke(released, is_lost=False)
            return
        added = {each for each in self._target if each[0] in self._names} - self._owned
        self.unnamed_topic_ids = {topic_id for topic_id, _ in self._target} - self._names.keys()
        if added:
            self._owned |= added
            self.events.append(Assigned(self._named(added)))

    def _revoke(self, partitions: Iterable[OwnedPartition], *, is_lost: bool) -> None:
        self.phase = Phase.REVOKING
        self._revocations_count += 1
        self.events.append(Revoked(self._named(partitions), is_lost))

    def _lose(self) -> None:
        """All partitions belong to somebody else, or soon do. The application learns it if it has any, or is asked to let
        go."""
        lost = self._owned - self._released if self.phase is Phase.REVOKING else self._owned
        if lost:
            self._revoke(lost, is_lost=True)
        self._owned = self._released = self._target = frozenset()
        self.unnamed_topic_ids = set()
        self._told = None

    def _fail(self, error: KafkaError) -> None:
        self._epoch = JOIN_EPOCH
        self._lose()
        self.phase, self.error = Phase.FAILED, error

    def _repeat(self, now_ms: int) -> None:
        """Say everything again, after a pause."""
        self._told = None
        if self.phase is Phase.JOINING:
            self.phase = Phase.OUT
        self._pause(now_ms)
        self._next_beat_ms = self._not_before_ms

    def _pause(self, now_ms: int) -> None:
        self._not_before_ms = now_ms + self._backoff_ms(self._attempts_count)
        self._attempts_count += 1

    def _named(self, partitions: Iterable[OwnedPartition]) -> list[TopicPartition]:
        return sorted((self._names[topic_id], partition) for topic_id, partition in partitions)


def _partitions(assignment: Assignment) -> frozenset[OwnedPartition]:
    return frozenset((row.topic_id, each) for row in assignment.topic_partitions for each in row.partitions)


def _rows(partitions: Iterable[OwnedPartition]) -> list[TopicPartitions]:
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=topic_id, partitions=each) for topic_id, each in found.items()]
