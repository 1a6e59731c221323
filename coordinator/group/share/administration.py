"""Administration of share groups without members: their partitions begin elsewhere, or are forgotten.

Each change has two parts in the shard, and a request to the share coordinator between them: what is asked is noted first, so
that whoever coordinates the group next knows of it; what became of it is noted after that.

Rules: no IO. Every change goes through the journal. While the share coordinator is being asked to forget a topic, members that
join do not ask for its states.
Source: Kafka GroupMetadataManager.alterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion,
completeDeleteShareGroupOffsets, shareGroupBuildPartitionDeleteRequest (KIP-932).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from coordinator.group.assigned.entries import EntryKey, EntryKind
from coordinator.group.assigned.journal import Journal
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.share import partitions
from coordinator.group.share.entries import SharePartitions
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.membership import ShareMembership
from coordinator.group.share.state_keeping import NewState, Place
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    AlteredTopic,
    AlterShareGroupOffsetsResponse,
    PartitionResult,
)
from protocol.messages.alter_share_group_offsets import TopicResult as AlteredTopicResult
from protocol.messages.delete_share_group_offsets import TopicResult as DeletedTopicResult
from protocol.primitives import ZERO_UUID

NOTHING_TO_DELETE = "There is no offset information to delete."


@dataclass(frozen=True, slots=True)
class PlannedOffsets:
    """What the share coordinator is to be asked, and the response if it does all of it."""

    rows: tuple[NewState, ...]
    response: AlterShareGroupOffsetsResponse


@dataclass(frozen=True, slots=True)
class PlannedDeletion:
    """The states that are to be forgotten, of `topics`, names by id; `refused` are the results of other topics."""

    rows: tuple[Place, ...] = ()
    topics: dict[bytes, str] = field(default_factory=dict)
    refused: list[DeletedTopicResult] = field(default_factory=list)


class ShareAdministration:
    """Of the share groups of a shard."""

    def __init__(self, topics: GroupTopics, membership: ShareMembership) -> None:
        self._topics = topics
        self._membership = membership

    def plan_offsets(
        self, group: ShareGroup, topics: Iterable[AlteredTopic], journal: Journal, now_ms: int
    ) -> PlannedOffsets:
        """Partitions that do not exist are refused one by one."""
        starts: dict[Place, int] = {}
        names: dict[bytes, str] = {}
        responses = []
        for topic in topics:
            image = self._topics.names().get(topic.topic_name)
            known = 0 if image is None else len(image.partitions)
            topic_id = ZERO_UUID if image is None else image.topic_id
            results = []
            for row in topic.partitions:
                error = ErrorCode.NONE if 0 <= row.partition_index < known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                results.append(partition_result(row.partition_index, error))
                if error is ErrorCode.NONE:
                    starts[topic_id, row.partition_index] = row.start_offset
                    names[topic_id] = topic.topic_name
            responses.append(AlteredTopicResult(topic_name=topic.topic_name, topic_id=topic_id, partitions=results))
        rows = self._membership.ask_for(group, starts, names, journal, now_ms) if starts else ()
        return PlannedOffsets(
            rows, AlterShareGroupOffsetsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, responses=responses)
        )

    def plan_deletion(self, group: ShareGroup, names: Iterable[str], journal: Journal) -> PlannedDeletion:
        """Forget topics of the group. One whose deletion failed before is tried again."""
        known = group.partitions
        plan = PlannedDeletion()
        rows: list[Place] = []
        for name in names:
            image = self._topics.names().get(name)
            if image is None:
                plan.refused.append(deletion_refused(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            of_topic: Iterable[int] = known.initialized.get(image.topic_id, ())
            if not of_topic and image.topic_id in known.deleting:
                of_topic = range(len(image.partitions))
            if of_topic:
                rows += [(image.topic_id, partition) for partition in sorted(of_topic)]
                plan.topics[image.topic_id] = name
            else:
                plan.refused.append(deletion_refused(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE))
        self._note(group, partitions.deleting(known, plan.topics, plan.topics), journal)
        self._forget(group, plan.topics, journal)
        return PlannedDeletion(tuple(rows), plan.topics, plan.refused)

    def plan_removal(self, group: ShareGroup, journal: Journal) -> PlannedDeletion:
        """Forget everything, before the group is removed."""
        known = group.partitions
        states = {topic_id: set(of_topic) for topic_id, of_topic in partitions.all_of(known).items()}
        names = dict(known.names)
        for topic_id in known.deleting:
            name = self._topics.name_of(topic_id)
            if name is not None:
                states.setdefault(topic_id, set()).update(range(self._topics.partitions_count(topic_id)))
        topics = {topic_id: names[topic_id] for topic_id in states}
        if topics:
            self._note(group, partitions.deleting(known, topics, topics), journal)
            self._forget(group, topics, journal)
        rows = tuple((topic_id, partition) for topic_id in sorted(states) for partition in sorted(states[topic_id]))
        return PlannedDeletion(rows, topics)

    def finish_deletion(
        self, group: ShareGroup, asked: Iterable[bytes], done: Collection[bytes], journal: Journal
    ) -> None:
        """The share coordinator has answered about the topics `asked`, and has forgotten those of `done`."""
        group.forgetting -= frozenset(asked)
        if done:
            self._note(group, partitions.deleted(group.partitions, done), journal)

    def _note(self, group: ShareGroup, after: SharePartitions, journal: Journal) -> None:
        """Also when nothing has changed, as Apache Kafka does; but not in a group that never asked for a state."""
        if group.has_partitions or after.names:
            journal.put(group, EntryKey(EntryKind.SHARE_PARTITIONS, group.group_id), after)

    def _forget(self, group: ShareGroup, topic_ids: Iterable[bytes], journal: Journal) -> None:
        before = group.forgetting
        group.forgetting = before | frozenset(topic_ids)
        journal.then_undo(lambda: setattr(group, "forgetting", before))


def partition_result(partition: int, error: ErrorCode) -> PartitionResult:
    message = None if error is ErrorCode.NONE else error.message
    return PartitionResult(partition_index=partition, error_code=error, error_message=message)


def deletion_refused(name: str, error: ErrorCode, message: str | None = None) -> DeletedTopicResult:
    return DeletedTopicResult(
        topic_name=name, topic_id=ZERO_UUID, error_code=error, error_message=message or error.message
    )
