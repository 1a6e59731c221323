"""A member of a consumer group: what it says, what it lets go of and takes, and what each answer means."""

from __future__ import annotations

import pytest

from client.membership.consumer import ConsumerMember
from client.membership.contract import Assigned, MemberSettings, Phase, Revoked, TopicPattern
from client.membership.verdicts import MemberVerdict
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

E = ErrorCode
T, U = b"t" * 16, b"u" * 16
NAMES = {T: "t", U: "u"}
BACKOFF_MS = 100


def member_of(
    instance_id: str | None = None, subscription: TopicPattern | tuple[str, ...] = ("u", "t")
) -> ConsumerMember:
    settings = MemberSettings(
        max_poll_interval_ms=10_000, instance_id=instance_id, rack_id="r", server_assignor="range"
    )
    return ConsumerMember("g", "m", subscription, settings, lambda attempts: BACKOFF_MS)


def response(code: ErrorCode = E.NONE, epoch: int = 1, given: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """`given` is the assignment, such as "t0 t1 u0"; None says nothing of it."""
    rows: dict[bytes, list[int]] = {}
    for each in (given or "").split():
        rows.setdefault(T if each[0] == "t" else U, []).append(int(each[1:]))
    assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=i, partitions=ps) for i, ps in rows.items()])
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=code, member_id="m", member_epoch=epoch, heartbeat_interval_ms=3_000,
        assignment=None if given is None else assignment,
    )  # fmt: skip


def beat(member: ConsumerMember, answer: ConsumerGroupHeartbeatResponse, now_ms: int = 0) -> bool:
    request = member.next(now_ms)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    return member.answered(request, answer, now_ms)


def stable(given: str = "t0", instance_id: str | None = None) -> ConsumerMember:
    """A member that has told that it owns `given`; the next heartbeat is due at 3,000 ms."""
    member = member_of(instance_id)
    member.named(NAMES)
    beat(member, response(given=given))
    if given:
        beat(member, response())
    member.events.clear()
    return member


def said(request: object) -> dict[str, object]:
    """What a heartbeat says beside who sends it; partitions as text."""
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    rows = request.topic_partitions
    found = {
        "epoch": request.member_epoch, "rack": request.rack_id,
        "timeout": None if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms,
        "topics": request.subscribed_topic_names, "pattern": request.subscribed_topic_regex,
        "assignor": request.server_assignor,
        "owned": None if rows is None else " ".join(f"{NAMES[r.topic_id]}{p}" for r in rows for p in r.partitions),
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


ALL = {"rack": "r", "timeout": 10_000, "topics": ["t", "u"], "assignor": "range"}


def test_the_first_heartbeat_says_everything_and_the_others_what_is_new() -> None:
    member = member_of()
    request = member.next(0)
    assert said(request) == ALL | {"epoch": 0, "owned": ""}
    assert request is not None and member.next(0) is None
    member.answered(request, response(epoch=4, given="t0 u1"), 0)  # type: ignore[arg-type]
    assert member.unnamed_topic_ids == {T, U} and not member.events and member.membership == ("g", 4, "m", None)
    member.named({T: "t"})
    assert list(member.events) == [Assigned([("t", 0)])] and member.unnamed_topic_ids == {U}
    member.named(NAMES)
    assert member.events[-1] == Assigned([("u", 1)]) and member.partitions == [("t", 0), ("u", 1)]
    request = member.next(0)  # at once: the broker learns what is owned
    assert said(request) == {"epoch": 4, "owned": "t0 u1"}
    member.answered(request, response(epoch=4), 10)  # type: ignore[arg-type]
    assert member.next(3_009) is None and member.wakeup_ms(10) == 3_010
    assert said(member.next(3_010)) == {"epoch": 4}


def test_a_pattern_is_told_instead_of_names() -> None:
    request = member_of(subscription=TopicPattern("t.*")).next(0)
    expected = ALL | {"epoch": 0, "owned": "", "pattern": "t.*"}
    assert said(request) == {name: value for name, value in expected.items() if name != "topics"}


def test_what_is_revoked_is_owned_until_the_application_has_let_go_and_then_told_at_once() -> None:
    member = stable("t0 t1")
    beat(member, response(given="t0"), 3_000)
    assert list(member.events) == [Revoked([("t", 1)], is_lost=False)] and member.phase is Phase.REVOKING
    assert member.partitions == [("t", 0), ("t", 1)]
    beat(member, response(given="t0"), 6_000)  # it stays a member meanwhile, and nothing is revoked twice
    assert len(member.events) == 1
    member.let_go()
    assert member.partitions == [("t", 0)] and said(member.next(6_000)) == {"epoch": 1, "owned": "t0"}


def test_an_assignment_that_changes_while_the_application_lets_go_counts_afterwards() -> None:
    member = stable("t0 t1")
    beat(member, response(given="t0"), 3_000)
    beat(member, response(epoch=2, given="u0"), 6_000)
    member.let_go()
    assert list(member.events) == [Revoked([("t", 1)], is_lost=False), Revoked([("t", 0)], is_lost=False)]
    member.let_go()
    assert member.events[-1] == Assigned([("u", 0)]) and said(member.next(6_000)) == {"epoch": 2, "owned": "u0"}


@pytest.mark.parametrize("code", [E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID])
@pytest.mark.parametrize("is_revoking", [False, True])
def test_a_member_that_is_fenced_loses_everything_and_joins_again(code: ErrorCode, is_revoking: bool) -> None:
    member, now_ms = stable("t0 t1"), 3_000
    if is_revoking:
        beat(member, response(given="t0"), now_ms)
        now_ms = 6_000
    assert not beat(member, response(code), now_ms)
    lost = [("t", 0)] if is_revoking else [("t", 0), ("t", 1)]
    assert member.events[-1] == Revoked(lost, is_lost=True) and member.partitions == []
    assert member.membership.generation_id == -1
    for _ in member.events:
        assert member.next(now_ms + BACKOFF_MS) is None
        member.let_go()
    assert said(member.next(now_ms + BACKOFF_MS)) == ALL | {"epoch": 0, "owned": ""}


@pytest.mark.parametrize(
    ("code", "is_lookup"),
    [
        (E.NOT_COORDINATOR, True),
        (E.COORDINATOR_NOT_AVAILABLE, True),
        (E.COORDINATOR_LOAD_IN_PROGRESS, False),
        (E.TOPIC_AUTHORIZATION_FAILED, False),
        (None, True),
    ],
)
@pytest.mark.parametrize("is_joining", [False, True])
def test_after_a_heartbeat_that_failed_everything_is_said_again(
    code: ErrorCode | None, is_lookup: bool, is_joining: bool
) -> None:
    member = member_of() if is_joining else stable()
    request = member.next(3_000)
    assert request is not None
    if code is None:
        assert member.unanswered(request, 3_000)
    else:
        assert member.answered(request, response(code), 3_000) is is_lookup  # type: ignore[arg-type]
    assert (member.complaint is not None) is (code is E.TOPIC_AUTHORIZATION_FAILED)
    assert member.next(3_099) is None and member.wakeup_ms(3_000) == 3_100
    assert said(member.next(3_100)) == ALL | ({"epoch": 0, "owned": ""} if is_joining else {"epoch": 1, "owned": "t0"})
    assert not member.events


@pytest.mark.parametrize(
    "code",
    [
        E.UNRELEASED_INSTANCE_ID, E.FENCED_INSTANCE_ID, E.GROUP_MAX_SIZE_REACHED, E.UNSUPPORTED_ASSIGNOR,
        E.INVALID_REGULAR_EXPRESSION, E.INVALID_REQUEST, E.GROUP_AUTHORIZATION_FAILED, E.UNSUPPORTED_VERSION,
        E.GROUP_ID_NOT_FOUND,
    ],
)  # fmt: skip
def test_a_fatal_answer_ends_the_member(code: ErrorCode) -> None:
    member = stable()
    beat(member, response(code), 3_000)
    assert member.phase is Phase.FAILED and member.error is not None and member.error.code is code
    assert list(member.events) == [Revoked([("t", 0)], is_lost=True)]
    member.let_go()
    assert member.next(99_000) is None and member.leave() is None


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_an_application_that_does_not_ask_leaves_the_group_until_it_does(instance_id: str | None, epoch: int) -> None:
    member = stable(instance_id=instance_id)
    member.polled(0)
    beat(member, response(), 9_000)
    assert said(member.next(10_001)) == {"epoch": epoch}
    assert list(member.events) == [Revoked([("t", 0)], is_lost=True)] and member.next(20_000) is None
    member.let_go()
    member.polled(20_000)
    assert said(member.next(20_000))["epoch"] == 0


def test_who_leaves_before_the_answer_came_says_so_too() -> None:
    member = member_of()
    assert member.leave() is None
    member.polled(0)
    late = member.next(0)
    assert late is not None and said(member.leave()) == {"epoch": -1}
    assert not member.answered(late, response(given="t0"), 0) and member.partitions == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "verdict", "is_hurried"),
    [
        (E.NONE, MemberVerdict.DONE, False),
        (E.STALE_MEMBER_EPOCH, MemberVerdict.REPEAT, True),
        (E.UNKNOWN_MEMBER_ID, MemberVerdict.FAIL, True),
        (E.NOT_COORDINATOR, MemberVerdict.FIND, False),
        (E.REQUEST_TIMED_OUT, MemberVerdict.FIND, False),
        (E.COORDINATOR_LOAD_IN_PROGRESS, MemberVerdict.REPEAT, False),
        (E.OFFSET_METADATA_TOO_LARGE, MemberVerdict.FAIL, False),
        (E.ILLEGAL_GENERATION, MemberVerdict.FAIL, False),
    ],
)
def test_answers_to_commits(code: ErrorCode, verdict: MemberVerdict, is_hurried: bool) -> None:
    member = stable()
    assert member.commit_answered(member.membership, code) is verdict
    assert member.phase is Phase.STABLE and (member.next(1_000) is not None) is is_hurried
    member = stable()
    member.commit_answered(member.membership._replace(generation_id=0), code)
    assert member.next(1_000) is None


def test_commits_have_the_present_epoch_while_the_partition_is_owned() -> None:
    member = stable()
    earlier = member.membership_for([("t", 0)], None)
    beat(member, response(epoch=2), 3_000)
    assert (earlier.generation_id, member.membership_for([("t", 0)], earlier).generation_id) == (1, 2)
    with pytest.raises(KafkaError, match="STALE_MEMBER_EPOCH"):
        member.membership_for([("t", 1)], None)


def test_a_cluster_without_consumer_groups_is_told_with_what_to_do() -> None:
    member = stable()
    member.refused(KafkaError(E.UNSUPPORTED_VERSION, "broker 1 speaks ConsumerGroupHeartbeat not"))
    assert member.phase is Phase.FAILED and "group.protocol=classic" in str(member.error)
