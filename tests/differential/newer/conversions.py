"""Groups that move between the protocols while members are in them, and what is stored of them."""

from __future__ import annotations

import itertools
import json
from typing import Any

from client.membership.assignors import encode_assignment
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.stored.consumer_protocol import ConsumerProtocolSubscription, SubscriptionTopicPartition
from tests.differential.cases.groups import joining as joining_classic
from tests.differential.cases.groups import syncing
from tests.differential.internal_topics import note_group_records
from tests.differential.newer.consumer_groups import LEAVE, Member, beating, group_that_knows, joining, settle
from tests.differential.play import Run, newer_case

JOIN, SYNC, HEARTBEAT, LEAVE_GROUP, CONSUMER = 9, 5, 4, 5, 1
"""The versions of the requests."""


def reading(topic: str, owned: tuple[int, ...] = (), assignor: str = "range") -> list[JoinGroupRequestProtocol]:
    rows = [SubscriptionTopicPartition(topic=topic, partitions=list(owned))] if owned else []
    metadata = ConsumerProtocolSubscription(topics=[topic], owned_partitions=rows).encode_stored(1)
    return [JoinGroupRequestProtocol(name=assignor, metadata=metadata)]


def beating_classic(group: str, member: Any, generation: int | None = None, **fields: Any) -> HeartbeatRequest:
    epoch = member.generation_id if generation is None else generation
    return HeartbeatRequest(group_id=group, generation_id=epoch, member_id=member.member_id, **fields)


def leaving_classic(group: str, member_id: str, instance_id: str | None = None) -> LeaveGroupRequest:
    identity = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    return LeaveGroupRequest(group_id=group, members=[identity])


def stable_classic(run: Run, group: str, topic: str, partitions: int, data: bytes = b"", **fields: Any) -> Any:
    """A classic group of one member that reads all of the topic."""
    request = joining_classic(group, protocols=reading(topic), **fields)
    answer = run.do(request, JOIN)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = run.do(joining_classic(group, answer.member_id, protocols=reading(topic), **fields), JOIN)
    assert answer.error_code == 0, answer
    share = data or encode_assignment([(topic, partition) for partition in range(partitions)])
    request_sync = syncing(
        group,
        answer.generation_id,
        answer.member_id,
        {answer.member_id: share},
        group_instance_id=fields.get("group_instance_id"),
    )
    assert run.do(request_sync, SYNC).error_code == 0
    return answer


def rejoining(run: Run, group: str, topic: str, member: Any, *owned: int, **fields: Any) -> Any:
    """Join as a known member, and synchronise."""
    answer = run.ask(joining_classic(group, member.member_id, protocols=reading(topic, owned), **fields), JOIN)
    run.ask(syncing(group, answer.generation_id, answer.member_id), SYNC)
    return answer


def comparable(records: list[Any]) -> list[Any]:
    """Without the record of a group that has no generation yet, the tombstone of a kind that is not written any more, and the
    bytes, which have member ids in them; and records of one kind in the order of their members, not of a hash map."""
    kept = [
        {name: value for name, value in record.items() if name != "bytes"}
        for record in records
        if record["kind"] != "4 ConsumerGroupPartitionMetadata" and (record["value"] or {}).get("generation") != 0
    ]
    runs = itertools.groupby(kept, key=lambda record: (record["kind"], record["value"] is None))
    return [record for _, run in runs for record in sorted(run, key=lambda each: json.dumps(each["key"]))]


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def a_classic_group_becomes_a_consumer_group(run: Run) -> None:
    topic = run.topic(partitions=4)
    group = group_that_knows(run, topic)
    classic = stable_classic(run, group, topic, 4)
    member = Member(run, group, "m", topic)
    member.ask()
    run.ask(beating_classic(group, classic), HEARTBEAT)
    run.ask(syncing(group, classic.generation_id, classic.member_id), SYNC)
    classic = rejoining(run, group, topic, classic, 0, 1, 2, 3)  # has to give up two
    member.ask()
    run.ask(beating_classic(group, classic), HEARTBEAT)
    classic = rejoining(run, group, topic, classic, 0, 1)
    run.ask(beating_classic(group, classic), HEARTBEAT)
    member.ask()
    member.ask()
    note_group_records(run, group, comparable)


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def a_classic_member_gets_what_becomes_free(run: Run) -> None:
    topic = run.topic(partitions=4)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    answer = run.ask(joining_classic(group, protocols=reading(topic)), JOIN)
    classic = rejoining(run, group, topic, answer)
    run.ask(beating_classic(group, classic), HEARTBEAT)
    member.ask()
    member.ask()
    run.ask(beating_classic(group, classic), HEARTBEAT)
    classic = rejoining(run, group, topic, classic)
    run.ask(beating_classic(group, classic), HEARTBEAT)


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def the_last_member_of_the_new_protocol_leaves(run: Run) -> None:
    topic = run.topic(partitions=2)
    group = group_that_knows(run, topic)
    classic = stable_classic(run, group, topic, 2)
    member = Member(run, group, "m", topic)
    member.do()
    run.ask(beating(group, member.member_id, LEAVE))
    run.ask(beating_classic(group, classic, 2), HEARTBEAT)
    run.ask(joining(group, member.member_id, topic, subscribed_topic_names=None, subscribed_topic_regex="("))
    rejoined = run.ask(joining_classic(group, classic.member_id, protocols=reading(topic)), JOIN)
    share = encode_assignment([(topic, 0), (topic, 1)])
    run.ask(syncing(group, rejoined.generation_id, rejoined.member_id, {rejoined.member_id: share}), SYNC)
    run.ask(beating_classic(group, rejoined), HEARTBEAT)
    note_group_records(run, group, comparable)


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def a_static_member_goes_from_one_protocol_to_the_other_and_back(run: Run) -> None:
    topic = run.topic(partitions=2)
    group = group_that_knows(run, topic)
    static = {"group_instance_id": "i"}
    classic = stable_classic(run, group, topic, 2, **static)
    run.ask(beating_classic(group, classic, **static), HEARTBEAT)
    member = Member(run, group, "m", topic, instance_id="i")
    member.ask()
    run.ask(beating_classic(group, classic, **static), HEARTBEAT)
    run.ask(joining_classic(group, classic.member_id, protocols=reading(topic), **static), JOIN)
    run.ask(joining_classic(group, "", protocols=reading(topic), group_instance_id="another"), JOIN)
    run.ask(beating(group, member.member_id, -2, instance_id="i"))
    back = run.ask(joining_classic(group, "", protocols=reading(topic), **static), JOIN)
    run.ask(syncing(group, back.generation_id, back.member_id, **static), SYNC)


@newer_case(ConsumerGroupHeartbeatRequest, "1")
def classic_groups_that_cannot_be_converted(run: Run) -> None:
    topic = run.topic(partitions=2)
    malformed = group_that_knows(run, topic, short="malformed")
    broken = [JoinGroupRequestProtocol(name="range", metadata=b"\0")]
    answer = run.do(joining_classic(malformed, protocols=broken), JOIN)
    run.do(joining_classic(malformed, answer.member_id, protocols=broken), JOIN)
    run.ask(joining(malformed, run.name("m"), topic))
    custom = group_that_knows(run, topic, short="custom")
    stable_classic(run, custom, topic, 2, encode_assignment([(topic, 0)])[:-4] + b"\0\0\0\1x")
    run.ask(joining(custom, run.name("m"), topic))


@newer_case(JoinGroupRequest, "9")
def another_assignor_than_the_other_classic_members(run: Run) -> None:
    topic = run.topic(partitions=2)
    group = group_that_knows(run, topic)
    classic = stable_classic(run, group, topic, 2)
    member = Member(run, group, "m", topic)
    member.do()
    run.ask(joining_classic(group, protocols=reading(topic, assignor="other")))
    run.ask(joining_classic(group, "nobody", protocols=reading(topic, assignor="other")))
    run.ask(beating_classic(group, classic, 77), HEARTBEAT)
    run.ask(syncing(group, classic.generation_id, classic.member_id, protocol_name="other"), SYNC)
    run.ask(leaving_classic(group, classic.member_id), LEAVE_GROUP)
    run.ask(leaving_classic(group, "nobody"), LEAVE_GROUP)
    run.ask(leaving_classic(group, "", "nobody"), LEAVE_GROUP)
