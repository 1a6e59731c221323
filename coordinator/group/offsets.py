"""The offsets of one group: committed ones, pending ones whose records are being appended, and those of open transactions.

`add_pending` counts a commit when its record is appended; `replay_commit` makes it the committed one when the record is
committed, or when it is read while loading. A transactional commit waits in `_transactional` under its producer until
`end_transaction`, because the record alone decides nothing.

Rules: no IO, no clock. Only the `replay_*` methods and `end_transaction` change `_committed` and `_transactional`.
Invariants: of two commits the one later in the log wins, also when it came by a transaction that ended earlier. A tombstone
removes the committed offset and those before it in open transactions; therefore expiry, which must not affect an open
transaction, writes none for a partition with a pending commit. Replay equals the live state.
Source: Kafka GroupMetadata and GroupMetadataManager (offsets), CommitRecordMetadataAndOffset; KIP-98, KIP-211 (expiry), KIP-447
(stable offsets). Kafka 3.9 drops pending offsets in memory alone, where they are back after a reload; the tombstone that drops
them is that of its newer OffsetMetadataManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """`leader_epoch` -1: unknown. `expire_timestamp_ms` -1: the group's retention decides; else v2-v4 set it."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class _LoggedCommit:
    """A commit and the base offset of its batch, by which two commits are ordered."""

    batch_base_offset: int
    commit: CommittedOffset


class GroupOffsets:
    """Owned by its group."""

    __slots__ = ("_committed", "_pending", "_pending_transactional", "_removals", "_transactional")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, _LoggedCommit] = {}
        # The number of appended, uncommitted records for a partition: commits, transactional commits, tombstones.
        self._pending: Counter[TopicPartition] = Counter()
        self._pending_transactional: Counter[TopicPartition] = Counter()
        self._removals: Counter[TopicPartition] = Counter()
        self._transactional: dict[int, dict[TopicPartition, _LoggedCommit]] = {}

    def __len__(self) -> int:
        return len(self._committed)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._committed)

    def committed(self, topic_partition: TopicPartition) -> CommittedOffset | None:
        logged = self._committed.get(topic_partition)
        return logged.commit if logged is not None else None

    def committed_offsets(self) -> dict[TopicPartition, CommittedOffset]:
        return {topic_partition: logged.commit for topic_partition, logged in self._committed.items()}

    def transactional_offsets(self) -> dict[int, dict[TopicPartition, CommittedOffset]]:
        """What open transactions would commit, by producer id."""
        return {
            producer_id: {topic_partition: logged.commit for topic_partition, logged in pending.items()}
            for producer_id, pending in self._transactional.items()
        }

    def is_unstable(self, topic_partition: TopicPartition) -> bool:
        """Whether a commit for `topic_partition` is pending, so that the committed offset may change (KIP-447)."""
        return (
            topic_partition in self._pending
            or topic_partition in self._pending_transactional
            or any(topic_partition in pending for pending in self._transactional.values())
        )

    def topic_partitions(self) -> list[TopicPartition]:
        """The partitions with a committed offset, a pending commit, or one in an open transaction."""
        found = dict.fromkeys([*self._committed, *self._pending, *self._pending_transactional])
        for pending in self._transactional.values():
            found.update(dict.fromkeys(pending))
        return list(found)

    @property
    def is_in_use(self) -> bool:
        return bool(
            self._committed or self._pending or self._pending_transactional or self._removals or self._transactional
        )

    # --- pending ---------------------------------------------------------------------------------------------------

    def add_pending(self, topic_partitions: Iterable[TopicPartition], *, is_transactional: bool = False) -> None:
        """Commits for `topic_partitions` were appended; the caller removes them when their outcome is known."""
        _count(self._pending_transactional if is_transactional else self._pending, topic_partitions)

    def remove_pending(self, topic_partitions: Iterable[TopicPartition], *, is_transactional: bool = False) -> None:
        _uncount(self._pending_transactional if is_transactional else self._pending, topic_partitions)

    def add_pending_removal(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Tombstones for `topic_partitions` were appended."""
        _count(self._removals, topic_partitions)

    def remove_pending_removal(self, topic_partitions: Iterable[TopicPartition]) -> None:
        _uncount(self._removals, topic_partitions)

    def would_be_used_without(self, topic_partitions: set[TopicPartition]) -> bool:
        """Whether anything remains when the committed offsets of `topic_partitions` are removed."""
        return bool(
            self._pending
            or self._pending_transactional
            or self._transactional
            or any(
                topic_partition not in topic_partitions and topic_partition not in self._removals
                for topic_partition in self._committed
            )
        )

    # --- committed -------------------------------------------------------------------------------------------------

    def replay_commit(
        self,
        topic_partition: TopicPartition,
        commit: CommittedOffset,
        batch_base_offset: int,
        transaction_of: int | None,
    ) -> None:
        """Apply a commit. `transaction_of` is the producer id of a transactional one, which has no effect before its marker."""
        logged = _LoggedCommit(batch_base_offset, commit)
        if transaction_of is not None:
            self._transactional.setdefault(transaction_of, {})[topic_partition] = logged
        else:
            self._committed[topic_partition] = logged

    def replay_removal(self, topic_partition: TopicPartition, transaction_of: int | None) -> None:
        """Apply a tombstone; that of a transaction removes what the same transaction committed before."""
        if transaction_of is not None:
            self._drop_transactional(transaction_of, topic_partition)
            return
        self._committed.pop(topic_partition, None)
        for producer_id in list(self._transactional):
            self._drop_transactional(producer_id, topic_partition)

    def _drop_transactional(self, producer_id: int, topic_partition: TopicPartition) -> None:
        pending = self._transactional.get(producer_id)
        if pending is not None:
            pending.pop(topic_partition, None)
            if not pending:
                del self._transactional[producer_id]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The marker of `producer_id` is committed: its commits are visible unless a later one is, or dropped."""
        pending = self._transactional.pop(producer_id, {})
        if not committed:
            return
        for topic_partition, logged in pending.items():
            current = self._committed.get(topic_partition)
            if current is None or current.batch_base_offset < logged.batch_base_offset:
                self._committed[topic_partition] = logged

    # --- expiry ----------------------------------------------------------------------------------------------------

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        retained_since_ms: Callable[[CommittedOffset], int],
        subscribed: Collection[str] = frozenset(),
    ) -> list[TopicPartition]:
        """Committed offsets past their retention, except of `subscribed` topics and with a pending commit or tombstone."""
        return [
            topic_partition
            for topic_partition, logged in self._committed.items()
            if topic_partition[0] not in subscribed
            and not self.is_unstable(topic_partition)
            and topic_partition not in self._removals
            and _is_expired(logged.commit, now_ms, retention_ms, retained_since_ms)
        ]

    def of_partitions(self, topic_partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of `topic_partitions` that have a committed offset, or one that a transaction may commit."""
        return [
            topic_partition
            for topic_partition in topic_partitions
            if topic_partition in self._committed
            or topic_partition in self._pending_transactional
            or any(topic_partition in pending for pending in self._transactional.values())
        ]


def _is_expired(
    commit: CommittedOffset, now_ms: int, retention_ms: int, retained_since_ms: Callable[[CommittedOffset], int]
) -> bool:
    if commit.expire_timestamp_ms != -1:
        return now_ms >= commit.expire_timestamp_ms
    return now_ms - retained_since_ms(commit) >= retention_ms


def _count(counter: Counter[TopicPartition], topic_partitions: Iterable[TopicPartition]) -> None:
    for topic_partition in topic_partitions:  # Counter.update would use a mapping's values as counts
        counter[topic_partition] += 1


def _uncount(counter: Counter[TopicPartition], topic_partitions: Iterable[TopicPartition]) -> None:
    for topic_partition in topic_partitions:
        counter[topic_partition] -= 1
        if counter[topic_partition] == 0:
            del counter[topic_partition]
