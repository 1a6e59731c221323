"""The share partitions of one partition of `__share_group_state`: requests in, effects out, records replayed. Pure.

This is the contract's `Shard` for the states of share partitions. The caller has checked that this broker coordinates the share
partition of a request.

Rules: a leader writes many times without waiting, and each snapshot has what all updates before it have changed. So a change is
made when its record is made (`is_applied`), and taken back when the record is refused. What a read finds is told when it is
committed. A newer leader of the partition becomes known by its read, whose record fences the leaders before it.
Every `updates_per_snapshot` updates the next change is a snapshot. What is older than the snapshots of all share partitions is
redundant; an idle share partition gets a new snapshot from time to time so that it does not keep the log long.
Invariant: a reloaded shard has the same `durable_state`.
Source: KIP-932; Kafka ShareCoordinatorShard, ShareCoordinatorOffsetsManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from coordinator.runtime.contract import (
    AppendRecords,
    BatchPosition,
    Command,
    CoordinatorRecord,
    Effect,
    Outbox,
    Respond,
    Result,
    TimerKey,
    Waiter,
)
from coordinator.share.batches import KeptBatch, merged
from coordinator.share.events import (
    ShareRecordSkipped,
    ShareStateRefused,
    ShareStatesRemoved,
    StateNotStored,
    StateWritten,
)
from coordinator.share.outcomes import (
    DONE,
    NEGATIVE_PARTITION,
    READ_UNINITIALIZED,
    WRITE_UNINITIALIZED,
    ShareOperation,
    ShareOutcome,
    not_done,
    refused,
)
from coordinator.share.records import (
    SnapshotKey,
    UnknownShareKey,
    UpdateKey,
    read_key,
    read_snapshot,
    read_update,
    share_tombstone,
    snapshot_record,
    update_key,
    update_record,
)
from coordinator.share.settings import ShareStateSettings
from coordinator.share.state import (
    NO_EPOCH,
    ShareKey,
    ShareState,
    Snapshot,
    StateUpdate,
    first_state,
    initial_snapshot,
    state_of_update,
)
from protocol.errors import ErrorCode
from protocol.primitives import DecodeError
from protocol.share_states import NO_LEADER_EPOCH, NO_START_OFFSET, share_key

# Share partitions whose states are removed, or written anew, by one operation.
CHUNK_KEYS = 100

_WRITTEN = StateWritten()


class StateWrite(NamedTuple):
    """What the leader of a partition has stored of one of its share partitions."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[KeptBatch, ...]


class DeleteRedundant(Command):
    """Delete the records of the shard's partition below `offset`."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset


class _Entry:
    """One share partition. `state` has all changes, None when it has no state (any more); `needed_offset` is that of the first
    record that its committed state needs, -1 when there is none; `last` is the newest change that is being committed.
    `update_key` is the key of its updates."""

    __slots__ = ("last", "needed_offset", "state", "update_key")

    def __init__(self, key: ShareKey) -> None:
        self.update_key = update_key(key)
        self.state: ShareState | None = None
        self.needed_offset = -1
        self.last: _Change | None = None


class ShareShard:
    """Implements `coordinator.runtime.contract.Shard`. `partitions_count` returns that of the topic with an id, 0 for a topic
    that is not known."""

    def __init__(self, partition: int, settings: ShareStateSettings, partitions_count: Callable[[bytes], int]) -> None:
        self.partition = partition
        self._settings = settings
        self._partitions_count = partitions_count
        self._entries: dict[ShareKey, _Entry] = {}
        self._is_loading = True
        self._last_tombstone_offset = -1
        self._outbox = Outbox()

    # --- requests --------------------------------------------------------------------------------------------------

    def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, waiter: Waiter, now_ms: int
    ) -> list[Effect]:
        """Give a share partition its first state, or another start offset. The response, as of the others, is a
        `ShareOutcome`."""
        entry = self._entries.get(key)
        known = None if entry is None else entry.state
        problem = _malformed(key)
        if problem is None and known is not None and NO_EPOCH != state_epoch < known.fence_state_epoch:
            problem = self._fenced(
                key, ShareOperation.INITIALIZE, ErrorCode.FENCED_STATE_EPOCH, known.fence_state_epoch, state_epoch
            )
        problem = problem or self._unknown(key)
        if problem is not None:
            return self._answer(waiter, problem)
        self._snapshot(
            key, initial_snapshot(known, state_epoch, start_offset, now_ms), ShareOperation.INITIALIZE, waiter
        )
        return self._outbox.drain()

    def read(self, key: ShareKey, leader_epoch: int, waiter: Waiter, now_ms: int) -> list[Effect]:
        """Tell the leader of a partition what is stored. A newer leader fences those before it."""
        entry = self._entries.get(key)
        known = None if entry is None else entry.state
        problem = _malformed(key)
        if problem is None and known is None:
            problem = refused(ErrorCode.INVALID_REQUEST, READ_UNINITIALIZED)
        if problem is None and known is not None and leader_epoch < known.fence_leader_epoch:
            problem = self._fenced(
                key, ShareOperation.READ, ErrorCode.FENCED_LEADER_EPOCH, known.fence_leader_epoch, leader_epoch
            )
        problem = problem or self._unknown(key)
        if problem is not None:
            return self._answer(waiter, problem)
        assert entry is not None and known is not None
        outcome = ShareOutcome(snapshot=known.snapshot)
        if leader_epoch in (NO_LEADER_EPOCH, known.fence_leader_epoch):
            return self._tell(entry, ShareOperation.READ, outcome, waiter)
        found = known.snapshot
        change = StateWrite(found.state_epoch, leader_epoch, found.start_offset, found.delivery_complete_count, ())
        self._change(key, entry, known, change, leader_epoch, ShareOperation.READ, waiter, now_ms, outcome)
        return self._outbox.drain()

    def read_summary(self, key: ShareKey, waiter: Waiter) -> list[Effect]:
        """Tell what is stored, but for its batches; a share partition without a state is no error. Fences nobody."""
        problem = _malformed(key) or self._unknown(key)
        if problem is not None:
            return self._answer(waiter, problem)
        entry = self._entries.get(key)
        if entry is None:
            return self._answer(waiter, DONE)
        snapshot = None if entry.state is None else entry.state.snapshot
        return self._tell(entry, ShareOperation.SUMMARY, ShareOutcome(snapshot=snapshot), waiter)

    def write(self, key: ShareKey, change: StateWrite, waiter: Waiter, now_ms: int) -> list[Effect]:
        """Store what has changed in a share partition."""
        entry = self._entries.get(key)
        known = None if entry is None else entry.state
        problem = _malformed(key) or self._write_problem(key, known, change) or self._unknown(key)
        if problem is not None:
            return self._answer(waiter, problem)
        assert entry is not None and known is not None
        leader_epoch = known.snapshot.leader_epoch
        self._change(key, entry, known, change, leader_epoch, ShareOperation.WRITE, waiter, now_ms, DONE)
        return self._outbox.drain()

    def delete(self, key: ShareKey, waiter: Waiter) -> list[Effect]:
        """Delete the state of a share partition; one without a state is no error."""
        problem = _malformed(key) or self._unknown(key)
        entry = self._entries.get(key)
        if problem is not None or entry is None:
            return self._answer(waiter, problem or DONE)
        if entry.state is None:
            return self._tell(entry, ShareOperation.DELETE, DONE, waiter)
        self._append(key, entry, None, share_tombstone(key), ShareOperation.DELETE, waiter, DONE)
        return self._outbox.drain()

    def _write_problem(self, key: ShareKey, known: ShareState | None, change: StateWrite) -> ShareOutcome | None:
        if known is None:
            return refused(ErrorCode.INVALID_REQUEST, WRITE_UNINITIALIZED)
        for error, recorded, requested in (
            (ErrorCode.FENCED_LEADER_EPOCH, known.fence_leader_epoch, change.leader_epoch),
            (ErrorCode.FENCED_STATE_EPOCH, known.fence_state_epoch, change.state_epoch),
        ):
            if NO_EPOCH != requested < recorded:
                return self._fenced(key, ShareOperation.WRITE, error, recorded, requested)
        return None

    def _fenced(
        self, key: ShareKey, operation: ShareOperation, error: ErrorCode, recorded: int, requested: int
    ) -> ShareOutcome:
        self._outbox.put(ShareStateRefused(key, operation.value, error, recorded, requested))
        return refused(error)

    def _unknown(self, key: ShareKey) -> ShareOutcome | None:
        known = key.partition < self._partitions_count(key.topic_id)
        return None if known else refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _answer(self, waiter: Waiter, outcome: ShareOutcome) -> list[Effect]:
        self._outbox.respond(waiter, outcome)
        return self._outbox.drain()

    def _tell(self, entry: _Entry, operation: ShareOperation, outcome: ShareOutcome, waiter: Waiter) -> list[Effect]:
        """Answer when the changes that `outcome` shows are committed."""
        if entry.last is None:
            return self._answer(waiter, outcome)
        entry.last.followers.append((waiter, outcome, operation))
        return self._outbox.drain()

    # --- changes ---------------------------------------------------------------------------------------------------

    def _change(
        self,
        key: ShareKey,
        entry: _Entry,
        known: ShareState,
        change: StateWrite,
        leader_epoch: int,
        operation: ShareOperation,
        waiter: Waiter,
        now_ms: int,
        outcome: ShareOutcome,
    ) -> None:
        """Write a snapshot or an update. Both have `leader_epoch`: that of a write only fences."""
        found = known.snapshot
        self._outbox.put(_WRITTEN)
        if known.updates_count >= self._settings.updates_per_snapshot:
            start_offset = found.start_offset if change.start_offset == NO_START_OFFSET else change.start_offset
            snapshot = Snapshot(
                found.snapshot_epoch + 1,
                found.state_epoch,
                leader_epoch,
                start_offset,
                change.delivery_complete_count,
                merged(found.batches, change.batches, start_offset),
                now_ms,
                now_ms,
            )
            self._snapshot(key, snapshot, operation, waiter, outcome)
            return
        update = StateUpdate(
            found.snapshot_epoch,
            leader_epoch,
            change.start_offset,
            change.delivery_complete_count,
            merged((), change.batches, change.start_offset),
        )
        self._append(
            key, entry, known.with_update(update), update_record(entry.update_key, update), operation, waiter, outcome
        )

    def _snapshot(
        self,
        key: ShareKey,
        snapshot: Snapshot,
        operation: ShareOperation,
        waiter: Waiter | None,
        outcome: ShareOutcome = DONE,
    ) -> None:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key)
        state = self._with_snapshot(entry.state, snapshot)
        self._append(
            key, entry, state, snapshot_record(key, snapshot), operation, waiter, outcome, needs_no_earlier=True
        )

    def _with_snapshot(self, known: ShareState | None, snapshot: Snapshot) -> ShareState:
        if known is None:
            return first_state(snapshot)
        return known.with_snapshot(snapshot, self._settings.updates_per_snapshot)

    def _append(
        self,
        key: ShareKey,
        entry: _Entry,
        state: ShareState | None,
        record: CoordinatorRecord,
        operation: ShareOperation,
        waiter: Waiter | None,
        outcome: ShareOutcome,
        *,
        needs_no_earlier: bool = False,
    ) -> None:
        change = _Change(key, entry, operation, self._outbox, needs_no_earlier=needs_no_earlier or state is None)
        entry.state, entry.last = state, change
        result = Result((record,), change, outcome, waiter, is_applied=True)
        self._outbox.put(AppendRecords(result))

    # --- periodic work ---------------------------------------------------------------------------------------------

    def snapshots_due(self, now_ms: int) -> Iterator[list[ShareKey]]:
        """Yield the share partitions whose last snapshot is old, in chunks, for `write_again`; some are empty. None when all
        of them have had their snapshot written again, and nothing since."""
        due_ms = now_ms - self._settings.cold_snapshot_interval_ms
        keys = list(self._entries)
        chunks = [keys[start : start + CHUNK_KEYS] for start in range(0, len(keys), CHUNK_KEYS)]
        for chunk in chunks:
            if not all(snapshot.is_cold for _, snapshot in self._snapshots(chunk)):
                break
            yield []
        else:
            return
        for chunk in chunks:
            yield [key for key, snapshot in self._snapshots(chunk) if snapshot.write_timestamp_ms <= due_ms]

    def _snapshots(self, keys: Sequence[ShareKey]) -> Iterator[tuple[ShareKey, Snapshot]]:
        """Yield those of share partitions that have a state."""
        for key in keys:
            entry = self._entries.get(key)
            if entry is not None and entry.state is not None:
                yield key, entry.state.snapshot

    def write_again(self, keys: Sequence[ShareKey], now_ms: int) -> list[Effect]:
        """Write the snapshots of share partitions again, so that their older records become redundant."""
        for key, known in self._snapshots(keys):
            snapshot = known._replace(snapshot_epoch=known.snapshot_epoch + 1, write_timestamp_ms=now_ms)
            self._snapshot(key, snapshot, ShareOperation.WRITE, None)
        return self._outbox.drain()

    def delete_redundant(self) -> list[Effect]:
        """Delete the records before the first that is needed."""
        needed = [entry.needed_offset for entry in self._entries.values()]
        offset = min(needed, default=self._last_tombstone_offset)
        if offset > 0:
            self._outbox.put(DeleteRedundant(offset))
        return self._outbox.drain()

    def keys_of_unknown_topics(self) -> Iterator[list[ShareKey]]:
        """Yield the share partitions whose topics are not known, in chunks, for `remove`."""
        topics = {key.topic_id for key in self._entries}
        unknown = {topic_id for topic_id in topics if not self._partitions_count(topic_id)}
        keys = [key for key, entry in self._entries.items() if key.topic_id in unknown and entry.state is not None]
        for start in range(0, len(keys), CHUNK_KEYS):
            yield keys[start : start + CHUNK_KEYS]

    def remove(self, keys: Sequence[ShareKey]) -> list[Effect]:
        """Delete the states of share partitions whose topics are deleted."""
        count = 0
        for key in keys:
            entry = self._entries.get(key)
            if entry is not None and entry.state is not None:
                self._append(key, entry, None, share_tombstone(key), ShareOperation.DELETE, None, DONE)
                count += 1
        self._outbox.put(ShareStatesRemoved(self.partition, count))
        return self._outbox.drain()

    # --- records ---------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, position: BatchPosition, now_ms: int) -> None:
        assert self._is_loading  # later changes are made before their records are written
        try:
            match read_key(record.key):
                case SnapshotKey(key):
                    self._replay_snapshot(key, record.value, position)
                case UpdateKey(key) if record.value is not None:
                    entry = self._entries.setdefault(key, _Entry(key))
                    update = read_update(record.value)
                    if entry.state is None:
                        entry.state, entry.needed_offset = state_of_update(update), position.base_offset
                    else:
                        entry.state = entry.state.with_update(update)
                case UpdateKey():
                    self._skip(position, "an update without a value")
                case UnknownShareKey(version):
                    self._skip(position, f"key version {version}")
        except DecodeError as error:
            self._skip(position, str(error))

    def _replay_snapshot(self, key: ShareKey, value: bytes | None, position: BatchPosition) -> None:
        """Raises: DecodeError."""
        if value is None:
            self._entries.pop(key, None)
            self._last_tombstone_offset = position.base_offset
            return
        snapshot = read_snapshot(value)
        entry = self._entries.setdefault(key, _Entry(key))
        entry.state, entry.needed_offset = self._with_snapshot(entry.state, snapshot), position.base_offset

    def _skip(self, position: BatchPosition, why: str) -> None:
        self._outbox.put(ShareRecordSkipped(self.partition, position.base_offset, why))

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Do nothing: no transaction writes to this topic."""

    def stored_keys(self) -> list[str]:
        return [share_key(*key) for key, entry in self._entries.items() if entry.state is not None]

    def durable_state(self) -> dict[ShareKey, ShareState]:
        """Return the state that a replay of the log must rebuild: for tests and for comparing coordinators."""
        return {key: entry.state for key, entry in self._entries.items() if entry.state is not None}

    @property
    def share_partitions_count(self) -> int:
        """The share partitions that are known."""
        return len(self._entries)

    # --- the context's events --------------------------------------------------------------------------------------

    def on_loaded(self, now_ms: int) -> list[Effect]:
        self._is_loading = False
        return self._outbox.drain()

    def on_reelected(self, leader_epoch: int, now_ms: int) -> list[Effect]:
        """Do nothing: what is stored does not depend on the coordinator's epoch."""
        return []

    def on_timer(self, key: TimerKey, now_ms: int) -> list[Effect]:
        raise AssertionError(f"there are no timers: {key}")

    def on_committed(self, result: Result, now_ms: int) -> list[Effect]:
        if result.waiter is not None:
            self._outbox.respond(result.waiter, result.response)
        change = _change_of(result)
        entry = change.entry
        change.committed(now_ms)
        if change.needs_no_earlier:
            entry.needed_offset = result.base_offset
        if entry.last is None and entry.state is None:
            self._last_tombstone_offset = max(self._last_tombstone_offset, result.base_offset)
            self._entries.pop(change.key, None)
        return self._outbox.drain()

    def on_failed(self, result: Result, error: ErrorCode, now_ms: int) -> list[Effect]:
        change = _change_of(result)
        if not result.is_appended:
            change.take_back()
            if change.entry.state is None and change.entry.last is None:
                self._entries.pop(change.key, None)
        self._outbox.put(StateNotStored(change.key, change.operation.value, error))
        self._outbox.fail(result, error, now_ms)
        return self._outbox.drain()

    def on_commit_timeout(self, result: Result, now_ms: int) -> list[Effect]:
        self._outbox.time_out(result, now_ms)
        return self._outbox.drain()

    def on_unloaded(self, in_flight: Sequence[Result], now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for result in in_flight:
            effects += self.on_failed(result, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
        return [effect for effect in effects if isinstance(effect, Respond)]


class _Change:
    """A `PendingChange`: what the record of one operation has changed. `followers` wait for its outcome."""

    __slots__ = ("_outbox", "before", "earlier", "entry", "followers", "key", "needs_no_earlier", "operation")

    def __init__(
        self, key: ShareKey, entry: _Entry, operation: ShareOperation, outbox: Outbox, *, needs_no_earlier: bool
    ) -> None:
        self.key = key
        self.entry = entry
        self.operation = operation
        self.needs_no_earlier = needs_no_earlier
        self.before = entry.state
        self.earlier = entry.last
        self.followers: list[tuple[Waiter, ShareOutcome, ShareOperation]] = []
        self._outbox = outbox

    def committed(self, now_ms: int) -> None:
        self._settle()
        for waiter, outcome, _ in self.followers:
            self._outbox.respond(waiter, outcome)

    def failed(self, error: ErrorCode, now_ms: int) -> ShareOutcome:
        self._settle()
        return self._refuse(error)

    def timed_out(self, now_ms: int) -> ShareOutcome:
        return self._refuse(ErrorCode.REQUEST_TIMED_OUT)

    def take_back(self) -> None:
        """The record was refused, and so were those after it."""
        self.entry.state = self.before
        if self.entry.last is self:
            self.entry.last = self.earlier

    def _settle(self) -> None:
        if self.entry.last is self:
            self.entry.last = None
        self.before = self.earlier = None

    def _refuse(self, error: ErrorCode) -> ShareOutcome:
        for waiter, _, operation in self.followers:
            self._outbox.respond(waiter, not_done(operation, error))
        self.followers.clear()
        return not_done(self.operation, error)


def _change_of(result: Result) -> _Change:
    assert isinstance(result.change, _Change)
    return result.change


def _malformed(key: ShareKey) -> ShareOutcome | None:
    return refused(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION) if key.partition < 0 else None
