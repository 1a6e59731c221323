"""ShareGroupHeartbeat: members join, have partitions, and leave."""

from __future__ import annotations

from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.share_group_describe import ShareGroupDescribeRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.differential.newer.consumer_groups import group_that_knows
from tests.differential.newer.group_configs import altered
from tests.differential.newer.share_members import LEAVE, ShareMember, beating, joining, member_id
from tests.differential.play import Run, newer_case


@newer_case(ShareGroupHeartbeatRequest)
def a_member_joins_beats_and_leaves(run: Run) -> None:
    topic = run.topic(partitions=3)
    topic_id = run.last_topic_id
    group = group_that_knows(run, topic)
    member = ShareMember(run, group, "m", topic, rack_id="r")
    member.ask()
    member.join(*((topic_id, index) for index in range(3)))
    run.note({"epoch": member.epoch})
    member.ask()
    member.ask(subscribed_topic_names=[topic])
    run.ask(beating(group, member.member_id, LEAVE))
    run.ask(beating(group, member.member_id, LEAVE))
    run.ask(beating(group, member.member_id, member.epoch))


@newer_case(ShareGroupHeartbeatRequest)
def requests_that_say_too_little_or_too_much(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    member = member_id(run, "m")
    run.ask(joining("", member, topic))
    run.ask(joining("  ", member, topic))
    run.ask(joining(group, "", topic))
    run.ask(joining(group, "  ", topic))
    run.ask(joining(group, "m" * 40, topic))
    run.ask(beating(group, member, 0))
    run.ask(joining(group, member))
    run.ask(joining(group, member, topic, rack_id=""))
    run.ask(joining(group, member, topic, rack_id="  "))
    run.ask(beating(group, member, -2))
    run.ask(beating(group, member, -3))
    run.ask(beating(group, member, LEAVE))
    run.ask(beating(group, member, 1))
    run.ask(joining(group, member, "", topic))


@newer_case(ShareGroupHeartbeatRequest)
def epochs_that_are_not_the_members_own(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    member = ShareMember(run, group, "m", topic).join((run.last_topic_id, 0))
    for epoch in (member.epoch + 1, member.epoch - 1, member.epoch - 2, member.epoch):
        run.ask(beating(group, member.member_id, epoch))
    run.ask(beating(group, member_id(run, "other"), member.epoch))
    run.ask(beating(group, member_id(run, "other"), LEAVE))
    run.ask(joining(group, member.member_id, topic))


@newer_case(ShareGroupHeartbeatRequest)
def partitions_of_more_members_than_one(run: Run) -> None:
    topic = run.topic(partitions=2)
    topic_id = run.last_topic_id
    group = group_that_knows(run, topic)
    members = [ShareMember(run, group, "m1", topic).join((topic_id, 0), (topic_id, 1))]
    for number in (2, 3, 4):
        members.append(ShareMember(run, group, f"m{number}", topic))
        for _ in range(2):
            for member in members:
                member.do()
        run.note([[len(member.owned.get(topic_id, [])), member.epoch - members[0].epoch] for member in members])
    run.ask(joining(group, member_id(run, "m5"), topic))
    for member in members[:3]:
        member.leave()
    members[3].join((topic_id, 0), (topic_id, 1))
    run.note([member.owned.get(topic_id) for member in members[3:]])


@newer_case(ShareGroupHeartbeatRequest)
def another_subscription(run: Run) -> None:
    one = run.topic("one", 2)
    one_id = run.last_topic_id
    two = run.topic("two")
    two_id = run.last_topic_id
    group = group_that_knows(run, one, two)
    member = ShareMember(run, group, "m", one).join((one_id, 0), (one_id, 1))
    member.do(subscribed_topic_names=[one, two])
    member.join((one_id, 0), (one_id, 1), (two_id, 0))
    member.ask(subscribed_topic_names=[two])
    member.ask()
    member.ask(subscribed_topic_names=[])
    member.ask()
    member.ask(subscribed_topic_names=[two])
    member.ask()


@newer_case(ShareGroupHeartbeatRequest)
def topics_that_are_not_there_yet_and_grow(run: Run) -> None:
    group = run.group()
    member = ShareMember(run, group, "m", run.name("t"))
    member.ask()
    member.ask()
    topic = run.topic("t")
    topic_id = run.last_topic_id
    member.join((topic_id, 0))
    run.note({"epoch": member.epoch})
    grown = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    (result,) = run.do(CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=False)).results
    assert result.error_code == 0, result
    member.join((topic_id, 0), (topic_id, 1), (topic_id, 2))
    run.note({"epoch": member.epoch})


@newer_case(ShareGroupHeartbeatRequest)
def a_member_that_is_silent_for_too_long(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    altered(run, group, {"share.heartbeat.interval.ms": "100", "share.session.timeout.ms": "400"})
    silent = ShareMember(run, group, "m1", topic).join((run.last_topic_id, 0))
    silent.ask()
    asking = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    run.until("it is gone", lambda: not run.do(asking, 1).groups[0].members)
    run.ask(silent.request())
