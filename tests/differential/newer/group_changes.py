"""What happens to consumer groups while partitions and topics come and go, and when a member does not let go."""

from __future__ import annotations

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.primitives import ZERO_UUID
from tests.differential.internal_topics import note_group_records
from tests.differential.newer.consumer_groups import LEAVE, Member, beating, group_that_knows, joining, settle
from tests.differential.newer.transactions import Producer
from tests.differential.play import Run, newer_case


@newer_case(ConsumerGroupHeartbeatRequest)
def a_topic_that_grows(run: Run) -> None:
    topic = run.topic("t", 1)
    member = Member(run, group_that_knows(run, topic), "m", topic)
    settle(member)
    growing = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    (row,) = run.do(CreatePartitionsRequest(topics=[growing], timeout_ms=30_000, validate_only=False)).results
    assert row.error_code == 0, row
    run.until("the new partitions are assigned", lambda: member.do() and member.owned == {run.last_topic_id: [0, 1, 2]})
    run.note({"epoch": member.epoch})


@newer_case(ConsumerGroupHeartbeatRequest)
def a_topic_that_is_deleted(run: Run) -> None:
    gone, kept = run.topic("gone"), run.topic("kept")
    member = Member(run, group_that_knows(run, gone, kept), "m", gone, kept)
    settle(member)
    deleting = DeleteTopicState(name=gone, topic_id=ZERO_UUID)
    (row,) = run.do(DeleteTopicsRequest(topics=[deleting], timeout_ms=30_000), 6).responses
    assert row.error_code == 0, row
    run.until("it is not assigned any more", lambda: member.do() and member.owned == {run.last_topic_id: [0]})
    settle(member)
    run.note({"epoch": member.epoch})


@newer_case(ConsumerGroupHeartbeatRequest)
def a_member_that_does_not_let_go(run: Run) -> None:
    """It has its rebalance timeout for that."""
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    slow = Member(run, group, "m1", topic, rebalance_timeout_ms=300)
    settle(slow)
    other = Member(run, group, "m2", topic)
    other.do()
    keeping = beating(group, slow.member_id, slow.epoch)

    def is_fenced() -> bool:
        other.do()
        return bool(run.do(keeping, slow.version).error_code)

    run.until("it is fenced", is_fenced)
    run.ask(keeping)
    run.until("the other has everything", lambda: other.do() and other.owned == {run.last_topic_id: [0, 1]})
    run.note({"epoch of the other": other.epoch})


@newer_case(ConsumerGroupHeartbeatRequest)
def three_members_by_range(run: Run) -> None:
    topics = run.topic("a", 4), run.topic("b", 2), run.topic("c", 1)
    group = group_that_knows(run, *topics)
    members = [
        Member(run, group, f"m{number}", *topics[: number + 1], server_assignor="range", instance_id=f"i{number}")
        for number in range(3)
    ]
    for number in range(3):
        settle(*members[: number + 1])
    run.ask(ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 1)


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def names_beside_an_expression(run: Run) -> None:
    topics = run.topic("a"), run.topic("b")
    group = group_that_knows(run, *topics)
    member = Member(run, group, "m", topics[0], subscribed_topic_regex=f"{run.prefix}b")
    member.do()
    run.until("both are assigned", lambda: member.do() and len(member.owned) == 2)
    member.ask(subscribed_topic_names=[])
    member.ask()
    run.ask(ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 1)


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def stored_of_a_deleted_group(run: Run) -> None:
    topics = run.topic("t"), run.topic("x")
    group = group_that_knows(run, *topics)
    member = Member(run, group, "m", topics[0], subscribed_topic_regex=f"{run.prefix}x")
    member.do()
    run.until("both are assigned", lambda: member.do() and len(member.owned) == 2)
    settle(member)
    run.do(beating(group, member.member_id, LEAVE), 1)
    (row,) = run.do(DeleteGroupsRequest(groups_names=[group])).results
    assert row.error_code == 0, row
    note_group_records(run, group)


@newer_case(ConsumerGroupHeartbeatRequest)
def another_member_with_the_same_id(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    run.ask(joining(group, member.member_id, topic))
    run.ask(joining(group, member.member_id, topic, rack_id="r"))
    run.ask(joining(group, member.member_id, topic, instance_id="one"))
    run.ask(beating(group, member.member_id, LEAVE))


@newer_case(TxnOffsetCommitRequest, "3-5")
def by_a_member_of_a_consumer_group(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    producer = Producer(run)
    producer.begin()
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="m")
    for member_id, epoch in (
        (member.member_id, member.epoch + 1),
        (member.member_id, member.epoch - 1),
        (run.name("nobody"), member.epoch),
        ("", -1),
        (member.member_id, member.epoch),
    ):
        request = TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            generation_id=epoch,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        run.ask(request)
