"""Members of the other protocol: classic requests to a consumer group, and heartbeats to a classic one."""

from __future__ import annotations

from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest
from tests.differential.cases.groups import joining as joining_classic
from tests.differential.cases.groups import protocols, stable, syncing
from tests.differential.newer.consumer_groups import Member, group_that_knows, joining, settle
from tests.differential.play import Run, newer_case


def consumer_group(run: Run) -> Member:
    topic = run.topic("t", 2)
    member = Member(run, group_that_knows(run, topic), "m", topic)
    settle(member)
    return member


@newer_case(JoinGroupRequest, "0-9")
def a_classic_member_that_cannot_join_a_consumer_group(run: Run) -> None:
    group = consumer_group(run).group
    run.ask(joining_classic(group, protocols=protocols("range"), protocol_type="connect"))
    run.ask(joining_classic(group, "nobody"))
    run.ask(joining_classic(group, session_timeout_ms=1))
    run.ask(joining_classic(group, protocols=[]))


@newer_case(HeartbeatRequest, "0-4")
def a_classic_heartbeat_of_a_member(run: Run) -> None:
    member = consumer_group(run)
    run.ask(HeartbeatRequest(group_id=member.group, generation_id=member.epoch, member_id=member.member_id))
    run.ask(HeartbeatRequest(group_id=member.group, generation_id=member.epoch, member_id="nobody"))


@newer_case(SyncGroupRequest, "0-5")
def a_classic_synchronisation_of_a_member(run: Run) -> None:
    member = consumer_group(run)
    run.ask(syncing(member.group, member.epoch, member.member_id))
    run.ask(syncing(member.group, member.epoch, "nobody"))


@newer_case(LeaveGroupRequest, "0-5")
def a_consumer_member_leaves_as_a_classic_one(run: Run) -> None:
    member = consumer_group(run)
    for member_id in ("nobody", member.member_id):
        identity = MemberIdentity(member_id=member_id, group_instance_id=None)
        run.ask(LeaveGroupRequest(group_id=member.group, member_id=member_id, members=[identity]))


@newer_case(ConsumerGroupHeartbeatRequest)
def a_classic_group_that_is_no_consumers(run: Run) -> None:
    topic = run.topic("t")
    group = group_that_knows(run, topic)
    stable(run, group, protocol_type="connect")
    run.ask(joining(group, run.name("m"), topic))


@newer_case(ConsumerGroupHeartbeatRequest)
def an_empty_classic_group_becomes_a_consumer_group(run: Run) -> None:
    topic = run.topic("t")
    group = group_that_knows(run, topic)
    member = stable(run, group)
    identity = MemberIdentity(member_id=member.member_id, group_instance_id=None)
    run.do(LeaveGroupRequest(group_id=group, member_id=member.member_id, members=[identity]))
    run.ask(joining(group, run.name("m"), topic))
