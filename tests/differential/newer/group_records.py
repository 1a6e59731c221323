"""What is stored of consumer groups in `__consumer_offsets`."""

from __future__ import annotations

from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.differential.internal_topics import note_group_records
from tests.differential.newer.consumer_groups import LEAVE, Member, beating, group_that_knows, joining, settle
from tests.differential.play import Run, newer_case


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def stored_of_two_members(run: Run) -> None:
    topic = run.topic(partitions=3)
    group = group_that_knows(run, topic)
    first = Member(run, group, "m1", topic, rack_id="r", server_assignor="uniform")
    settle(first)
    second = Member(run, group, "m2", topic, instance_id="two")
    second.do()
    settle(first, second)
    for member in (first, second):
        run.do(beating(group, member.member_id, LEAVE), 1)
    note_group_records(run, group)


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def stored_of_a_static_member_that_comes_back(run: Run) -> None:
    topic = run.topic(partitions=2)
    group = group_that_knows(run, topic)
    first = Member(run, group, "m1", topic, instance_id="one")
    settle(first)
    run.do(beating(group, first.member_id, -2, instance_id="one"), 1)
    run.do(joining(group, run.name("m2"), topic, instance_id="one"), 1)
    note_group_records(run, group)


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def stored_of_an_expression(run: Run) -> None:
    topics = run.topic("a1", 2), run.topic("a2")
    group = group_that_knows(run, *topics)
    member = Member(run, group, "m", subscribed_topic_names=None, subscribed_topic_regex=f"{run.prefix}a.*")
    member.do()
    run.until("the topics are assigned", lambda: member.do() and len(member.owned) == 2)
    settle(member)
    run.do(beating(group, member.member_id, LEAVE), 1)
    note_group_records(run, group)
