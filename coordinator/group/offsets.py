"""The offsets of one group: committed ones, those on their way into the log, and those of open transactions.

An offset is in one of three places. `stage` puts it among the staged when its record is appended; `replay_commit` makes
it the committed one when the record is committed, or when it is read while loading. A transactional commit waits in
`_transactional` under its producer until `end_transaction`, because the record alone decides nothing.

Rules: no IO, no clock. Only the `replay_*` methods and `end_transaction` change `_committed` and `_transactional`.
Invariants: of two commits the one later in the log wins, also when it came by a transaction that ended earlier; a
tombstone ends the committed offset and never touches an open transaction, so that replay equals what was live.
Source: Kafka GroupMetadata and GroupMetadataManager (offsets), KIP-98, KIP-211 (expiry), KIP-447 (stable offsets).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

TopicPartition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """`leader_epoch` -1: not told. `expire_timestamp_ms` -1: the group's retention decides (v2-v4 may say more)."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class _Placed:
    """A commit and the base offset of the batch that it stood in, by which two commits are ordered."""

    batch_base_offset: int
    commit: CommittedOffset


class GroupOffsets:
    """See the module's docstring."""

    __slots__ = ("_committed", "_removals", "_staged", "_transactional")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, _Placed] = {}
        # How many appended, uncommitted records there are for a partition: commits, and tombstones.
        self._staged: Counter[TopicPartition] = Counter()
        self._removals: Counter[TopicPartition] = Counter()
        self._transactional: dict[int, dict[TopicPartition, _Placed]] = {}

    def __len__(self) -> int:
        return len(self._committed)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._committed)

    def committed(self, place: TopicPartition) -> CommittedOffset | None:
        placed = self._committed.get(place)
        return placed.commit if placed is not None else None

    def committed_offsets(self) -> dict[TopicPartition, CommittedOffset]:
        return {place: placed.commit for place, placed in self._committed.items()}

    def transactional_offsets(self) -> dict[int, dict[TopicPartition, CommittedOffset]]:
        """What open transactions would commit, by producer id."""
        return {
            producer_id: {place: placed.commit for place, placed in pending.items()}
            for producer_id, pending in self._transactional.items()
        }

    def is_unstable(self, place: TopicPartition) -> bool:
        """Whether a commit for `place` is under way, so that the committed offset may be about to change (KIP-447)."""
        return place in self._staged or any(place in pending for pending in self._transactional.values())

    def places(self) -> list[TopicPartition]:
        """Where there is a committed offset, or one on its way."""
        return [*self._committed, *(place for place in self._staged if place not in self._committed)]

    @property
    def is_in_use(self) -> bool:
        return bool(self._committed or self._staged or self._removals or self._transactional)

    # --- on the way into the log -----------------------------------------------------------------------------------

    def stage(self, places: Iterable[TopicPartition]) -> None:
        """Commits for `places` were appended; each must be unstaged when their outcome is known."""
        _count(self._staged, places)

    def unstage(self, places: Iterable[TopicPartition]) -> None:
        _uncount(self._staged, places)

    def stage_removal(self, places: Iterable[TopicPartition]) -> None:
        """Tombstones for `places` were appended."""
        _count(self._removals, places)

    def unstage_removal(self, places: Iterable[TopicPartition]) -> None:
        _uncount(self._removals, places)

    def would_be_used_without(self, places: set[TopicPartition]) -> bool:
        """Whether anything is left once the committed offsets of `places` are gone."""
        return bool(
            self._staged
            or self._transactional
            or any(place not in places and place not in self._removals for place in self._committed)
        )

    # --- committed -------------------------------------------------------------------------------------------------

    def replay_commit(
        self, place: TopicPartition, commit: CommittedOffset, batch_base_offset: int, transaction_of: int | None
    ) -> None:
        """`transaction_of` is the producer id of a transactional commit, which has no effect before its marker."""
        placed = _Placed(batch_base_offset, commit)
        if transaction_of is not None:
            self._transactional.setdefault(transaction_of, {})[place] = placed
        else:
            self._committed[place] = placed

    def replay_removal(self, place: TopicPartition, transaction_of: int | None) -> None:
        if transaction_of is None:
            self._committed.pop(place, None)
            return
        pending = self._transactional.get(transaction_of)
        if pending is not None:
            pending.pop(place, None)
            if not pending:
                del self._transactional[transaction_of]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The marker of `producer_id` was written: its commits count, unless a later one overtook them, or go."""
        pending = self._transactional.pop(producer_id, {})
        if not committed:
            return
        for place, placed in pending.items():
            current = self._committed.get(place)
            if current is None or current.batch_base_offset < placed.batch_base_offset:
                self._committed[place] = placed

    # --- expiry ----------------------------------------------------------------------------------------------------

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        retained_since_ms: Callable[[CommittedOffset], int],
        subscribed: frozenset[str] = frozenset(),
    ) -> list[TopicPartition]:
        """Committed offsets whose time has come, but none of `subscribed` topics or with a record under way."""
        return [
            place
            for place, placed in self._committed.items()
            if place[0] not in subscribed
            and place not in self._staged
            and place not in self._removals
            and _is_expired(placed.commit, now_ms, retention_ms, retained_since_ms)
        ]

    def of_partitions(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of `places` that have a committed offset."""
        return [place for place in places if place in self._committed]


def _is_expired(
    commit: CommittedOffset, now_ms: int, retention_ms: int, retained_since_ms: Callable[[CommittedOffset], int]
) -> bool:
    if commit.expire_timestamp_ms != -1:
        return now_ms >= commit.expire_timestamp_ms
    return now_ms - retained_since_ms(commit) >= retention_ms


def _count(counter: Counter[TopicPartition], places: Iterable[TopicPartition]) -> None:
    for place in places:  # Counter.update would take a mapping's values for counts
        counter[place] += 1


def _uncount(counter: Counter[TopicPartition], places: Iterable[TopicPartition]) -> None:
    for place in places:
        counter[place] -= 1
        if counter[place] == 0:
            del counter[place]
