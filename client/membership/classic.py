"""A member of a classic group: joining, syncing, heartbeats, revocation, deadlines. Pure.

    OUT -> JOINING -> (ASSIGNING, the leader alone) -> SYNCING -> STABLE
     ^                                                              |
     +---- REVOKING, until the application has let go <------------+

The shell sends what `next` returns and tells what was answered. It takes the events in their order: `Assigned`, `Revoked`,
after which it calls `let_go`.

Rules: a member joins again only when the application has let go of its partitions (eager rebalancing); until then it goes on
with its heartbeats, so that it may commit. Partitions that are lost are given by then to somebody else: nothing may be
committed. An answer to a request of an earlier generation says nothing of this one. A dynamic member whose application has
not asked for records within `max_poll_interval_ms` leaves, and joins again when it asks; a static one stays until its session
ends.
Source: KIP-62 (deadlines), KIP-345 (static members), KIP-394 (member id first); Kafka AbstractCoordinator, ConsumerCoordinator,
Heartbeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from client.committing import GroupMembership
from client.membership.assignors import (
    ASSIGNORS,
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from client.membership.contract import NOT_ASSIGNED, Assigned, MemberSettings, Phase, Revoked
from client.membership.verdicts import MemberVerdict, verdict_on
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.primitives import DecodeError
from protocol.schema import Request
from protocol.topic_partition import TopicPartition

_ENDS_GENERATION: Final = (MemberVerdict.REJOIN, MemberVerdict.LOST, MemberVerdict.UNKNOWN, MemberVerdict.FATAL)


class ClassicMember:
    """`backoff_ms` returns the pause before an attempt, by how many there were."""

    def __init__(
        self, group_id: str, topics: Sequence[str], settings: MemberSettings, backoff_ms: Callable[[int], int]
    ) -> None:
        self.group_id = group_id
        self.topics = tuple(topics)
        self.settings = settings
        self.phase = Phase.OUT
        self.partitions: list[TopicPartition] = []
        """What the application may read and commit."""
        self.error: KafkaError | None = None
        self.events: deque[Assigned | Revoked] = deque()
        self.wanted_topics: set[str] = set()
        """While it assigns: the topics whose numbers of partitions it needs."""
        self.is_leader = False
        self._backoff_ms = backoff_ms
        self._member_id = ""
        self._generation_id = -1
        self._protocol_name: str | None = None
        self._joined: JoinGroupResponse | None = None
        self._assignment: dict[str, bytes] = {}
        self._asking: Request | None = None  # JoinGroup or SyncGroup
        self._beating: HeartbeatRequest | None = None
        self._attempts_count = 0
        self._not_before_ms = 0
        self._next_beat_ms = 0
        self._polled_ms: int | None = None

    @property
    def membership(self) -> GroupMembership:
        """Who commits: the member with its generation."""
        return GroupMembership(self.group_id, self._generation_id, self._member_id, self.settings.instance_id)

    def membership_for(
        self, partitions: Collection[TopicPartition], earlier: GroupMembership | None
    ) -> GroupMembership:
        """Return who commits offsets of partitions; `earlier` is who tried before, if anybody did. Raises KafkaError."""
        if earlier is not None:
            return earlier
        if not self.partitions or not set(partitions).issubset(self.partitions):
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, NOT_ASSIGNED)
        return self.membership

    # --- the application ---

    def polled(self, now_ms: int) -> None:
        """The application asks for records."""
        self._polled_ms = now_ms
        if self.phase is Phase.IDLE:
            self.phase = Phase.OUT

    def let_go(self) -> None:
        """The application has let go of what was revoked."""
        if self.phase is Phase.REVOKING:
            self.phase, self.partitions = Phase.OUT, []

    def rejoin(self) -> None:
        """Have the group rebalance: a topic has other partitions than those that were assigned."""
        if self.phase is Phase.STABLE:
            self._revoke(is_lost=False)

    def assign(self, counts: Mapping[str, int]) -> None:
        """Assign the partitions of a generation that this member leads. Topics that do not exist are not in `counts`."""
        assert self.phase is Phase.ASSIGNING and self._joined is not None
        joined, self._joined = self._joined, None
        subscribers = []
        for each in joined.members:
            try:
                subscribers.append(decode_subscription(each.member_id, each.group_instance_id, each.metadata))
            except DecodeError:
                continue  # it gets nothing, as it has asked for nothing that can be read
        given = ASSIGNORS[self._protocol_name or ""](subscribers, counts)
        self._assignment = {member_id: encode_assignment(partitions) for member_id, partitions in given.items()}
        self.phase = Phase.SYNCING

    def leave(self, reason: str) -> LeaveGroupRequest | None:
        """Return what tells the group that this member leaves; None for a static member, and for one that is not in it. Its
        partitions are lost."""
        self._lose()
        if self.phase is not Phase.FAILED:
            self.phase = Phase.IDLE
        member_id, self._member_id, self._generation_id = self._member_id, "", -1
        self._asking = None
        if not member_id or self.settings.instance_id is not None:
            return None
        return LeaveGroupRequest(group_id=self.group_id, members=[MemberIdentity(member_id=member_id, reason=reason)])

    # --- requests ---

    def next(self, now_ms: int) -> Request | None:
        """Return what is to be sent now; it is answered by `answered` or `unanswered`. A LeaveGroup has no answer here."""
        if self._is_overdue(now_ms):
            request = self.leave("the application did not ask for records in time")
            if request is not None:
                return request
        if self._asking is None and now_ms >= self._not_before_ms:
            if self.phase is Phase.OUT:
                self.phase = Phase.JOINING
                self._asking = self._join()
                return self._asking
            if self.phase is Phase.SYNCING:
                self._asking = self._sync()
                return self._asking
        if self.phase in (Phase.STABLE, Phase.REVOKING) and self._beating is None and now_ms >= self._next_beat_ms:
            if self._generation_id < 0:
                return None
            self._next_beat_ms = now_ms + self.settings.heartbeat_interval_ms
            self._beating = HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self._generation_id,
                member_id=self._member_id,
                group_instance_id=self.settings.instance_id,
            )
            return self._beating
        return None

    def wakeup_ms(self, now_ms: int) -> int | None:
        """Return when to call `next` again, if nothing happens before."""
        times = []
        if self._asking is None and self.phase in (Phase.OUT, Phase.SYNCING):
            times.append(self._not_before_ms)
        if self.phase in (Phase.STABLE, Phase.REVOKING):
            times.append(self._next_beat_ms)
            if self._polled_ms is not None:
                times.append(self._polled_ms + self.settings.max_poll_interval_ms + 1)
        return min((each for each in times if each > now_ms), default=None)

    def answered(self, request: Request, response: object, now_ms: int) -> bool:
        """Take a response to what `next` returned; return whether the coordinator is to be looked for."""
        code = ErrorCode.of(getattr(response, "error_code"))  # noqa: B009
        verdict = verdict_on(type(request), code)
        match response:
            case HeartbeatResponse():
                is_present = self._beating is request and self._is_present(request)
                self._beating = None if self._beating is request else self._beating
                if not is_present:
                    return verdict is MemberVerdict.FIND
            case _:
                if self._asking is not request:
                    return False  # given up meanwhile
                self._asking = None
                if verdict is MemberVerdict.DONE:
                    self._attempts_count = 0
                    self._on_step(response, now_ms)
                    return False
                if verdict is MemberVerdict.TAKE_ID:
                    assert isinstance(response, JoinGroupResponse)
                    self._member_id = response.member_id
                    self.phase = Phase.OUT
                    return False
        return self._on_error(verdict, code, now_ms, is_heartbeat=isinstance(response, HeartbeatResponse))

    def unanswered(self, request: Request, now_ms: int) -> bool:
        """No answer came; return whether the coordinator is to be looked for."""
        if self._beating is request:
            self._beating = None
            self._next_beat_ms = min(self._next_beat_ms, now_ms + self._backoff_ms(1))
        elif self._asking is request:
            self._asking = None
            self._pause(now_ms)
            self.phase = Phase.OUT
        return True

    def refused(self, error: KafkaError) -> None:
        """The coordinator does not know a request, or nobody tells who it is."""
        self._fail(error)

    def commit_answered(self, membership: GroupMembership, code: ErrorCode) -> MemberVerdict:
        """Take the answer to a commit of `membership`; return what it means."""
        verdict = verdict_on(OffsetCommitRequest, code)
        if membership == self.membership and verdict in _ENDS_GENERATION:
            self._on_error(verdict, code, 0, is_heartbeat=True)
        return verdict

    # --- inside ---

    def _is_present(self, request: Request) -> bool:
        assert isinstance(request, HeartbeatRequest)
        return (request.generation_id, request.member_id) == (self._generation_id, self._member_id)

    def _is_overdue(self, now_ms: int) -> bool:
        if self.phase is not Phase.STABLE or self._polled_ms is None:
            return False
        return now_ms - self._polled_ms > self.settings.max_poll_interval_ms

    def _join(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.settings.session_timeout_ms,
            rebalance_timeout_ms=self.settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=encode_subscription(self.topics))
                for name in self.settings.assignors
            ],
        )

    def _sync(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=content)
                for member_id, content in self._assignment.items()
            ],
        )

    def _on_step(self, response: object, now_ms: int) -> None:
        if isinstance(response, JoinGroupResponse):
            self._member_id, self._generation_id = response.member_id, response.generation_id
            self._protocol_name = response.protocol_name
            self._assignment = {}
            self.is_leader = response.leader == response.member_id
            self.phase = Phase.SYNCING
            if self.is_leader and not response.skip_assignment:
                self.phase, self._joined = Phase.ASSIGNING, response
                self.wanted_topics = self._topics_of(response)
            return
        assert isinstance(response, SyncGroupResponse)
        try:
            self.partitions = decode_assignment(response.assignment)
        except DecodeError as error:
            self._fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the assignment cannot be read: {error}"))
            return
        self.phase = Phase.STABLE
        self._next_beat_ms = now_ms + self.settings.heartbeat_interval_ms
        if self._polled_ms is not None:
            self._polled_ms = now_ms
        self.events.append(Assigned(list(self.partitions)))

    def _topics_of(self, response: JoinGroupResponse) -> set[str]:
        found: set[str] = set()
        for each in response.members:
            try:
                found |= decode_subscription(each.member_id, each.group_instance_id, each.metadata).topics
            except DecodeError:
                continue
        return found

    def _on_error(self, verdict: MemberVerdict, code: ErrorCode, now_ms: int, *, is_heartbeat: bool) -> bool:
        match verdict:
            case MemberVerdict.DONE:
                pass
            case MemberVerdict.FATAL | MemberVerdict.FAIL:
                self._fail(KafkaError(code))
            case MemberVerdict.REJOIN if is_heartbeat:
                self.rejoin()
            case MemberVerdict.LOST | MemberVerdict.UNKNOWN:
                self._generation_id = -1
                if verdict is MemberVerdict.UNKNOWN:
                    self._member_id = ""
                self._lose()
                if self.phase is not Phase.REVOKING:
                    self.phase = Phase.OUT
                    self._pause(now_ms)
            case _ if is_heartbeat:
                self._next_beat_ms = min(self._next_beat_ms, now_ms + self._backoff_ms(1))
            case _:
                self.phase = Phase.OUT
                if verdict is not MemberVerdict.REJOIN:
                    self._pause(now_ms)
        return verdict is MemberVerdict.FIND

    def _revoke(self, *, is_lost: bool) -> None:
        partitions, self.partitions = self.partitions, self.partitions if not is_lost else []
        self.phase = Phase.REVOKING
        self.events.append(Revoked(partitions, is_lost))

    def _lose(self) -> None:
        """The partitions belong to somebody else."""
        if self.phase is Phase.STABLE:
            self._revoke(is_lost=True)
        elif self.phase is Phase.REVOKING:
            self.partitions = []

    def _fail(self, error: KafkaError) -> None:
        self._lose()
        self.phase, self.error = Phase.FAILED, error

    def _pause(self, now_ms: int) -> None:
        self._not_before_ms = now_ms + self._backoff_ms(self._attempts_count)
        self._attempts_count += 1
