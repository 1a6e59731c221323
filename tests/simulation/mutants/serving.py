"""Bugs of everything above the log: partitions, fetches, sessions, groups, the controller, the network."""

from __future__ import annotations

import itertools
from typing import Any

from broker.cluster.internal_topics import InternalLog
from broker.handlers.records.fetch import ParkedFetch
from broker.network.memory_budget import MemoryBudget
from controller import producer_ids
from controller.producer_ids import BLOCK_SIZE
from coordinator.group.offset_commits import OffsetCommits
from coordinator.group.shard import GroupShard
from metadata.store.znodes import ProducerIdBlock
from protocol.errors import ErrorCode
from replication.fetch_sessions import FetchSessions
from replication.leader import LeaderState
from replication.partition import Partition, WakeUps
from replication.waiting.delayed_queues import CommitWaiters
from tests.simulation.mutants import Mutant, Patches


def _acknowledged_before_write(patches: Patches) -> None:
    patches.replace(Partition, "is_written", lambda original: lambda self, end_offset: True)
    patches.replace(Partition, "is_committed", lambda original: lambda self, end_offset: True)


def _high_watermark_not_restored(patches: Patches) -> None:
    patches.replace(LeaderState, "on_elected", lambda original: lambda self, now_ms=0: [])


def _nobody_woken(patches: Patches) -> None:
    patches.replace(WakeUps, "touch", lambda original: lambda self, waiters: None)


def _acknowledgement_lost(patches: Patches) -> None:
    """Only those are answered whose write was inline."""
    patches.replace(CommitWaiters, "release", lambda original: lambda self, high_watermark: None)


def _session_answers_too_few(patches: Patches) -> None:
    """The high watermark is noted as sent whether it was or not; then records alone are not news either."""

    def skip(original: Any) -> Any:
        def include(self: FetchSessions, resolved: Any, item: Any, answer: Any, records_bytes: int) -> bool:
            seen = item.sent_high_watermark == answer.high_watermark
            return original(self, resolved, item, answer, records_bytes) and not (resolved.is_incremental and seen)

        return include

    patches.replace(FetchSessions, "include", skip)


def _session_forgets_position(patches: Patches) -> None:
    def keep(original: Any) -> Any:
        def _continue(self: FetchSessions, session: Any, *more: Any) -> Any:
            before = {key: item.fetch_offset for key, item in session.items.items()}
            resolved = original(self, session, *more)
            for key, item in list(session.items.items())[1:]:
                item.fetch_offset = before.get(key, item.fetch_offset)
            return resolved

        return _continue

    patches.replace(FetchSessions, "_continue", keep)


def _fetch_without_deadline(patches: Patches) -> None:
    patches.replace(ParkedFetch, "park", lambda original: lambda self, max_wait_ms: original(self, 1 << 30))


def _commit_before_append(patches: Patches) -> None:
    def early(original: Any) -> Any:
        def append(self: InternalLog, partition: int, batch: Any, committed: Any) -> int:
            base_offset: int = original(self, partition, batch, lambda error, offset: None)
            committed(ErrorCode.NONE, base_offset + 1)
            return base_offset

        return append

    patches.replace(InternalLog, "append", early)


def _commit_not_written(patches: Patches) -> None:
    offsets = itertools.count(1)

    def drop(original: Any) -> Any:
        def append(self: InternalLog, partition: int, batch: Any, committed: Any, *_guard: Any) -> int:
            self._led(partition)
            offset = next(offsets)
            committed(ErrorCode.NONE, offset + 1)
            return offset

        return append

    patches.replace(InternalLog, "append", drop)


def _groups_not_loaded(patches: Patches) -> None:
    def skip(original: Any) -> Any:
        def replay(self: GroupShard, record: Any, place: Any, now_ms: int) -> None:
            if not self._is_loading:
                original(self, record, place, now_ms)

        return replay

    patches.replace(GroupShard, "replay", skip)


def _generation_not_checked(patches: Patches) -> None:
    def lenient(original: Any) -> Any:
        def _error(self: OffsetCommits, group: Any, request: Any) -> ErrorCode:
            error: ErrorCode = original(self, group, request)
            return ErrorCode.NONE if error is ErrorCode.ILLEGAL_GENERATION else error

        return _error

    patches.replace(OffsetCommits, "_error", lenient)


def _producer_ids_again(patches: Patches) -> None:
    async def allocate_block(store: Any, broker_id: int) -> ProducerIdBlock:
        return ProducerIdBlock(broker_id, 0, BLOCK_SIZE)

    patches.replace(producer_ids, "allocate_block", lambda original: allocate_block)


def _budget_never_given_back(patches: Patches) -> None:
    def leak(original: Any) -> Any:
        def release(self: MemoryBudget, size_bytes: int) -> None:
            original(self, 0)

        return release

    patches.replace(MemoryBudget, "release", leak)


SERVING = (
    Mutant("acknowledged-before-write", "a produce is answered while its write is queued", _acknowledged_before_write),
    Mutant("high-watermark-not-restored", "a new leader commits nothing it holds", _high_watermark_not_restored),
    Mutant("nobody-woken", "an append does not wake the fetches that wait for it", _nobody_woken),
    Mutant("acknowledgement-lost", "a write that was queued is never answered", _acknowledgement_lost),
    Mutant("session-answers-too-few", "a session leaves out records it has more of", _session_answers_too_few),
    Mutant(
        "session-forgets-position", "an incremental fetch reads where the one before read", _session_forgets_position
    ),
    Mutant("fetch-without-deadline", "a fetch waits for records however long", _fetch_without_deadline),
    Mutant("commit-before-append", "a commit is answered while its write is queued", _commit_before_append),
    Mutant("commit-not-written", "a commit is answered and kept in memory alone", _commit_not_written),
    Mutant("groups-not-loaded", "a new coordinator starts empty", _groups_not_loaded),
    Mutant("generation-not-checked", "members of an old generation may commit", _generation_not_checked),
    Mutant("producer-ids-again", "producer ids are given out twice", _producer_ids_again),
    Mutant("budget-never-given-back", "request memory is reserved and never released", _budget_never_given_back),
)
