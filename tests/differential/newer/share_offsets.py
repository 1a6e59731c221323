"""Describe-, Alter- and DeleteShareGroupOffsets."""

from __future__ import annotations

from protocol.messages.alter_share_group_offsets import AlteredPartition, AlteredTopic, AlterShareGroupOffsetsRequest
from protocol.messages.delete_share_group_offsets import DeletedTopic, DeleteShareGroupOffsetsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    RequestedGroup,
    RequestedTopic,
)
from protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tests.differential.internal_topics import note_group_records
from tests.differential.newer import consumer_groups
from tests.differential.newer.consumer_groups import group_that_knows
from tests.differential.newer.share_fetches import acquired, values
from tests.differential.newer.share_members import ACCEPT, RELEASE, reading
from tests.differential.play import Run, newer_case


def describing(group: str, topics: dict[str, list[int]] | None = None) -> DescribeShareGroupOffsetsRequest:
    rows = (
        None if topics is None else [RequestedTopic(topic_name=name, partitions=each) for name, each in topics.items()]
    )
    return DescribeShareGroupOffsetsRequest(groups=[RequestedGroup(group_id=group, topics=rows)])


def altering(group: str, topics: dict[str, dict[int, int]]) -> AlterShareGroupOffsetsRequest:
    rows = [
        AlteredTopic(
            topic_name=name,
            partitions=[AlteredPartition(partition_index=index, start_offset=offset) for index, offset in each.items()],
        )
        for name, each in topics.items()
    ]
    return AlterShareGroupOffsetsRequest(group_id=group, topics=rows)


def deleting(group: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(group_id=group, topics=[DeletedTopic(topic_name=name) for name in topics])


@newer_case(DescribeShareGroupOffsetsRequest)
def of_a_group_that_reads(run: Run) -> None:
    member, topic, topic_id = reading(run, 2)
    run.produce(topic, values(10))
    run.ask(describing(member.group, {topic: [0, 1]}))
    member.fetch((topic_id, 0))
    run.ask(describing(member.group, {topic: [0, 1]}))
    member.acknowledge({(topic_id, 0): [(0, 3, [ACCEPT]), (4, 4, [RELEASE]), (6, 6, [ACCEPT])]})
    run.ask(describing(member.group, {topic: [0, 1]}))
    run.ask(describing(member.group))
    run.ask(describing(member.group, {}))
    run.ask(describing(member.group, {topic: [0], run.name("nothing"): [0]}))


@newer_case(DescribeShareGroupOffsetsRequest)
def of_groups_that_are_none(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    run.ask(describing(run.name("nobody"), {topic: [0]}))
    run.ask(describing(run.name("nobody")))
    run.ask(describing("", {topic: [0]}))
    consumer_groups.Member(run, group, "m", topic).do()
    run.ask(describing(group, {topic: [0]}))
    run.ask(describing(group))
    run.ask(DescribeShareGroupOffsetsRequest(groups=[]))


@newer_case(AlterShareGroupOffsetsRequest)
def of_a_group_without_members(run: Run) -> None:
    member, topic, topic_id = reading(run, 2)
    for _ in range(2):
        run.produce(topic, values(5))
    member.fetch((topic_id, 0))
    run.ask(altering(member.group, {topic: {0: 7}}))
    member.acknowledge({(topic_id, 0): [(0, 9, [ACCEPT])]}, share_session_epoch=-1)
    member.leave()
    run.ask(altering(member.group, {topic: {0: 7, 1: 3}}))
    run.ask(describing(member.group), 1)
    run.ask(altering(member.group, {topic: {0: -1, 1: -2, 7: 0}, run.name("nothing"): {0: 0}}))
    run.ask(altering(member.group, {topic: {0: 7, 1: 3}}))
    member.come_back((topic_id, 0), (topic_id, 1))
    run.note(acquired(member.fetch((topic_id, 0))))
    note_group_records(
        run, member.group, pick=lambda rows: [row for row in rows if row["kind"].startswith(("11", "15"))]
    )


@newer_case(AlterShareGroupOffsetsRequest)
def of_no_partitions(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    run.ask(altering(group, {topic: {0: 0}}))
    run.ask(altering(group, {}))
    run.ask(altering(group, {topic: {}}))


@newer_case(AlterShareGroupOffsetsRequest)
def of_groups_that_are_new_or_of_another_kind(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    run.ask(altering(run.name("new"), {topic: {0: 0}}))
    run.ask(ShareGroupDescribeRequest(group_ids=[run.name("new")], include_authorized_operations=False), 1)
    run.ask(describing(run.name("new")), 1)
    run.ask(altering("", {topic: {0: 0}}))
    consumer_groups.Member(run, group, "m", topic).do()
    run.ask(altering(group, {topic: {0: 0}}))


@newer_case(DeleteShareGroupOffsetsRequest)
def of_a_group_that_has_read(run: Run) -> None:
    member, topic, topic_id = reading(run)
    run.produce(topic, values(5))
    member.fetch((topic_id, 0))
    run.ask(deleting(member.group, topic))
    member.acknowledge({(topic_id, 0): [(0, 4, [ACCEPT])]}, share_session_epoch=-1)
    member.leave()
    run.ask(deleting(member.group, run.name("nothing")))
    run.ask(deleting(member.group))
    run.ask(deleting(member.group, topic, topic))
    run.ask(describing(member.group), 1)
    run.ask(deleting(member.group, topic))
    note_group_records(
        run, member.group, pick=lambda rows: [row for row in rows if row["kind"].startswith(("11", "15"))]
    )
    member.come_back((topic_id, 0))
    run.note(acquired(member.fetch((topic_id, 0))))


@newer_case(DeleteShareGroupOffsetsRequest)
def of_groups_that_have_none(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    run.ask(deleting(run.name("nobody"), topic))
    run.ask(deleting("", topic))
    consumer_groups.Member(run, group, "m", topic).do()
    run.ask(deleting(group, topic))


@newer_case(DescribeShareGroupOffsetsRequest, "1")
def of_a_topic_that_was_deleted(run: Run) -> None:
    member, topic, topic_id = reading(run)
    run.produce(topic, values(5))
    member.fetch((topic_id, 0))
    run.do(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    asking = describing(member.group)
    run.until("nothing is left of it", lambda: not run.do(asking, 1).groups[0].topics)
    run.ask(asking)
    run.until("it is not assigned", lambda: bool(member.do()) and not any(member.owned.values()))
    run.note({"epoch": member.epoch})
