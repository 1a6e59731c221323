"""What is told of consumer groups: ConsumerGroupDescribe, DescribeGroups, ListGroups."""

from __future__ import annotations

from typing import Any

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.differential.cases.groups import stable
from tests.differential.newer.consumer_groups import LEAVE, Member, beating, group_that_knows, settle
from tests.differential.play import Run, newer_case


def _describing(*groups: str, authorized: bool = False) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=authorized)


@newer_case(ConsumerGroupDescribeRequest)
def from_the_first_member_to_the_last(run: Run) -> None:
    topic = run.topic(partitions=4)
    group = group_that_knows(run, topic)
    first = Member(run, group, "m1", topic, rack_id="r", server_assignor="range")
    first.do()
    run.ask(_describing(group, authorized=True))
    second = Member(run, group, "m2", topic, instance_id="two")
    second.do()
    run.ask(_describing(group))
    settle(first, second)
    run.ask(_describing(group, group))
    run.do(beating(group, first.member_id, LEAVE), 1)
    run.do(beating(group, second.member_id, -2, instance_id="two"), 1)
    run.ask(_describing(group))
    run.do(beating(group, second.member_id, LEAVE, instance_id="two"), 1)
    run.ask(_describing(group))
    run.do(DeleteGroupsRequest(groups_names=[group]))
    run.ask(_describing(group))


@newer_case(ConsumerGroupDescribeRequest)
def of_a_classic_group_and_of_none(run: Run) -> None:
    group = run.group()
    stable(run, group)
    run.ask(_describing(group, run.name("never"), "", authorized=True))
    run.ask(_describing())


@newer_case(ConsumerGroupDescribeRequest, "1")
def of_an_expression(run: Run) -> None:
    topic = run.topic("a")
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", subscribed_topic_names=None, subscribed_topic_regex=f"{run.prefix}a")
    member.do()
    run.until("the topic is assigned", lambda: member.do() and len(member.owned) == 1)
    run.ask(_describing(group))


@newer_case(DescribeGroupsRequest)
def described_as_a_classic_group(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    run.ask(DescribeGroupsRequest(groups=[group, run.name("never")], include_authorized_operations=True))
    run.do(beating(group, member.member_id, LEAVE), 1)
    run.ask(DescribeGroupsRequest(groups=[group]))


def _only(prefix: str) -> Any:
    def pick(answer: Any) -> None:
        answer.groups = [
            row for row in answer.groups if row.group_id.startswith(prefix) and "before" not in row.group_id
        ]

    return pick


@newer_case(ListGroupsRequest)
def kinds_of_groups(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    settle(Member(run, group, "m", topic))
    empty = group_that_knows(run, topic, short="e")
    member = Member(run, empty, "m", topic)
    settle(member)
    run.do(beating(empty, member.member_id, LEAVE), 1)
    stable(run, run.group("c"))
    for types in ([], ["consumer"], ["Classic"], ["CONSUMER", "classic"], ["share"], ["unknown"], ["nonsense"], [""]):
        run.ask(ListGroupsRequest(states_filter=[], types_filter=types), pick=_only(run.prefix))
    for states in (["Stable"], ["stable", "empty"], ["Assigning"], ["Reconciling"], ["nonsense"]):
        run.ask(ListGroupsRequest(states_filter=states, types_filter=["consumer"]), pick=_only(run.prefix))


@newer_case(DeleteGroupsRequest)
def deleted(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    run.ask(DeleteGroupsRequest(groups_names=[group]))
    run.do(beating(group, member.member_id, LEAVE), 1)
    run.ask(DeleteGroupsRequest(groups_names=[group]))
    run.ask(DeleteGroupsRequest(groups_names=[group]))
    run.ask(beating(group, member.member_id, member.epoch), 1)
