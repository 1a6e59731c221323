"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the life of a group."""

from __future__ import annotations

import struct
from typing import Any

from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.differential.play import Run, case
from tests.differential.wire import Wire


def subscription(*topics: str, user_data: bytes = b"") -> bytes:
    """The consumer protocol's subscription, version 0."""
    data = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        data += struct.pack(">h", len(topic)) + topic.encode()
    return data + struct.pack(">i", len(user_data)) + user_data


def joining(group: str, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {
        "session_timeout_ms": 30000,
        "rebalance_timeout_ms": 30000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    }
    return JoinGroupRequest(group_id=group, member_id=member_id, **{**values, **fields})


def protocols(*names: str) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=subscription(name)) for name in names]


def syncing(
    group: str, generation: int, member_id: str, assignments: dict[str, bytes] | None = None, **fields: Any
) -> SyncGroupRequest:
    given = [
        SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in (assignments or {}).items()
    ]
    values: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"}
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member_id, assignments=given, **{**values, **fields}
    )


def leaving(run: Run, group: str, *members: str, instances: tuple[str | None, ...] = ()) -> LeaveGroupRequest:
    pairs = [(member, None) for member in members] + [("", instance) for instance in instances]
    return LeaveGroupRequest(
        group_id=group,
        member_id=members[0] if members else "",
        members=[MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in pairs],
    )


def joined(run: Run, group: str, wire: Wire | None = None, **fields: Any) -> Any:
    """Join as a first or only member, whatever the newest version asks for."""
    answer = run.do(joining(group, **fields), wire=wire)
    if answer.error_code == 79:
        answer = run.do(joining(group, answer.member_id, **fields), wire=wire)
    assert answer.error_code == 0, answer
    return answer


def stable(run: Run, group: str, **fields: Any) -> Any:
    """A group of one member that has its assignment; answers the JoinGroup response."""
    member = joined(run, group, **fields)
    protocol_type = fields.get("protocol_type", "consumer")
    sync = syncing(group, member.generation_id, member.member_id, {member.member_id: b"assignment"},
                   protocol_type=protocol_type, protocol_name=member.protocol_name,
                   group_instance_id=fields.get("group_instance_id"))  # fmt: skip
    assert run.do(sync).error_code == 0
    return member


def wait_for_members(run: Run, group: str, count: int) -> None:
    """Until the coordinator has taken in what was sent on other connections."""
    run.until(f"{group} has {count} members", lambda: members_of(run, group) >= count)


def members_of(run: Run, group: str) -> int:
    return len(run.do(DescribeGroupsRequest(groups=[group])).groups[0].members)


def ask_to_join(run: Run, group: str, **fields: Any) -> Any:
    """Both steps of version 4 and up, the single one below."""
    answer = run.ask(joining(group, **fields))
    if answer.error_code == 79:
        answer = run.ask(joining(group, answer.member_id, **fields))
    return answer


# -- FindCoordinator


@case(FindCoordinatorRequest, "normal")
def of_a_group(run: Run) -> None:
    group = run.group()
    if run.version >= 4:
        run.ask(FindCoordinatorRequest(coordinator_keys=[group, run.name("other")], key_type=0))
    else:
        run.ask(FindCoordinatorRequest(key=group, key_type=0))


@case(FindCoordinatorRequest, "edge")
def empty_keys(run: Run) -> None:
    run.group()
    if run.version >= 4:
        run.ask(FindCoordinatorRequest(coordinator_keys=["", ""], key_type=0))
        run.ask(FindCoordinatorRequest(coordinator_keys=[], key_type=0))
    else:
        run.ask(FindCoordinatorRequest(key="", key_type=0))


@case(FindCoordinatorRequest, "wrong", "1+")
def of_another_type(run: Run) -> None:
    for kind in (2, 3, -1):
        if run.version >= 4:
            run.ask(FindCoordinatorRequest(coordinator_keys=[run.name("a")], key_type=kind))
        else:
            run.ask(FindCoordinatorRequest(key=run.name("a"), key_type=kind))


@case(FindCoordinatorRequest, "wrong", "0")
def with_a_body_that_is_cut(run: Run) -> None:
    run.ask_raw(struct.pack(">ihhihh", 12, 10, 0, 7, -1, 30))


# -- JoinGroup


@case(JoinGroupRequest, "normal")
def the_first_member(run: Run) -> None:
    answer = ask_to_join(run, run.group())
    run.ask(syncing(run.name("g"), answer.generation_id, answer.member_id, {answer.member_id: b"all"}), 5)


@case(JoinGroupRequest, "normal")
def two_members_and_the_protocol_both_know(run: Run) -> None:
    group = run.group()
    first = joined(run, group, protocols=protocols("range", "sticky"))
    other = run.connect()
    second_id = ""
    if run.version >= 4:
        second_id = run.ask(joining(group, protocols=protocols("sticky")), wire=other).member_id
    run.send(joining(group, second_id, protocols=protocols("sticky")), other)
    wait_for_members(run, group, 2)
    run.ask(joining(group, first.member_id, protocols=protocols("range", "sticky")))
    run.receive(joining(group), other)
    other.close()


@case(JoinGroupRequest, "normal", "5+")
def a_static_member_that_comes_back(run: Run) -> None:
    group = run.group()
    first = ask_to_join(run, group, group_instance_id="one")
    sync = syncing(group, first.generation_id, first.member_id, {first.member_id: b"all"}, group_instance_id="one")
    run.do(sync)
    again = run.ask(joining(group, group_instance_id="one"))
    run.ask(
        HeartbeatRequest(
            group_id=group, generation_id=again.generation_id, member_id=first.member_id, group_instance_id="one"
        ),
        4,
    )
    run.ask(
        HeartbeatRequest(
            group_id=group, generation_id=again.generation_id, member_id=again.member_id, group_instance_id="one"
        ),
        4,
    )
    run.ask(syncing(group, again.generation_id, again.member_id, group_instance_id="one"), 5)


@case(JoinGroupRequest, "edge")
def joins_again_in_a_stable_group(run: Run) -> None:
    group = run.group()
    member = stable(run, group)
    run.ask(joining(group, member.member_id))


@case(JoinGroupRequest, "edge")
def joins_again_with_another_subscription(run: Run) -> None:
    group = run.group()
    member = stable(run, group)
    changed = [JoinGroupRequestProtocol(name="range", metadata=subscription("t", "u"))]
    run.ask(joining(group, member.member_id, protocols=changed))


@case(JoinGroupRequest, "edge")
def another_protocol_type(run: Run) -> None:
    ask_to_join(run, run.group(), protocol_type="connect", protocols=protocols("sessioned", "compatible"))


@case(JoinGroupRequest, "edge", "5+")
def an_empty_instance_id(run: Run) -> None:
    ask_to_join(run, run.group(), group_instance_id="")


@case(JoinGroupRequest, "edge", "5+")
def instance_ids_that_are_not_allowed(run: Run) -> None:
    for index, instance in enumerate((".", "a b", "x" * 250)):
        run.ask(joining(run.group(f"g{index}"), group_instance_id=instance))


@case(JoinGroupRequest, "edge", "8+")
def a_reason(run: Run) -> None:
    ask_to_join(run, run.group(), reason="because")


@case(JoinGroupRequest, "edge", "1+")
def rebalance_timeouts(run: Run) -> None:
    for index, timeout_ms in enumerate((0, -1)):
        ask_to_join(run, run.group(f"g{index}"), rebalance_timeout_ms=timeout_ms)


@case(JoinGroupRequest, "wrong")
def session_timeouts_out_of_range(run: Run) -> None:
    group = run.group()
    for timeout_ms in (0, 299, 1_800_001, -1):
        run.ask(joining(group, session_timeout_ms=timeout_ms))


@case(JoinGroupRequest, "wrong")
def empty_group(run: Run) -> None:
    run.group()
    run.ask(joining(""))


@case(JoinGroupRequest, "wrong")
def a_member_nobody_knows(run: Run) -> None:
    group = run.group()
    run.ask(joining(group, "nobody"))
    stable(run, group)
    run.ask(joining(group, "nobody"))


@case(JoinGroupRequest, "wrong")
def no_protocols_or_no_type(run: Run) -> None:
    group = run.group()
    run.ask(joining(group, protocols=[]))
    run.ask(joining(group, protocol_type=""))


@case(JoinGroupRequest, "wrong")
def protocols_the_group_does_not_share(run: Run) -> None:
    group = run.group()
    stable(run, group)
    run.ask(joining(group, protocols=protocols("mine")))
    run.ask(joining(group, protocol_type="connect"))


@case(JoinGroupRequest, "wrong", "5+")
def a_fenced_instance(run: Run) -> None:
    group = run.group()
    stable(run, group, group_instance_id="one")
    run.ask(joining(group, "another", group_instance_id="one"))
    run.ask(joining(group, "another", group_instance_id="two"))


@case(JoinGroupRequest, "wrong")
def more_members_than_allowed(run: Run) -> None:
    group = run.group()
    wires = [run.connect() for _ in range(5)]
    joined(run, group)  # does not join again, and so does not count while a rebalance is prepared
    for wire in wires[:4]:
        member = run.do(joining(group), 4, wire=wire).member_id
        wire.send(joining(group, member), 4)
    wait_for_members(run, group, 5)
    run.ask(joining(group), wire=wires[4])
    for wire in wires:
        wire.close()


@case(JoinGroupRequest, "wrong")
def a_subscription_that_cannot_be_read(run: Run) -> None:
    group = run.group()
    broken = [JoinGroupRequestProtocol(name="range", metadata=b"subscription")]
    answer = run.do(joining(group, protocols=broken))
    run.ask(joining(group, answer.member_id, protocols=broken), may_be_silent=True)


# -- SyncGroup


@case(SyncGroupRequest, "normal")
def leader_assigns_itself(run: Run) -> None:
    group = run.group()
    member = joined(run, group)
    for _ in range(2):
        run.ask(syncing(group, member.generation_id, member.member_id, {member.member_id: b"assignment"}))
    run.ask(syncing(group, member.generation_id, member.member_id))


@case(SyncGroupRequest, "edge")
def the_follower_waits_for_the_leader(run: Run) -> None:
    group = run.group()
    first = joined(run, group)
    other = run.connect()
    second_id = run.do(joining(group), wire=other).member_id
    other.send(joining(group, second_id), 9)
    wait_for_members(run, group, 2)
    leader = run.do(joining(group, first.member_id))
    follower = other.receive(JoinGroupRequest.response_type, 9)
    run.send(syncing(group, follower.generation_id, follower.member_id), other)
    both = {leader.member_id: b"half", follower.member_id: b"other half"}
    run.ask(syncing(group, leader.generation_id, leader.member_id, both))
    run.receive(syncing(group, 1, ""), other)
    other.close()


@case(SyncGroupRequest, "edge")
def an_assignment_that_forgets_and_invents(run: Run) -> None:
    group = run.group()
    member = joined(run, group)
    run.ask(syncing(group, member.generation_id, member.member_id, {"stranger": b"x"}))


@case(SyncGroupRequest, "wrong")
def unknown_group_member_and_generation(run: Run) -> None:
    group = run.group()
    run.ask(syncing(run.name("other"), 1, "nobody"))
    member = joined(run, group)
    run.ask(syncing(group, member.generation_id, "nobody"))
    run.ask(syncing(group, member.generation_id + 1, member.member_id))
    run.ask(syncing(group, -1, member.member_id))
    run.ask(syncing("", 1, "nobody"))


@case(SyncGroupRequest, "wrong", "5+")
def another_protocol(run: Run) -> None:
    group = run.group()
    member = joined(run, group)
    run.ask(syncing(group, member.generation_id, member.member_id, protocol_name="sticky"))
    run.ask(syncing(group, member.generation_id, member.member_id, protocol_type="connect"))
    run.ask(syncing(group, member.generation_id, member.member_id, protocol_type=None, protocol_name=None))


@case(SyncGroupRequest, "wrong")
def while_a_rebalance_is_prepared(run: Run) -> None:
    group = run.group()
    member = stable(run, group)
    other = run.connect()
    second_id = run.do(joining(group), wire=other).member_id
    other.send(joining(group, second_id), 9)
    wait_for_members(run, group, 2)
    run.ask(syncing(group, member.generation_id, member.member_id))
    other.close()


@case(SyncGroupRequest, "wrong", "3+")
def a_fenced_instance_(run: Run) -> None:
    group = run.group()
    member = stable(run, group, group_instance_id="one")
    run.ask(syncing(group, member.generation_id, "another", group_instance_id="one"))
    run.ask(syncing(group, member.generation_id, member.member_id, group_instance_id="two"))


# -- Heartbeat


def beat(group: str, generation: int, member_id: str, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance)


@case(HeartbeatRequest, "normal")
def of_a_stable_member(run: Run) -> None:
    group = run.group()
    member = stable(run, group)
    run.ask(beat(group, member.generation_id, member.member_id))


@case(HeartbeatRequest, "edge")
def before_the_assignment(run: Run) -> None:
    group = run.group()
    member = joined(run, group)
    run.ask(beat(group, member.generation_id, member.member_id))


@case(HeartbeatRequest, "edge")
def while_another_joins(run: Run) -> None:
    group = run.group()
    member = stable(run, group)
    other = run.connect()
    second_id = run.do(joining(group), wire=other).member_id
    run.ask(beat(group, member.generation_id, member.member_id))
    other.send(joining(group, second_id), 9)
    wait_for_members(run, group, 2)
    run.ask(beat(group, member.generation_id, member.member_id))
    other.close()


@case(HeartbeatRequest, "edge", "3+")
def of_an_instance(run: Run) -> None:
    group = run.group()
    member = stable(run, group, group_instance_id="one")
    run.ask(beat(group, member.generation_id, member.member_id, "one"))
    run.ask(beat(group, member.generation_id, member.member_id))


@case(HeartbeatRequest, "edge")
def of_a_member_that_only_has_its_id(run: Run) -> None:
    group = run.group()
    stable(run, group)
    second_id = run.do(joining(group)).member_id
    run.ask(beat(group, -1, second_id))
    run.ask(beat(group, 1, second_id))


@case(HeartbeatRequest, "wrong")
def unknown_group_member_and_generation_(run: Run) -> None:
    group = run.group()
    run.ask(beat(run.name("other"), 1, "nobody"))
    member = stable(run, group)
    run.ask(beat(group, member.generation_id, "nobody"))
    run.ask(beat(group, member.generation_id + 1, member.member_id))
    run.ask(beat(group, -1, member.member_id))
    run.ask(beat("", 1, "nobody"))
    run.ask(beat(group, -1, ""))


@case(HeartbeatRequest, "wrong", "3+")
def a_fenced_instance__(run: Run) -> None:
    group = run.group()
    member = stable(run, group, group_instance_id="one")
    run.ask(beat(group, member.generation_id, "another", "one"))
    run.ask(beat(group, member.generation_id, member.member_id, "two"))


@case(HeartbeatRequest, "wrong")
def after_the_session_ran_out(run: Run) -> None:
    group = run.group()
    member = run.do(joining(group, session_timeout_ms=300), 3)  # at once: whatever came next could come too late
    run.until("its session has run out", lambda: members_of(run, group) == 0)
    run.ask(beat(group, member.generation_id, member.member_id))


# -- LeaveGroup


@case(LeaveGroupRequest, "normal")
def the_only_member(run: Run) -> None:
    group = run.group()
    member = stable(run, group)
    run.ask(leaving(run, group, member.member_id))
    run.ask(beat(group, member.generation_id, member.member_id), 4)


@case(LeaveGroupRequest, "normal", "3+")
def two_static_members_at_once(run: Run) -> None:
    group = run.group()
    joined(run, group, group_instance_id="one")
    other = run.connect()
    other.send(joining(group, group_instance_id="two"), 9)
    wait_for_members(run, group, 2)
    run.ask(leaving(run, group, instances=("one", "two")))
    other.close()


@case(LeaveGroupRequest, "edge", "3+")
def some_known_some_not(run: Run) -> None:
    group = run.group()
    member = stable(run, group, group_instance_id="one")
    run.ask(leaving(run, group, "nobody", instances=("two",)))
    request = leaving(run, group)
    request.members = [MemberIdentity(member_id="another", group_instance_id="one", reason="why")]
    run.ask(request)
    run.ask(leaving(run, group, member.member_id, "nobody"))


@case(LeaveGroupRequest, "edge", "3+")
def nobody_leaves(run: Run) -> None:
    group = run.group()
    stable(run, group)
    run.ask(leaving(run, group))
    run.ask(leaving(run, run.name("other")))


@case(LeaveGroupRequest, "edge")
def a_member_that_only_has_its_id(run: Run) -> None:
    group = run.group()
    stable(run, group)
    second_id = run.do(joining(group)).member_id
    run.ask(leaving(run, group, second_id))
    run.ask(leaving(run, group, second_id))


@case(LeaveGroupRequest, "wrong")
def unknown_group_and_member(run: Run) -> None:
    group = run.group()
    run.ask(leaving(run, run.name("other"), "nobody"))
    stable(run, group)
    run.ask(leaving(run, group, "nobody"))
    run.ask(leaving(run, "", "nobody"))
    run.ask(leaving(run, group, ""))
