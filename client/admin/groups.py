"""Groups of consumers: list, describe, delete; what they have committed; members that are taken out. Pure.

Rules: groups are asked of their coordinators, many of one coordinator in one request. A commit from outside has no member and
no generation, which a coordinator takes for a group without members only.
Source: KIP-88, KIP-229, KIP-396, KIP-496, KIP-518, KIP-571, KIP-848, KIP-932.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from client.admin import share_groups
from client.admin.brokers import checked, each_broker
from client.admin.steps import ByVersion, KeyKind, Rows, Steps, by_topic, located, located_at_one, rows_of
from client.committing import GroupMembership, OffsetAndMetadata
from client.membership.assignors import encode_assignment
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.share_group_describe import DescribedGroup as ShareGroup
from protocol.primitives import DecodeError
from protocol.stored.consumer_protocol import ConsumerProtocolAssignment
from protocol.stored.stored import VERSION_BYTES, stored_version
from protocol.topic_partition import TopicPartition

CLASSIC = "classic"
"""The kind of groups whose members assign."""
CONSUMER = "consumer"
"""The protocol type of consumers, and the kind of groups for which brokers assign."""
SHARE = "share"
"""The kind of groups whose members share partitions."""
_FIRST_OF_SEVERAL_GROUPS = 8
"""The version of OffsetFetch from which a request names several groups."""
_ONE_AT_A_TIME = ErrorCode.UNSUPPORTED_VERSION
_DEAD = "Dead"
_OF_ANOTHER_KIND = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
_REMOVED = "member was removed by an administrator"


T = TypeVar("T")


class ListedGroups(NamedTuple):
    """The groups by coordinator, and why brokers have returned none."""

    groups: dict[int, list[ListedGroup]]
    errors: dict[int, KafkaError]


def list_all() -> Steps[ListedGroups]:
    """Return the groups of all brokers. Raises KafkaError."""
    found = yield from each_broker(ListGroupsRequest())
    groups = {broker: each.groups for broker, each in found.items() if not isinstance(each, KafkaError)}
    return ListedGroups(groups, {broker: each for broker, each in found.items() if isinstance(each, KafkaError)})


class CoordinatedGroup(NamedTuple):
    """`consumer` is there for a group of the consumer protocol (KIP-848), `share` for a share group (KIP-932); `group` has what
    all kinds have."""

    group: DescribedGroup
    coordinator: int
    consumer: ConsumerGroup | None = None
    share: ShareGroup | None = None

    @property
    def kind(self) -> str:
        """CLASSIC, CONSUMER or SHARE."""
        return SHARE if self.share is not None else CLASSIC if self.consumer is None else CONSUMER

    @property
    def newer(self) -> ConsumerGroup | ShareGroup | None:
        """The group in its own form, with epochs; None for a classic one."""
        return self.share or self.consumer


def describe(groups: Collection[str]) -> Steps[dict[str, CoordinatedGroup | KafkaError]]:
    """Return the state and the members of groups; one that there is not has the state "Dead".

    DescribeGroups knows classic groups. What is dead to it may be a group of the consumer protocol, or a share group: the next
    requests say."""
    coordinators: dict[str, int] = {}

    def locate(keys: list[str]) -> Steps[Mapping[str, Any]]:
        places = yield from located(KeyKind.GROUP)(keys)
        coordinators.update((key, place) for key, place in places.items() if isinstance(place, int))
        return places

    def read(response: Any) -> Rows[str, DescribedGroup]:
        return ((row.group_id, row.error_code, None, row) for row in response.groups)

    classic = yield from rows_of(groups, locate, lambda some: DescribeGroupsRequest(groups=some), read)
    found: dict[str, CoordinatedGroup | KafkaError] = {
        name: each if isinstance(each, KafkaError) else CoordinatedGroup(each, coordinators[name])
        for name, each in classic.items()
    }
    for name, consumer in (yield from _described_as(found, _describe_consumers)).items():
        found[name] = (
            consumer
            if isinstance(consumer, KafkaError)
            else CoordinatedGroup(described_newer(consumer, CONSUMER), coordinators[name], consumer=consumer)
        )
    for name, share in (yield from _described_as(found, share_groups.describe)).items():
        found[name] = (
            share
            if isinstance(share, KafkaError)
            else CoordinatedGroup(described_newer(share, SHARE), coordinators[name], share=share)
        )
    return found


def _described_as(
    found: Mapping[str, CoordinatedGroup | KafkaError],
    ask_for: Callable[[list[str]], Steps[dict[str, T | KafkaError]]],
) -> Steps[dict[str, T | KafkaError]]:
    """Ask for what is dead so far as another kind; return what is of this kind, or is not told for another reason than that it
    is not. A broker before 3.7 does not know such a request, and one of 3.9 with ZooKeeper has no such groups."""
    dead = [
        name for name, each in found.items() if not isinstance(each, KafkaError) and each.group.group_state == _DEAD
    ]
    answers = (yield from ask_for(dead)) if dead else {}
    return {
        name: each
        for name, each in answers.items()
        if not isinstance(each, KafkaError) or each.code not in _OF_ANOTHER_KIND
    }


def _describe_consumers(groups: list[str]) -> Steps[dict[str, ConsumerGroup | KafkaError]]:
    def read(response: Any) -> Rows[str, ConsumerGroup]:
        return ((row.group_id, row.error_code, row.error_message, row) for row in response.groups)

    return (
        yield from rows_of(
            groups,
            located(KeyKind.GROUP),
            lambda some: ConsumerGroupDescribeRequest(group_ids=some, include_authorized_operations=False),
            read,
        )
    )


def described_newer(group: ConsumerGroup | ShareGroup, kind: str) -> DescribedGroup:
    """Return a group of a newer protocol in the form of a classic one."""
    return DescribedGroup(
        error_code=group.error_code,
        group_id=group.group_id,
        group_state=group.group_state,
        protocol_type=kind,
        protocol_data=group.assignor_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=getattr(member, "instance_id", None),
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"",
                member_assignment=encode_assignment(
                    [(row.topic_name, each) for row in member.assignment.topic_partitions for each in row.partitions]
                ),
            )
            for member in group.members
        ],
    )


def assigned(member: DescribedGroupMember, group: DescribedGroup) -> list[TopicPartition]:
    """Return what a member of a group of consumers reads. Raises DecodeError for what is not in their form: leaders assign
    whatever bytes they like."""
    if group.protocol_type not in ("", CONSUMER, SHARE):
        raise DecodeError(f"the group's protocol type is {group.protocol_type}")
    content = member.member_assignment
    if not content:
        return []
    # A later version has only more behind what is known of it.
    version = min(stored_version(content), ConsumerProtocolAssignment.max_version)
    assignment, _ = ConsumerProtocolAssignment.decoder(version)(content, VERSION_BYTES, len(content))
    return [(topic.topic, each) for topic in assignment.assigned_partitions for each in topic.partitions]


def delete(groups: Collection[str]) -> Steps[dict[str, KafkaError | None]]:
    """Delete groups without members, with their offsets."""

    def read(response: Any) -> Rows[str, None]:
        return ((row.group_id, row.error_code, None, None) for row in response.results)

    return (
        yield from rows_of(groups, located(KeyKind.GROUP), lambda some: DeleteGroupsRequest(groups_names=some), read)
    )


def committed_offsets(group: str) -> Steps[dict[TopicPartition, int]]:
    """Return what a group has committed, without partitions that have no offset. Raises KafkaError."""
    return checked((yield from committed_offsets_of([group])))[group]


def committed_offsets_of(groups: Collection[str]) -> Steps[dict[str, dict[TopicPartition, int] | KafkaError]]:
    """Return what each group has committed, without partitions that have no offset. Many groups of one coordinator are one
    request, except with a broker that knows only requests about one."""
    found = yield from _committed(groups)
    alone = [group for group, each in found.items() if isinstance(each, KafkaError) and each.code is _ONE_AT_A_TIME]
    for group in alone if len(groups) > 1 else ():
        found |= yield from _committed([group])
    return found


def _committed(groups: Collection[str]) -> Steps[dict[str, dict[TopicPartition, int] | KafkaError]]:
    def request_of(some: list[str]) -> ByVersion:
        def in_version(version: int) -> OffsetFetchRequest:
            if version >= _FIRST_OF_SEVERAL_GROUPS:
                return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in some])
            if len(groups) > 1:
                raise KafkaError(_ONE_AT_A_TIME)
            return OffsetFetchRequest(group_id=some[0], topics=None)

        return ByVersion(OffsetFetchRequest, in_version)

    def read(response: Any) -> Rows[str, dict[TopicPartition, int]]:
        # The answer of older brokers does not name the group: it is the only one that was asked for.
        for one in response.groups or [response]:
            rows = [(topic.name, row) for topic in one.topics for row in topic.partitions]
            code = one.error_code or next((row.error_code for _, row in rows if row.error_code), 0)
            offsets = {
                (name, row.partition_index): row.committed_offset for name, row in rows if row.committed_offset >= 0
            }
            yield getattr(one, "group_id", next(iter(groups))), code, None, offsets

    return (yield from rows_of(groups, located(KeyKind.GROUP), request_of, read))


def stable_offsets(
    group: str, keys: Collection[TopicPartition] | None = None
) -> Steps[dict[TopicPartition, OffsetAndMetadata]]:
    """Return what a group has committed, with the texts beside the offsets, when no transaction is open that may change one.
    Among all (`keys` is None) brokers do not count partitions that have no offset yet, of which the first one is in such a
    transaction: these must be named. Raises KafkaError: UNSTABLE_OFFSET_COMMIT while there is one."""
    named = None if keys is None else by_topic(keys)

    def request_of(some: list[str]) -> ByVersion:
        def in_version(version: int) -> OffsetFetchRequest:
            if version >= _FIRST_OF_SEVERAL_GROUPS:
                of_group = None
                if named is not None:
                    of_group = [
                        OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in named.items()
                    ]
                asked = OffsetFetchRequestGroup(group_id=some[0], topics=of_group)
                return OffsetFetchRequest(groups=[asked], require_stable=True)
            topics = None
            if named is not None:
                topics = [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in named.items()]
            return OffsetFetchRequest(group_id=some[0], topics=topics, require_stable=True)

        return ByVersion(OffsetFetchRequest, in_version)

    def read(response: Any) -> Rows[str, dict[TopicPartition, OffsetAndMetadata]]:
        of_group = response.groups[0] if response.groups else response
        rows = [(topic.name, row) for topic in of_group.topics for row in topic.partitions]
        code = of_group.error_code or next((row.error_code for _, row in rows if row.error_code), 0)
        found = {
            (name, row.partition_index): OffsetAndMetadata(
                row.committed_offset, row.committed_leader_epoch, row.metadata
            )
            for name, row in rows
            if row.committed_offset >= 0
        }
        yield group, code, None, found

    found = yield from rows_of([group], located(KeyKind.GROUP), request_of, read)
    return checked(found)[group]


def commit_offsets(
    group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], member: GroupMembership | None = None
) -> Steps[dict[TopicPartition, KafkaError | None]]:
    """Commit offsets, for a group without members or as one of its members."""
    by = member or GroupMembership(group)
    wanted = {key: OffsetAndMetadata(each) if isinstance(each, int) else each for key, each in offsets.items()}

    def request_of(keys: list[TopicPartition]) -> OffsetCommitRequest:
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=each,
                        committed_offset=wanted[topic, each].offset,
                        committed_leader_epoch=wanted[topic, each].leader_epoch,
                        committed_metadata=wanted[topic, each].metadata,
                    )
                    for each in partitions
                ],
            )
            for topic, partitions in by_topic(keys).items()
        ]
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=by.generation_id,
            member_id=by.member_id,
            group_instance_id=by.instance_id,
            topics=topics,
        )

    return (yield from rows_of(offsets, located_at_one(KeyKind.GROUP, group), request_of, _partition_rows))


def delete_offsets(group: str, keys: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, KafkaError | None]]:
    """Make a group forget what it has committed, for topics that no member reads."""

    def request_of(some: list[TopicPartition]) -> OffsetDeleteRequest:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
            )
            for topic, partitions in by_topic(some).items()
        ]
        return OffsetDeleteRequest(group_id=group, topics=topics)

    return (yield from rows_of(keys, located_at_one(KeyKind.GROUP, group), request_of, _partition_rows))


class MemberName(NamedTuple):
    """A static member is named by its instance id, any other by its member id."""

    member_id: str
    instance_id: str | None


def remove_members(group: str, members: Collection[MemberName]) -> Steps[dict[MemberName, KafkaError | None]]:
    """Take members out of a group."""

    def request_of(some: list[MemberName]) -> LeaveGroupRequest:
        rows = [
            MemberIdentity(
                member_id=each.member_id if each.instance_id is None else "",
                group_instance_id=each.instance_id,
                reason=_REMOVED,
            )
            for each in some
        ]
        return LeaveGroupRequest(group_id=group, members=rows)

    def read(response: Any) -> Rows[MemberName, None]:
        by_instance = {each.instance_id: each for each in members if each.instance_id is not None}
        by_id = {each.member_id: each for each in members if each.instance_id is None}
        for row in response.members:
            instance = row.group_instance_id
            yield by_instance[instance] if instance is not None else by_id[row.member_id], row.error_code, None, None

    return (yield from rows_of(members, located_at_one(KeyKind.GROUP, group), request_of, read))


def _partition_rows(response: Any) -> Rows[TopicPartition, None]:
    return (
        ((topic.name, row.partition_index), row.error_code, None, None)
        for topic in response.topics
        for row in topic.partitions
    )
