"""Share groups beside groups of other kinds: described, listed, deleted, and taken for one of another kind."""

from __future__ import annotations

from typing import Any

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.share_group_describe import ShareGroupDescribeRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.primitives import uuid_to_text
from tests.differential.internal_topics import note_group_records
from tests.differential.newer import consumer_groups
from tests.differential.newer.consumer_groups import group_that_knows
from tests.differential.newer.share_members import ShareMember, joining, member_id
from tests.differential.play import Run, newer_case


def describing(*groups: str, with_rights: bool = False) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=with_rights)


@newer_case(ShareGroupDescribeRequest)
def groups_in_each_state(run: Run) -> None:
    topic = run.topic(partitions=2)
    topic_id = run.last_topic_id
    group = group_that_knows(run, topic)
    run.ask(describing(group))
    first = ShareMember(run, group, "m1", topic, rack_id="r").join((topic_id, 0), (topic_id, 1))
    run.ask(describing(group, with_rights=True))
    second = ShareMember(run, group, "m2", topic)
    second.do()
    first.do()
    second.leave()
    first.do()
    run.ask(describing(group))
    first.leave()
    run.ask(describing(group, group, run.name("nobody"), ""))
    run.ask(describing())


@newer_case(ShareGroupDescribeRequest)
def groups_of_another_kind(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    consumer_groups.Member(run, group, "m", topic).do()
    run.ask(describing(group))
    run.ask(joining(group, member_id(run, "m2"), topic))


@newer_case(ShareGroupHeartbeatRequest)
def requests_of_groups_of_another_kind(run: Run) -> None:
    topic = run.topic()
    topic_id = run.last_topic_id
    group = group_that_knows(run, topic)
    member = ShareMember(run, group, "m", topic).join((topic_id, 0))

    def ask_the_others() -> None:
        run.ask(consumer_groups.joining(group, run.name("c"), topic), 1)
        run.ask(ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 1)
        for version in (5, 6):
            run.ask(DescribeGroupsRequest(groups=[group]), version)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        run.ask(
            JoinGroupRequest(
                group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="",
                protocol_type="consumer", protocols=protocols,
            ),
            3,
        )  # fmt: skip
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        run.ask(
            OffsetCommitRequest(
                group_id=group, topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[row])]
            ),
            9,
        )
        asked = OffsetFetchRequestGroup(group_id=group, member_id=None, member_epoch=-1, topics=None)
        run.ask(OffsetFetchRequest(groups=[asked], require_stable=False), 9)

    ask_the_others()
    member.leave()
    ask_the_others()


@newer_case(ListGroupsRequest, "0-5")
def share_groups_among_others(run: Run) -> None:
    def mine(answer: Any) -> None:
        answer.groups = [row for row in answer.groups if row.group_id == group]

    topic = run.topic()
    group = group_that_knows(run, topic)
    member = ShareMember(run, group, "m", topic).join((run.last_topic_id, 0))
    run.ask(ListGroupsRequest(), pick=mine)
    run.ask(ListGroupsRequest(types_filter=["share"]), 5, pick=mine)
    run.ask(ListGroupsRequest(types_filter=["Share", "consumer"], states_filter=["Stable"]), 5, pick=mine)
    run.ask(ListGroupsRequest(types_filter=["consumer", "classic"]), 5, pick=mine)
    run.ask(ListGroupsRequest(states_filter=["empty"]), 5, pick=mine)
    member.leave()
    run.ask(ListGroupsRequest(), pick=mine)
    run.ask(ListGroupsRequest(states_filter=["empty"]), 5, pick=mine)


@newer_case(DeleteGroupsRequest, "0-2")
def share_groups_with_and_without_members(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    member = ShareMember(run, group, "m", topic).join((run.last_topic_id, 0))
    run.ask(DeleteGroupsRequest(groups_names=[group, run.name("nobody")]))
    member.leave()
    run.ask(DeleteGroupsRequest(groups_names=[group]))
    run.ask(describing(group), 1)
    run.ask(DeleteGroupsRequest(groups_names=[group]))
    note_group_records(run, group)


@newer_case(FindCoordinatorRequest, "0-6")
def of_share_partitions(run: Run) -> None:
    topic_id = b"\x07" * 16
    key = f"{run.name('g')}:{uuid_to_text(topic_id)}:0"

    def ask(*keys: str) -> None:
        if run.version < 4:
            run.ask(FindCoordinatorRequest(key=keys[0], key_type=2 if run.version else 0))
        else:
            run.ask(FindCoordinatorRequest(coordinator_keys=list(keys), key_type=2))

    def is_there() -> bool:
        answer = run.do(FindCoordinatorRequest(coordinator_keys=[key], key_type=2), 6)
        return bool(answer.coordinators[0].error_code == 0)

    run.until("there is a share coordinator", is_there)
    ask(key)
    ask(
        "",
        "g",
        "g:0",
        f"g:{uuid_to_text(topic_id)}:x",
        f"g:{uuid_to_text(topic_id)}:-1",
        f"g:h:{uuid_to_text(topic_id)}:1",
    )
    for bad in ("g", "g:abc:0", f":{uuid_to_text(topic_id)}:0", f"g:h:{uuid_to_text(topic_id)}:1", "g::0", "::"):
        ask(bad)


@newer_case(ShareGroupHeartbeatRequest)
def stored_of_a_share_group(run: Run) -> None:
    topic = run.topic()
    topic_id = run.last_topic_id
    group = group_that_knows(run, topic)
    first = ShareMember(run, group, "m1", topic, rack_id="r").join((topic_id, 0))
    second = ShareMember(run, group, "m2", topic)
    second.do()
    first.do()
    first.leave()
    second.leave()
    note_group_records(run, group)


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def a_group_that_was_a_share_group(run: Run) -> None:
    topic = run.topic()
    group = group_that_knows(run, topic)
    ShareMember(run, group, "m", topic).join((run.last_topic_id, 0)).leave()
    run.ask(consumer_groups.joining(group, run.name("c"), topic))
    run.do(DeleteGroupsRequest(groups_names=[group]), 2)
    run.ask(consumer_groups.joining(group, run.name("c"), topic))
    run.ask(joining(group, member_id(run, "m"), topic), 1)
