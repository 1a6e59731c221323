"""OffsetCommit and OffsetFetch of members of a consumer group, and by topic ids."""

from __future__ import annotations

from typing import Any

from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.primitives import ZERO_UUID
from tests.differential.cases.groups import stable
from tests.differential.internal_topics import note_group_records
from tests.differential.newer.consumer_groups import LEAVE, Member, beating, group_that_knows, settle
from tests.differential.play import Run, newer_case

NOBODYS_ID = bytes(15) + b"x"


def committing(
    run: Run, group: str, *offsets: int, topic: str | None = None, topic_id: bytes | None = None, **fields: Any
) -> OffsetCommitRequest:
    """Of the topic `t`, by what the version names it by."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="m")
        for index, offset in enumerate(offsets)
    ]
    named = OffsetCommitRequestTopic(
        name=run.name("t") if topic is None else topic,
        topic_id=run.last_topic_id if topic_id is None else topic_id,
        partitions=partitions,
    )
    return OffsetCommitRequest(group_id=group, topics=[named], **fields)


def by_member(member: Member, epoch: int | None = None) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "generation_id_or_member_epoch": member.epoch if epoch is None else epoch,
    }


def fetching(
    run: Run,
    group: str,
    member_id: str | None = None,
    epoch: int = -1,
    *,
    topic_id: bytes | None = None,
    is_all: bool = False,
) -> OffsetFetchRequest:
    if run.version < 8:
        old = OffsetFetchRequestTopic(name=run.name("t"), partition_indexes=[0, 1])
        return OffsetFetchRequest(group_id=group, topics=None if is_all else [old])
    wanted = OffsetFetchRequestTopics(
        name=run.name("t"), topic_id=run.last_topic_id if topic_id is None else topic_id, partition_indexes=[0, 1]
    )
    row = OffsetFetchRequestGroup(
        group_id=group, member_id=member_id, member_epoch=epoch, topics=None if is_all else [wanted]
    )
    return OffsetFetchRequest(groups=[row])


@newer_case(OffsetCommitRequest, "2-10")
def by_members_of_a_consumer_group(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    run.ask(committing(run, group, 5, 7, **by_member(member)))
    for epoch in (member.epoch + 1, member.epoch - 1, 0, -1):
        run.ask(committing(run, group, 9, **by_member(member, epoch)))
    run.ask(committing(run, group, 9, member_id=run.name("nobody"), generation_id_or_member_epoch=member.epoch))
    run.ask(committing(run, group, 9))
    run.ask(committing(run, group, 9, member_id=""))
    run.do(beating(group, member.member_id, LEAVE), 1)
    run.ask(committing(run, group, 11))
    run.ask(committing(run, group, 11, **by_member(member)))
    run.ask(committing(run, group, 11, generation_id_or_member_epoch=3))
    wanted = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])]
    )
    run.ask(OffsetFetchRequest(groups=[wanted]), 9)


@newer_case(OffsetCommitRequest, "9-10")
def an_epoch_behind_the_groups(run: Run) -> None:
    """A member that has not heard of the newest epoch may commit what it still owns."""
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    before = member.epoch
    other = Member(run, group, "m2", topic)
    other.do()
    run.ask(committing(run, group, 5, 7, **by_member(member, before)))
    run.ask(committing(run, group, 5, 7, **by_member(other)))
    settle(member, other)
    run.ask(committing(run, group, 6, 8, **by_member(member, before)))
    run.ask(committing(run, group, 6, 8, **by_member(member)))


@newer_case(OffsetCommitRequest, "2-10")
def topics_that_are_not_known(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    run.ask(committing(run, group, 5, topic=run.name("u"), topic_id=NOBODYS_ID))
    run.ask(committing(run, group, 5, topic_id=ZERO_UUID))
    run.ask(committing(run, group, 5, topic=run.name("u")))
    run.ask(committing(run, group, 5, 6, 7))
    run.ask(committing(run, ""))
    run.ask(committing(run, run.name("never"), 5, member_id="m", generation_id_or_member_epoch=3))


@newer_case(OffsetCommitRequest, "9-10")
def by_members_of_a_classic_group(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    member = stable(run, group)
    for generation in (member.generation_id, member.generation_id + 1, -1):
        run.ask(committing(run, group, 5, member_id=member.member_id, generation_id_or_member_epoch=generation))
    run.ask(committing(run, group, 5, member_id="nobody", generation_id_or_member_epoch=member.generation_id))
    run.ask(committing(run, group, 5))


@newer_case(OffsetCommitRequest, "10")
def stored_of_commits(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    run.do(committing(run, group, 5, 7, **by_member(member)), 10)
    run.do(beating(group, member.member_id, LEAVE), 1)
    rows = [OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    run.do(OffsetDeleteRequest(group_id=group, topics=rows))
    note_group_records(run, group)


@newer_case(OffsetFetchRequest, "1-10")
def of_a_member(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    run.do(committing(run, group, 5, **by_member(member)), 9)
    run.ask(fetching(run, group))
    run.ask(fetching(run, group, member.member_id, member.epoch))
    run.ask(fetching(run, group, member.member_id, member.epoch, is_all=run.version >= 2))
    for epoch in (member.epoch + 1, member.epoch - 1, 0, -1):
        run.ask(fetching(run, group, member.member_id, epoch))
    run.ask(fetching(run, group, run.name("nobody"), member.epoch))
    run.ask(fetching(run, group, "", member.epoch))
    run.ask(fetching(run, run.name("never"), run.name("nobody"), 4))
    run.ask(fetching(run, run.name("never")))


@newer_case(OffsetFetchRequest, "9-10")
def of_an_epoch_without_a_member(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    member = Member(run, group, "m", topic)
    settle(member)
    run.ask(fetching(run, group, None, member.epoch))


@newer_case(OffsetFetchRequest, "9-10")
def of_a_member_of_a_classic_group(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    member = stable(run, group)
    run.ask(fetching(run, group, member.member_id, member.generation_id))
    run.ask(fetching(run, group, member.member_id, member.generation_id + 1))
    run.ask(fetching(run, group, "nobody", member.generation_id))


@newer_case(OffsetFetchRequest, "10")
def by_ids_that_are_not_known(run: Run) -> None:
    topic = run.topic("t", 2)
    group = group_that_knows(run, topic)
    run.do(committing(run, group, 5), 9)
    run.ask(fetching(run, group, topic_id=NOBODYS_ID))
    run.ask(fetching(run, group, topic_id=ZERO_UUID))
    run.ask(fetching(run, group, is_all=True))


@newer_case(OffsetDeleteRequest, "0")
def deleted_of_a_consumer_group(run: Run) -> None:
    topic, other = run.topic("t", 2), run.topic("u")
    group = group_that_knows(run, topic, other)
    member = Member(run, group, "m", topic)
    settle(member)
    run.do(committing(run, group, 5, topic=topic, **by_member(member)), 9)
    run.do(committing(run, group, 5, topic=other, **by_member(member)), 9)
    for name in (topic, other, run.name("never")):
        rows = [OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
        run.ask(OffsetDeleteRequest(group_id=group, topics=rows))
