"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from typing import Any

from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.primitives import ZERO_UUID
from tests.differential.cases.groups import joined, joining, stable, subscription, wait_for_members
from tests.differential.play import Run, case
from tests.protocol.raw_text import RawText


def committing(
    group: str, topic: str, *offsets: int, metadata: str | None = "", partition: int = 0, **fields: Any
) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=partition + index,
            committed_offset=offset,
            committed_metadata=metadata,
            committed_leader_epoch=0,
        )
        for index, offset in enumerate(offsets)
    ]
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)], **fields
    )


def by_member(member: Any, **changes: Any) -> dict[str, Any]:
    return {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation_id, **changes}


def fetching(run: Run, group: str, topics: dict[str, list[int]] | None, **fields: Any) -> OffsetFetchRequest:
    if run.version >= 8:
        wanted = (
            None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes)) for name, indexes in topics.items()
            ]
        )
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)], **fields)
    old = (
        None
        if topics is None
        else [OffsetFetchRequestTopic(name=name, partition_indexes=list(indexes)) for name, indexes in topics.items()]
    )
    return OffsetFetchRequest(group_id=group, topics=old, **fields)


def committed(run: Run, group: str, topic: str, *offsets: int, **fields: Any) -> None:
    answer = run.do(committing(group, topic, *offsets, **fields))
    assert all(partition.error_code == 0 for partition in answer.topics[0].partitions), answer


# -- OffsetCommit


@case(OffsetCommitRequest, "normal")
def without_membership(run: Run) -> None:
    group, topic = run.group(), run.topic("t", 2)
    run.ask(committing(group, topic, 5, 7, metadata="mine"))
    version = 1 if run.version == 0 else 9
    from_store = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])]
    )
    from_coordinator = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])]
            )
        ]
    )
    run.ask(from_store if version == 1 else from_coordinator, 0 if version == 1 else 9)


@case(OffsetCommitRequest, "edge", "1+")
def names_and_metadata_that_are_no_utf8(run: Run) -> None:
    group, topic = RawText(run.group("caf").encode() + b"\xe9"), run.topic()
    run.ask(committing(group, topic, 5, metadata=RawText(b"gar\xe7on")))
    fetched = run.do(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 8)
    run.note([[row.metadata for topic in each.topics for row in topic.partitions] for each in fetched.groups])
    run.ask(committing(group, RawText(topic.encode() + b"\xe9"), 5))


@case(OffsetCommitRequest, "normal", "1+")
def by_a_member(run: Run) -> None:
    group, topic = run.group(), run.topic()
    member = stable(run, group)
    run.ask(committing(group, topic, 5, **by_member(member)))


@case(OffsetCommitRequest, "normal", "7+")
def by_an_instance(run: Run) -> None:
    group, topic = run.group(), run.topic()
    member = stable(run, group, group_instance_id="one")
    run.ask(committing(group, topic, 5, **by_member(member, group_instance_id="one")))
    run.ask(committing(group, topic, 5, **by_member(member)))


@case(OffsetCommitRequest, "edge", "2-4")
def with_a_retention(run: Run) -> None:
    group, topic = run.group(), run.topic()
    for retention in (0, 1, 3_600_000):
        run.ask(committing(group, topic, 5, retention_time_ms=retention))


@case(OffsetCommitRequest, "edge")
def negative_offsets(run: Run) -> None:
    group, topic = run.group(), run.topic()
    for offset in (-1, -3, 0x7FFFFFFFFFFFFFFF):
        run.ask(committing(group, topic, offset))


@case(OffsetCommitRequest, "edge")
def null_and_long_metadata(run: Run) -> None:
    group, topic = run.group(), run.topic()
    for metadata in (None, "x" * 4096, "x" * 4097):
        run.ask(committing(group, topic, 5, metadata=metadata))


@case(OffsetCommitRequest, "edge")
def nothing(run: Run) -> None:
    group = run.group()
    run.ask(OffsetCommitRequest(group_id=group, topics=[]))


@case(OffsetCommitRequest, "edge", "1")
def with_a_timestamp(run: Run) -> None:
    group, topic = run.group(), run.topic()
    request = committing(group, topic, 5)
    request.topics[0].partitions[0].commit_timestamp = 1_700_000_000_000
    run.ask(request)


@case(OffsetCommitRequest, "edge", "1+")
def before_the_assignment(run: Run) -> None:
    group, topic = run.group(), run.topic()
    member = joined(run, group)
    run.ask(committing(group, topic, 5, **by_member(member)))


@case(OffsetCommitRequest, "edge", "1+")
def while_a_rebalance_is_prepared(run: Run) -> None:
    group, topic = run.group(), run.topic()
    member = stable(run, group)
    other = run.connect()
    second_id = run.do(joining(group), wire=other).member_id
    other.send(joining(group, second_id), 9)
    wait_for_members(run, group, 2)
    run.ask(committing(group, topic, 5, **by_member(member)))
    other.close()


@case(OffsetCommitRequest, "wrong")
def missing_topic_and_partition(run: Run) -> None:
    group, topic = run.group(), run.topic()
    run.ask(committing(group, run.name("missing"), 5))
    run.ask(committing(group, topic, 5, 6))


@case(OffsetCommitRequest, "wrong", "1+")
def without_membership_in_a_group_that_has_members(run: Run) -> None:
    group, topic = run.group(), run.topic()
    member = stable(run, group)
    run.ask(committing(group, topic, 5))
    run.ask(committing(group, topic, 5, **by_member(member, member_id="nobody")))
    run.ask(committing(group, topic, 5, **by_member(member, generation_id_or_member_epoch=9)))
    run.ask(committing(group, topic, 5, **by_member(member, generation_id_or_member_epoch=-1)))


@case(OffsetCommitRequest, "wrong", "1+")
def a_member_of_a_group_that_is_not(run: Run) -> None:
    group, topic = run.group(), run.topic()
    run.ask(committing(group, topic, 5, member_id="nobody", generation_id_or_member_epoch=1))
    run.ask(committing(group, topic, 5, member_id="", generation_id_or_member_epoch=1))
    run.ask(committing(group, topic, 5, member_id="nobody", generation_id_or_member_epoch=-1))


@case(OffsetCommitRequest, "wrong", "7+")
def a_fenced_instance(run: Run) -> None:
    group, topic = run.group(), run.topic()
    member = stable(run, group, group_instance_id="one")
    run.ask(committing(group, topic, 5, **by_member(member, member_id="another", group_instance_id="one")))
    run.ask(committing(group, topic, 5, **by_member(member, group_instance_id="two")))


@case(OffsetCommitRequest, "wrong")
def empty_group(run: Run) -> None:
    run.group()
    run.ask(committing("", run.topic(), 5))


@case(OffsetCommitRequest, "wrong", "8+")
def larger_than_a_batch_may_be(run: Run) -> None:
    """Every record repeats the name of the group."""
    group = run.group("g" * 32000)
    answer = run.do(committing(group, run.topic("t", 40), *range(40)), run.version)
    (code,) = {partition.error_code for partition in answer.topics[0].partitions}
    run.note({"error_code": code})


# -- OffsetFetch


@case(OffsetFetchRequest, "normal", "1+")
def some_and_all(run: Run) -> None:
    group, topic = run.group(), run.topic("t", 3)
    committed(run, group, topic, 5, 7, metadata="mine")
    run.ask(fetching(run, group, {topic: [0, 1, 2]}))
    if run.version >= 2:
        run.ask(fetching(run, group, None))


@case(OffsetFetchRequest, "normal", "0")
def from_the_store(run: Run) -> None:
    group, topic = run.group(), run.topic("t", 2)
    run.do(committing(group, topic, 5, metadata="lost"), 0)
    run.ask(fetching(run, group, {topic: [0, 1]}))


@case(OffsetFetchRequest, "normal", "8+")
def two_groups(run: Run) -> None:
    topic = run.topic()
    first, second = run.group("a"), run.group("b")
    committed(run, first, topic, 5)
    committed(run, second, topic, 6)
    request = fetching(run, first, {topic: [0]})
    request.groups += fetching(run, second, None).groups
    request.groups += fetching(run, run.name("never"), None).groups
    run.ask(request)


@case(OffsetFetchRequest, "edge")
def of_a_group_that_is_not(run: Run) -> None:
    topic = run.topic()
    run.ask(fetching(run, run.group(), {topic: [0], run.name("missing"): [3]}))


@case(OffsetFetchRequest, "edge")
def nothing_(run: Run) -> None:
    group, topic = run.group(), run.topic()
    committed(run, group, topic, 5)
    run.ask(fetching(run, group, {}))
    run.ask(fetching(run, group, {topic: []}))


@case(OffsetFetchRequest, "edge", "7+")
def stable_ones(run: Run) -> None:
    group, topic = run.group(), run.topic()
    committed(run, group, topic, 5)
    run.ask(fetching(run, group, {topic: [0]}, require_stable=True))


@case(OffsetFetchRequest, "edge", "1+")
def committed_with_null_metadata(run: Run) -> None:
    group, topic = run.group(), run.topic()
    run.do(committing(group, topic, 5, metadata=None))
    run.ask(fetching(run, group, {topic: [0]}))


@case(OffsetFetchRequest, "edge", "9")
def with_a_member_epoch(run: Run) -> None:
    group, topic = run.group(), run.topic()
    committed(run, group, topic, 5)
    request = fetching(run, group, {topic: [0]})
    request.groups[0].member_id, request.groups[0].member_epoch = "nobody", 4
    run.ask(request)


@case(OffsetFetchRequest, "edge", "1+")
def of_a_deleted_topic(run: Run) -> None:
    group, topic = run.group(), run.topic()
    committed(run, group, topic, 5)
    run.do(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic, topic_id=ZERO_UUID)], timeout_ms=30000))

    def is_forgotten() -> bool:
        (partition,) = run.do(fetching_newest(group, topic)).groups[0].topics[0].partitions
        return bool(partition.committed_offset == -1)

    run.until("the offset is forgotten", is_forgotten)
    run.ask(fetching(run, group, {topic: [0]}))
    if run.version >= 2:
        run.ask(fetching(run, group, None))


def fetching_newest(group: str, topic: str) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])


@case(OffsetFetchRequest, "wrong")
def missing_topic_and_negative_partition(run: Run) -> None:
    run.ask(fetching(run, run.group(), {run.name("missing"): [0], run.topic(): [-1, 9]}))


@case(OffsetFetchRequest, "wrong")
def empty_group_(run: Run) -> None:
    run.group()
    run.ask(fetching(run, "", {run.topic(): [0]}))


@case(OffsetFetchRequest, "wrong", "8+")
def no_groups(run: Run) -> None:
    run.ask(OffsetFetchRequest(groups=[]), may_be_silent=True)


# -- OffsetDelete


def deleting(group: str, topic: str, *partitions: int) -> OffsetDeleteRequest:
    wanted = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    return OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=wanted)])


@case(OffsetDeleteRequest, "normal")
def of_an_empty_group(run: Run) -> None:
    group, topic = run.group(), run.topic("t", 2)
    committed(run, group, topic, 5, 6)
    run.ask(deleting(group, topic, 0))
    run.ask(fetching_newest(group, topic), 9)


@case(OffsetDeleteRequest, "edge")
def what_was_not_committed(run: Run) -> None:
    group, topic = run.group(), run.topic("t", 2)
    committed(run, group, topic, 5)
    run.ask(deleting(group, topic, 1))
    run.ask(OffsetDeleteRequest(group_id=group, topics=[]))


@case(OffsetDeleteRequest, "edge")
def of_a_live_group_that_reads_another_topic(run: Run) -> None:
    group, topic, other = run.group(), run.topic(), run.topic("other")
    member = stable(run, group, protocols=reading(other))
    committed(run, group, topic, 5, **by_member(member))
    run.ask(deleting(group, topic, 0))


@case(OffsetDeleteRequest, "wrong")
def of_a_topic_that_a_live_group_reads(run: Run) -> None:
    group, topic = run.group(), run.topic()
    member = stable(run, group, protocols=reading(topic))
    committed(run, group, topic, 5, **by_member(member))
    run.ask(deleting(group, topic, 0))


@case(OffsetDeleteRequest, "wrong")
def of_a_live_group_of_another_type(run: Run) -> None:
    group, topic = run.group(), run.topic()
    member = stable(run, group, protocol_type="connect")
    committed(run, group, topic, 5, **by_member(member))
    run.ask(deleting(group, topic, 0))


@case(OffsetDeleteRequest, "wrong")
def unknown_group_topic_and_partition(run: Run) -> None:
    group, topic = run.group(), run.topic()
    run.ask(deleting(group, topic, 0))
    committed(run, group, topic, 5)
    run.ask(deleting(group, run.name("missing"), 0))
    run.ask(deleting(group, topic, 7))
    run.ask(deleting("", topic, 0))


def reading(topic: str) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name="range", metadata=subscription(topic))]
