"""The offsets of a group's member: what it commits, and what the group has committed. For both kinds of members.

Rules: a commit is repeated until it is accepted, refused for good, or the partitions are not the member's any more. The
member of a consumer group says its epoch in both, so that one that was fenced neither commits nor reads what others
commit.
Errors: KafkaError for what failed for good.
Source: Kafka ConsumerCoordinator; CommitRequestManager of 4.3.0.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from client.admin.steps import KeyKind
from client.committing import GroupMembership, OffsetAndMetadata
from client.membership.consumer import ConsumerMember
from client.membership.verdicts import MemberVerdict
from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from client.event_loop.cluster_client import AsyncClusterClient
    from client.membership.classic import ClassicMember
    from protocol.topic_partition import TopicPartition

_LAST_OF_ONE_GROUP = 7
"""The last version of OffsetFetch that asks for one group."""


class MemberOffsets:
    """`backoff_ms` returns the pause before an attempt; `on_error` is called when the answer to a commit may have changed
    the member."""

    def __init__(
        self,
        cluster: AsyncClusterClient,
        core: ClassicMember | ConsumerMember,
        backoff_ms: Callable[[int], int],
        on_error: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._core = core
        self._backoff_ms = backoff_ms
        self._on_error = on_error

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets of partitions that are assigned. Raises KafkaError."""
        left, attempts = dict(offsets), 0
        membership: GroupMembership | None = None
        while True:
            membership = self._core.membership_for(left, membership)
            try:
                response = await self._cluster.send_to_coordinator(
                    KeyKind.GROUP, membership.group_id, _commit_request(membership, left), OffsetCommitResponse
                )
            except OSError:
                self._forget_coordinator()
            else:
                self._on_committed(membership, response, left)
            if not left:
                return
            attempts += 1
            await asyncio.sleep(self._backoff_ms(attempts) / 1000)

    def _on_committed(
        self,
        membership: GroupMembership,
        response: OffsetCommitResponse,
        left: dict[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """Take what was committed out of `left`. Raises KafkaError."""
        for topic in response.topics:
            for row in topic.partitions:
                code = ErrorCode.of(row.error_code)
                verdict = self._core.commit_answered(membership, code)
                if verdict is MemberVerdict.DONE:
                    left.pop((topic.name, row.partition_index), None)
                    continue
                self._on_error()
                if verdict is MemberVerdict.FIND:
                    self._forget_coordinator()
                elif verdict is not MemberVerdict.REPEAT:
                    raise KafkaError(code, f"{topic.name}-{row.partition_index}: {code.message}")

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of partitions, without those that have none. Offsets of open transactions are
        waited for (KIP-447). Raises KafkaError."""
        core, attempts = self._core, 0
        while True:
            try:
                if isinstance(core, ConsumerMember):
                    request, max_version = _fetch_of_member(core.membership, partitions), None
                else:
                    request, max_version = _fetch_of_group(core.group_id, partitions), _LAST_OF_ONE_GROUP
                response = await self._cluster.send_to_coordinator(
                    KeyKind.GROUP, core.group_id, request, OffsetFetchResponse, max_version=max_version
                )
            except OSError:
                self._forget_coordinator()
            else:
                remedies = {code: _remedy(code) for code in _codes(response) if code is not ErrorCode.NONE}
                failed = [code for code, remedy in remedies.items() if remedy is Remedy.FAIL]
                if failed:
                    raise KafkaError(failed[0])
                if not remedies:
                    return dict(_fetched(response))
                if Remedy.FIND_COORDINATOR in remedies.values():
                    self._forget_coordinator()
            attempts += 1
            await asyncio.sleep(self._backoff_ms(attempts) / 1000)

    def _forget_coordinator(self) -> None:
        self._cluster.forget_coordinator(KeyKind.GROUP, self._core.group_id)


def _remedy(code: ErrorCode) -> Remedy:
    return Remedy.RETRY if code is ErrorCode.STALE_MEMBER_EPOCH else remedy_of(code)


def _commit_request(
    membership: GroupMembership, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), (offset, leader_epoch, metadata) in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=membership.group_id,
        generation_id_or_member_epoch=membership.generation_id,
        member_id=membership.member_id,
        group_instance_id=membership.instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )


def _fetch_of_group(group_id: str, partitions: Collection[TopicPartition]) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=found) for name, found in _by_topic(partitions)]
    return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=True)


def _fetch_of_member(membership: GroupMembership, partitions: Collection[TopicPartition]) -> OffsetFetchRequest:
    group = OffsetFetchRequestGroup(
        group_id=membership.group_id,
        member_id=membership.member_id,
        member_epoch=membership.generation_id,
        topics=[OffsetFetchRequestTopics(name=name, partition_indexes=found) for name, found in _by_topic(partitions)],
    )
    return OffsetFetchRequest(groups=[group], require_stable=True)


def _by_topic(partitions: Collection[TopicPartition]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for name, partition in partitions:
        topics.setdefault(name, []).append(partition)
    return list(topics.items())


def _codes(response: OffsetFetchResponse) -> set[ErrorCode]:
    codes = {response.error_code, *(group.error_code for group in response.groups)}
    codes |= {row.error_code for topic in response.topics for row in topic.partitions}
    codes |= {row.error_code for group in response.groups for topic in group.topics for row in topic.partitions}
    return {ErrorCode.of(code) for code in codes}


def _fetched(response: OffsetFetchResponse) -> Iterator[tuple[TopicPartition, OffsetAndMetadata]]:
    """Yield what is committed, whichever form the response has."""
    for topic in response.topics:
        for row in topic.partitions:
            if row.committed_offset >= 0:
                found = OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata)
                yield (topic.name, row.partition_index), found
    for group in response.groups:
        for of_group in group.topics:
            for each in of_group.partitions:
                if each.committed_offset >= 0:
                    found = OffsetAndMetadata(each.committed_offset, each.committed_leader_epoch, each.metadata)
                    yield (of_group.name, each.partition_index), found
