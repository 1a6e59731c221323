"""OffsetCommit, TxnOffsetCommit and OffsetFetch of one group.

A commit becomes one record for each partition, and is visible when those are committed; that of a transaction is visible
when the transaction is committed too. Partitions whose metadata string is too long are refused one by one, and the others
are stored.

Rules: no IO. The caller has checked that the topics exist (handlers have the cluster's metadata, a shard has not).
Invariant: OffsetFetch returns committed offsets only; with `require_stable`, only those without a pending commit.
Source: Kafka GroupCoordinator.handleCommitOffsets and doTxnCommitOffsets, GroupMetadataManager.storeOffsets and getOffsets;
KIP-98, KIP-447.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from coordinator.group.append_errors import offset_append_error
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.classic.group import ClassicGroup, GroupState
from coordinator.group.classic.rebalance import Rebalance
from coordinator.group.classic.validation import commit_error
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.validation import check_commit, check_fetch
from coordinator.group.events import OffsetsCommitted
from coordinator.group.groups import AnyGroup
from coordinator.group.offsets import CommittedOffset
from coordinator.group.records import offset_record
from coordinator.group.settings import GroupSettings
from coordinator.group.share.group import ShareGroup
from coordinator.runtime.contract import AppendRecords, BatchProducer, Outbox, Result, Waiter
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.schema import Message
from protocol.topic_partition import TopicPartition

# The response of a commit: an error code for every partition but those whose metadata is too large.
CommitResponse: TypeAlias = Callable[[ErrorCode, set[TopicPartition]], Message]

# The newest version of OffsetCommit.
NEWEST_COMMIT = 10
NO_TIMESTAMP = -1
LAST_TIMESTAMP_MS = 2**63 - 1


class OffsetCommits:
    """Handles OffsetCommit and TxnOffsetCommit for the groups of a shard."""

    def __init__(self, settings: GroupSettings, rebalance: Rebalance, topics: GroupTopics, outbox: Outbox) -> None:
        self._settings = settings
        self._topics = topics
        self._rebalance = rebalance
        self._outbox = outbox

    def commit(
        self, group: AnyGroup, request: OffsetCommitRequest, api_version: int, waiter: Waiter, now_ms: int
    ) -> None:
        error = self._error(group, request, api_version)
        if error is not ErrorCode.NONE:
            self._outbox.respond(waiter, commit_response(request, error))
            return
        if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY:
            self._rebalance.extend_session(group, group.members[request.member_id], now_ms)
        expire_timestamp_ms = _expire_timestamp_ms(request.retention_time_ms, now_ms)
        rows = [
            (
                (topic.name, row.partition_index),
                _committed_offset(row, row.commit_timestamp, expire_timestamp_ms, now_ms),
            )
            for topic in request.topics
            for row in topic.partitions
        ]
        self._store(group, rows, partial(commit_response, request), waiter)

    def commit_in_transaction(
        self,
        group: AnyGroup,
        request: TxnOffsetCommitRequest,
        producer: BatchProducer | None,
        waiter: Waiter,
        now_ms: int,
    ) -> None:
        """Store offsets that the marker of `producer` decides about; without a producer they are visible when stored.

        A member commits for its generation, also while the next one is being formed, and this is no heartbeat.
        """
        error = self._transactional_error(group, request)
        if error is not ErrorCode.NONE:
            self._outbox.respond(waiter, transactional_commit_response(request, error))
            return
        rows = [
            ((topic.name, row.partition_index), _committed_offset(row, NO_TIMESTAMP, NO_TIMESTAMP, now_ms))
            for topic in request.topics
            for row in topic.partitions
        ]
        self._store(group, rows, partial(transactional_commit_response, request), waiter, producer)

    def _store(
        self,
        group: AnyGroup,
        rows: Iterable[tuple[TopicPartition, CommittedOffset]],
        response_of: CommitResponse,
        waiter: Waiter,
        producer: BatchProducer | None = None,
    ) -> None:
        """Append a record for each of `rows` whose metadata is not too large; of rows for one partition the last counts."""
        limit = self._settings.offset_metadata_max_bytes
        commits: dict[TopicPartition, CommittedOffset] = {}
        too_large: set[TopicPartition] = set()
        for topic_partition, commit in rows:
            if metadata_is_too_large(commit.metadata, limit):
                too_large.add(topic_partition)
            else:
                commits[topic_partition] = commit
        response = response_of(ErrorCode.NONE, too_large)
        if not commits:
            self._outbox.respond(waiter, response)
            return
        version = self._settings.version.offset_commit_value
        records = tuple(
            offset_record(group.group_id, topic_partition, commit, version)
            for topic_partition, commit in commits.items()
        )
        change = _Commit(group, tuple(commits), producer is not None, too_large, response_of, self._outbox)
        group.offsets.add_pending(commits, is_transactional=change.is_transactional)
        self._outbox.put(AppendRecords(Result(records, change, response, waiter, producer)))

    def _transactional_error(self, group: AnyGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
        if isinstance(group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(group, ConsumerGroup):
            error = self._member_error(
                group,
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                [(topic.name, row.partition_index) for topic in request.topics for row in topic.partitions],
                NEWEST_COMMIT,
                is_transactional=True,
            )
            # Producers do not know the error of consumers.
            return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error
        return commit_error(
            group,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            self._outbox,
            is_transactional=True,
        )

    def _member_error(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        places: list[TopicPartition],
        api_version: int,
        *,
        is_transactional: bool,
    ) -> ErrorCode:
        if group.is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            check_commit(
                group,
                self._topics,
                member_id,
                instance_id,
                epoch,
                places,
                api_version,
                is_transactional=is_transactional,
            )
        except KafkaError as refused:
            return refused.code
        return ErrorCode.NONE

    def _error(self, group: AnyGroup, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        if isinstance(group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(group, ConsumerGroup):
            return self._member_error(
                group,
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                [(topic.name, row.partition_index) for topic in request.topics for row in topic.partitions],
                api_version,
                is_transactional=False,
            )
        error = commit_error(
            group,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            self._outbox,
            is_transactional=False,
        )
        if error is ErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE:
            # While a rebalance is prepared the last generation may still commit; until the next is assigned, no member owns
            # a partition.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error


@dataclass(slots=True, eq=False)
class _Commit:
    """The offsets of one request while their records are appended."""

    group: AnyGroup
    topic_partitions: tuple[TopicPartition, ...]
    is_transactional: bool
    too_large: set[TopicPartition]
    response_of: CommitResponse
    outbox: Outbox

    def committed(self, now_ms: int) -> None:
        self.group.offsets.remove_pending(self.topic_partitions, is_transactional=self.is_transactional)
        self.outbox.put(OffsetsCommitted(self.group.group_id, len(self.topic_partitions)))

    def failed(self, error: ErrorCode, now_ms: int) -> Message:
        self.group.offsets.remove_pending(self.topic_partitions, is_transactional=self.is_transactional)
        return self.response_of(offset_append_error(error), self.too_large)

    def timed_out(self, now_ms: int) -> Message:
        return self.response_of(ErrorCode.REQUEST_TIMED_OUT, self.too_large)


def metadata_is_too_large(metadata: str | None, limit: int) -> bool:
    """Whether `metadata` has more than `limit` UTF-16 units, as Kafka counts. Encodes it only when the result depends on it."""
    if metadata is None or len(metadata) * 2 <= limit:
        return False
    return len(metadata.encode("utf-16-be", "surrogatepass")) // 2 > limit


def commit_response(
    request: OffsetCommitRequest, error: ErrorCode, too_large: set[TopicPartition] | None = None
) -> OffsetCommitResponse:
    """`error` for every partition but those whose metadata is `too_large`."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE
                        if too_large and (topic.name, partition.partition_index) in too_large
                        else error,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def transactional_commit_response(
    request: TxnOffsetCommitRequest, error: ErrorCode, too_large: set[TopicPartition] | None = None
) -> TxnOffsetCommitResponse:
    """`error` for every partition but those whose metadata is `too_large`."""
    return TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=row.partition_index,
                        error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE
                        if too_large and (topic.name, row.partition_index) in too_large
                        else error,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """The committed offsets of a group, each partition once, in the order of the request: a commit, None without one, or an
    error code. A snapshot, which does not change while the response is built."""

    error: ErrorCode
    topic_partitions: dict[str, dict[int, CommittedOffset | ErrorCode | None]]


def fetch_offsets(group: AnyGroup | None, wanted: OffsetFetchRequestGroup, *, require_stable: bool) -> FetchedOffsets:
    """The committed offsets of the request (`topics` None: all). A group that does not exist has none, without an error;
    nor has a share group."""
    if group is not None and (group.is_dead or isinstance(group, ShareGroup)):
        group = None
    if isinstance(group, ConsumerGroup):
        try:
            check_fetch(group, wanted.member_id, wanted.member_epoch)
        except KafkaError as refused:
            return FetchedOffsets(refused.code, {})
    topic_partitions: dict[str, dict[int, CommittedOffset | ErrorCode | None]] = {}
    if wanted.topics is not None:
        for topic in wanted.topics:
            topic_partitions.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    elif group is not None:
        for topic_name, partition in group.offsets:
            topic_partitions.setdefault(topic_name, {})[partition] = None
    if group is not None:
        offsets = group.offsets
        for name, partitions in topic_partitions.items():
            for partition in partitions:
                topic_partition = (name, partition)
                is_unstable = require_stable and offsets.is_unstable(topic_partition)
                partitions[partition] = (
                    ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else offsets.committed(topic_partition)
                )
    return FetchedOffsets(ErrorCode.NONE, topic_partitions)


def _expire_timestamp_ms(retention_time_ms: int, now_ms: int) -> int:
    """v2-v4 may have a retention time: the largest number means for ever."""
    return NO_TIMESTAMP if retention_time_ms == NO_TIMESTAMP else min(now_ms + retention_time_ms, LAST_TIMESTAMP_MS)


def _committed_offset(
    row: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int,
    now_ms: int,
) -> CommittedOffset:
    """The commit of one partition; v1 of OffsetCommit may have a time of its own."""
    return CommittedOffset(
        offset=row.committed_offset,
        leader_epoch=row.committed_leader_epoch,
        metadata=row.committed_metadata or "",
        commit_timestamp_ms=now_ms if commit_timestamp_ms == NO_TIMESTAMP else commit_timestamp_ms,
        expire_timestamp_ms=expire_timestamp_ms,
    )
