"""Bugs of share groups: on the leader of a partition, in the share coordinator, in the group. Each says what it breaks."""

from __future__ import annotations

from typing import Any

from broker.handlers.sharing import share_fetching
from coordinator.share import state as share_state
from coordinator.share.shard import DeleteRedundant, ShareShard
from protocol.errors import ErrorCode
from protocol.share_states import DeliveryState, ShareAcquireMode
from replication.sharing import group_partition
from replication.sharing.group_partition import GroupPartition
from replication.sharing.runs import InFlightBatch, OffsetRun
from replication.sharing.share_partition import SharePartition
from replication.sharing.share_read import ShareRead
from tests.simulation.mutants import Mutant, Patches

EARLY_MS = 700


def _not_stored(patches: Patches) -> None:
    def keep(original: Any) -> Any:
        def _store(self: GroupPartition, change: Any, done: Any = None) -> None:
            if change is not None and not change.is_empty:
                change.batches.clear()
            original(self, change, done)

        return _store

    patches.replace(GroupPartition, "_store", keep)


def _answered_before_stored(patches: Patches) -> None:
    def answer(original: Any) -> Any:
        def _store(self: GroupPartition, change: Any, done: Any = None) -> None:
            if done is not None:
                done(ErrorCode.NONE)
            original(self, change)

        return _store

    patches.replace(GroupPartition, "_store", answer)


def _owner_not_checked(patches: Patches) -> None:
    def ignore(original: Any) -> Any:
        def acknowledge(self: SharePartition, member_id: str, batches: Any, *, lock_until_ms: int) -> Any:
            for batch in self._in_flight.batches:
                for run in batch.runs:
                    for asked in batches:
                        if run.state is DeliveryState.ACQUIRED and run.first <= asked.last and run.last >= asked.first:
                            run.member = member_id
            return original(self, member_id, batches, lock_until_ms=lock_until_ms)

        return acknowledge

    patches.replace(SharePartition, "acknowledge", ignore)


def _locks_never_end(patches: Patches) -> None:
    patches.replace(SharePartition, "expire", lambda original: lambda self, now_ms: None)


def _locks_end_early(patches: Patches) -> None:
    def early(original: Any) -> Any:
        return lambda self, run, lock_until_ms: original(self, run, lock_until_ms - EARLY_MS)

    patches.replace(SharePartition, "_set_deadline", early)


def _limit_ignored(patches: Patches) -> None:
    def unlimited(original: Any) -> Any:
        def _limits(config: Any) -> Any:
            limits = original(config)
            return type(limits)(1_000, limits.max_record_locks, limits.can_renew)

        return _limits

    patches.replace(group_partition, "_limits", unlimited)


def _counts_begin_anew(patches: Patches) -> None:
    def forget(original: Any) -> Any:
        def become(self: OffsetRun, state: DeliveryState) -> None:
            original(self, state)
            if state is DeliveryState.AVAILABLE:
                self.delivery_count = 0

        return become

    patches.replace(OffsetRun, "become", forget)


def _released_is_archived(patches: Patches) -> None:
    def archive(original: Any) -> Any:
        def _begin(
            self: SharePartition, change: Any, batch: InFlightBatch, run: OffsetRun, state: DeliveryState
        ) -> None:
            lost = state is DeliveryState.AVAILABLE
            original(self, change, batch, run, DeliveryState.ARCHIVED if lost else state)

        return _begin

    patches.replace(SharePartition, "_begin", archive)


def _pending_is_acquired_again(patches: Patches) -> None:
    patches.replace(
        OffsetRun, "is_available", lambda original: property(lambda self: self.state is DeliveryState.AVAILABLE)
    )


def _record_limit_ignored(patches: Patches) -> None:
    patches.replace(share_fetching, "ShareAcquireMode", lambda original: lambda mode: ShareAcquireMode.BATCH_OPTIMIZED)


def _aborted_is_delivered(patches: Patches) -> None:
    patches.replace(ShareRead, "aborted_ranges", lambda original: lambda self: [])


def _stored_batches_not_loaded(patches: Patches) -> None:
    def forget(original: Any) -> Any:
        return lambda self, stored: original(self, ())

    patches.replace(SharePartition, "_load", forget)


def _updates_not_replayed(patches: Patches) -> None:
    def ignore(original: Any) -> Any:
        def replay(self: ShareShard, record: Any, position: Any, now_ms: int) -> None:
            if record.key[:2] == b"\x00\x00":
                original(self, record, position, now_ms)

        return replay

    patches.replace(ShareShard, "replay", ignore)


def _leader_not_fenced(patches: Patches) -> None:
    def accept(original: Any) -> Any:
        def _write_problem(self: ShareShard, key: Any, known: Any, change: Any) -> Any:
            problem = original(self, key, known, change)
            return None if problem is not None and problem.error is ErrorCode.FENCED_LEADER_EPOCH else problem

        return _write_problem

    patches.replace(ShareShard, "_write_problem", accept)


def _pruned_too_far(patches: Patches) -> None:
    def further(original: Any) -> Any:
        def delete_redundant(self: ShareShard) -> Any:
            self._outbox.put(DeleteRedundant(max((each.needed_offset for each in self._entries.values()), default=0)))
            return self._outbox.drain()

        return delete_redundant

    patches.replace(ShareShard, "delete_redundant", further)


def _update_forgets_batches(patches: Patches) -> None:
    def forget(original: Any) -> Any:
        return lambda so_far, loose, changes, *more: original((), (), changes, *more)

    patches.replace(share_state, "spliced", forget)


SHARES = (
    Mutant("share-state-not-stored", "deliveries: what is accepted comes again after a failover", _not_stored),
    Mutant(
        "acknowledged-before-stored",
        "deliveries: what was answered is lost with the share coordinator",
        _answered_before_stored,
    ),
    Mutant("owner-of-records-not-checked", "deliveries: whoever acknowledges may", _owner_not_checked),
    Mutant("record-locks-never-end", "drained: what a lost member holds is nobody's", _locks_never_end),
    Mutant("record-locks-end-early", "deliveries: two members hold a record", _locks_end_early),
    Mutant("delivery-limit-ignored", "deliveries: counts above the limit", _limit_ignored),
    Mutant("delivery-counts-begin-anew", "deliveries: counts do not grow", _counts_begin_anew),
    Mutant("released-is-archived", "lost: what a member gives back is nobody's", _released_is_archived),
    Mutant(
        "pending-release-acquired", "deliveries: a change is taken back over another one", _pending_is_acquired_again
    ),
    Mutant("record-limit-ignored", "sessions: more records than asked for", _record_limit_ignored),
    Mutant("aborted-records-shared", "fates: records of aborted transactions are delivered", _aborted_is_delivered),
    Mutant("stored-batches-not-loaded", "deliveries: a new leader delivers what is done", _stored_batches_not_loaded),
    Mutant(
        "share-updates-not-replayed", "starts: a new share coordinator knows snapshots alone", _updates_not_replayed
    ),
    Mutant("former-leader-not-fenced", "states: a leader that was writes over the next one", _leader_not_fenced),
    Mutant("share-states-pruned-too-far", "states: the snapshot of an idle partition is deleted", _pruned_too_far),
    Mutant("share-update-forgets-batches", "deliveries: an update replaces what was stored", _update_forgets_batches),
)
