"""A member of a group: what each answer does to it, what it lets go of, and when."""

from __future__ import annotations

from typing import Any

import pytest

from client.membership.assignors import decode_assignment, encode_assignment, encode_subscription
from client.membership.classic import ClassicMember
from client.membership.contract import Assigned, MemberSettings, Phase, Revoked
from client.membership.verdicts import MemberVerdict
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.topic_partition import TopicPartition

E = ErrorCode
T0: TopicPartition = ("t", 0)


def member_of(instance_id: str | None = None) -> ClassicMember:
    return ClassicMember(
        "g", ["t"], MemberSettings(max_poll_interval_ms=10_000, instance_id=instance_id), lambda attempts: 100
    )


def joined(code: ErrorCode = E.NONE, *, generation: int = 1, leader: str = "m", member: str = "m") -> JoinGroupResponse:
    members = [JoinGroupResponseMember(member_id=each, metadata=encode_subscription(["t"])) for each in ("m", "n")]
    return JoinGroupResponse(
        error_code=code, generation_id=generation, protocol_name="range", leader=leader, member_id=member,
        members=members if leader == member else [],
    )  # fmt: skip


def synced(code: ErrorCode = E.NONE, partitions: tuple[TopicPartition, ...] = (T0,)) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=encode_assignment(partitions))


def answer(member: ClassicMember, kind: type, response: Any, now_ms: int = 0) -> bool:
    request = member.next(now_ms)
    assert type(request) is kind
    return member.answered(request, response, now_ms)


def stable(instance_id: str | None = None) -> ClassicMember:
    """A follower with one partition."""
    member = member_of(instance_id)
    answer(member, JoinGroupRequest, joined(leader="n"))
    answer(member, SyncGroupRequest, synced())
    assert member.events.popleft() == Assigned([T0])
    return member


def beat(member: ClassicMember, code: ErrorCode, now_ms: int = 3_000) -> bool:
    return answer(member, HeartbeatRequest, HeartbeatResponse(error_code=code), now_ms)


def test_the_leader_assigns_and_everybody_gets_its_part() -> None:
    member = member_of()
    assert not answer(member, JoinGroupRequest, joined(E.MEMBER_ID_REQUIRED, member="m", leader=""))
    request = member.next(0)
    assert isinstance(request, JoinGroupRequest) and request.member_id == "m"
    member.answered(request, joined(), 0)
    assert member.phase is Phase.ASSIGNING and member.wanted_topics == {"t"} and member.next(0) is None
    member.assign({"t": 3})
    request = member.next(0)
    assert isinstance(request, SyncGroupRequest)
    given = {each.member_id: decode_assignment(each.assignment) for each in request.assignments}
    assert given == {"m": [("t", 0), ("t", 1)], "n": [("t", 2)]}
    member.answered(request, synced(), 0)
    assert member.membership == ("g", 1, "m", None) and member.partitions == [T0]


def test_a_member_joins_again_when_the_application_has_let_go() -> None:
    member = stable()
    beat(member, E.REBALANCE_IN_PROGRESS)
    assert list(member.events) == [Revoked([T0], is_lost=False)] and member.partitions == [T0]
    beat(member, E.REBALANCE_IN_PROGRESS, 6_000)  # it stays a member meanwhile, and is not revoked twice
    assert len(member.events) == 1
    member.let_go()
    assert member.partitions == []
    request = member.next(6_000)
    assert isinstance(request, JoinGroupRequest) and request.member_id == "m"


@pytest.mark.parametrize(("code", "member_id"), [(E.ILLEGAL_GENERATION, "m"), (E.UNKNOWN_MEMBER_ID, "")])
def test_a_generation_that_is_over_loses_its_partitions(code: ErrorCode, member_id: str) -> None:
    member = stable()
    beat(member, code)
    assert list(member.events) == [Revoked([T0], is_lost=True)] and member.partitions == []
    assert member.next(9_000) is None
    member.let_go()
    request = member.next(9_000)
    assert isinstance(request, JoinGroupRequest) and request.member_id == member_id


@pytest.mark.parametrize("code", [E.FENCED_INSTANCE_ID, E.GROUP_AUTHORIZATION_FAILED])
def test_a_fatal_answer_ends_the_member(code: ErrorCode) -> None:
    member = stable("i")
    beat(member, code)
    assert member.phase is Phase.FAILED and member.error is not None and member.error.code is code
    assert list(member.events) == [Revoked([T0], is_lost=True)]
    member.let_go()
    assert member.next(99_000) is None


@pytest.mark.parametrize(("code", "is_lookup"), [(E.NOT_COORDINATOR, True), (E.COORDINATOR_LOAD_IN_PROGRESS, False)])
def test_a_heartbeat_without_an_answer_goes_again_soon(code: ErrorCode, is_lookup: bool) -> None:
    member = stable()
    assert beat(member, code) is is_lookup
    assert member.wakeup_ms(3_000) == 3_100
    request = member.next(3_100)
    assert request is not None and member.unanswered(request, 3_100)
    assert member.wakeup_ms(3_100) == 3_200 and member.partitions == [T0]


@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
@pytest.mark.parametrize(
    ("code", "is_lookup", "member_id"),
    [
        (E.COORDINATOR_NOT_AVAILABLE, True, "m"),
        (E.COORDINATOR_LOAD_IN_PROGRESS, False, "m"),
        (E.REBALANCE_IN_PROGRESS, False, "m"),
        (E.ILLEGAL_GENERATION, False, "m"),
        (E.UNKNOWN_MEMBER_ID, False, ""),
        (None, True, "m"),
    ],
)
def test_what_is_not_joined_joins_again(kind: type, code: ErrorCode | None, is_lookup: bool, member_id: str) -> None:
    member = member_of()
    answer(member, JoinGroupRequest, joined(E.MEMBER_ID_REQUIRED, leader=""))
    if kind is SyncGroupRequest:
        answer(member, JoinGroupRequest, joined(leader="n"))
    request = member.next(0)
    assert type(request) is kind
    if code is None:
        assert member.unanswered(request, 0)
    else:
        assert member.answered(request, joined(code) if kind is JoinGroupRequest else synced(code), 0) is is_lookup
    request = member.next(200)
    assert isinstance(request, JoinGroupRequest) and request.member_id == member_id
    assert not member.events


@pytest.mark.parametrize("code", [E.GROUP_MAX_SIZE_REACHED, E.INCONSISTENT_GROUP_PROTOCOL, E.INVALID_SESSION_TIMEOUT])
def test_a_group_that_does_not_take_the_member(code: ErrorCode) -> None:
    member = member_of()
    answer(member, JoinGroupRequest, joined(code))
    assert member.phase is Phase.FAILED


def test_an_answer_of_an_earlier_generation_says_nothing() -> None:
    member = stable()
    late = member.next(3_000)
    assert late is not None
    member.rejoin()
    member.events.clear()
    member.let_go()
    answer(member, JoinGroupRequest, joined(generation=2, leader="n"), 3_000)
    answer(member, SyncGroupRequest, synced(), 3_000)
    member.answered(late, HeartbeatResponse(error_code=E.UNKNOWN_MEMBER_ID), 3_001)
    assert member.phase is Phase.STABLE and member.membership.generation_id == 2


def test_an_application_that_does_not_ask_leaves_the_group_until_it_does() -> None:
    member = stable()
    member.polled(0)
    beat(member, E.NONE)
    assert isinstance(member.next(10_001), LeaveGroupRequest)
    assert list(member.events) == [Revoked([T0], is_lost=True)] and member.next(20_000) is None
    member.let_go()
    member.polled(20_000)
    assert isinstance(member.next(20_000), JoinGroupRequest)
    assert stable("i").leave("closed") is None


@pytest.mark.parametrize(
    ("code", "verdict", "phase"),
    [
        (E.NONE, MemberVerdict.DONE, Phase.STABLE),
        (E.REBALANCE_IN_PROGRESS, MemberVerdict.REJOIN, Phase.REVOKING),
        (E.ILLEGAL_GENERATION, MemberVerdict.LOST, Phase.REVOKING),
        (E.UNKNOWN_MEMBER_ID, MemberVerdict.UNKNOWN, Phase.REVOKING),
        (E.FENCED_INSTANCE_ID, MemberVerdict.FATAL, Phase.FAILED),
        (E.REQUEST_TIMED_OUT, MemberVerdict.FIND, Phase.STABLE),
        (E.OFFSET_METADATA_TOO_LARGE, MemberVerdict.FAIL, Phase.STABLE),
    ],
)
def test_answers_to_commits(code: ErrorCode, verdict: MemberVerdict, phase: Phase) -> None:
    member = stable()
    assert member.commit_answered(member.membership, code) is verdict
    assert member.phase is phase
    assert stable().commit_answered(member.membership._replace(generation_id=0), code) is verdict


def test_a_coordinator_that_nobody_may_look_for() -> None:
    member = stable()
    member.refused(KafkaError(E.GROUP_AUTHORIZATION_FAILED))
    assert member.phase is Phase.FAILED
