"""One partition as one share group reads it, on the partition's leader. Carries out what the pure `SharePartition` decides.

    loading   what is stored is read from the share coordinator; a group that begins gets its start by `share.auto.offset.reset`
    active    records are acquired and acknowledged; changes are stored, and locks that run out are released
    closed    `error` says why: the leadership has ended, or another leader or state was found in the share coordinator

Rules: synchronous but for the load and cold reads; all on the event loop. While a fetch waits for the disk (`is_reading`) no
other one reads here, so that two fetches do not read for the same records. A share fetch that waits is called when there may be
something for it; who cannot take anything waits again.
Invariants: a change is stored with the leader epoch of the load. What is done after the end changes nothing any more: the next
leader has loaded what was stored.
Source: Kafka SharePartition (maybeInitialize, acquisition lock timer), DelayedShareFetch (KIP-932).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from config.offset_reset import ResetKind
from protocol.errors import ErrorCode, KafkaError
from protocol.share_states import NO_START_OFFSET
from replication.sharing.aborted_records import without
from replication.sharing.share_partition import AcquiredRange, ShareChange, ShareLimits, SharePartition
from replication.waiting.delayed_queues import COMMITTED_END, STABLE_END

if TYPE_CHECKING:
    from config.share_group import ShareGroupConfig
    from replication.partition import Partition
    from replication.sharing.acknowledgements import AckBatch
    from replication.sharing.dependencies import SharingDependencies
    from replication.waiting.delayed_queues import FetchWaiter
    from runtime.timer import TimerEntry

logger = logging.getLogger(__name__)

# Errors of the share coordinator after which the state here may not be the stored one: it is loaded anew.
_FENCING = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
# What the share coordinator's errors mean to members; any other is UNKNOWN_SERVER_ERROR.
_AS_MEMBERS_KNOW = {
    **{
        code: code
        for code in (
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )
    },
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}

Done = Callable[[ErrorCode], None]


class Registry(Protocol):
    """Keeps the partitions of groups."""

    def forget(self, closed: GroupPartition) -> None:
        """`closed` serves nobody any more."""

    def on_all_stored(self, shared: GroupPartition) -> None:
        """No change of `shared` is being stored any more."""


class GroupPartition:
    """Owned by the registry. Read-only for others: `share` is None until it is loaded, `error` is NONE until it is closed."""

    __slots__ = (
        "_config",
        "_dependencies",
        "_given_up_seen",
        "_is_waking",
        "_pending_writes",
        "_registry",
        "_timer",
        "_timer_deadline_ms",
        "_waiting",
        "error",
        "gave_up_ms",
        "group_id",
        "is_reading",
        "leader_epoch",
        "lock_timed_out_ms",
        "lock_timeouts_count",
        "partition",
        "share",
        "topic_id",
    )

    def __init__(
        self, group_id: str, partition: Partition, dependencies: SharingDependencies, registry: Registry
    ) -> None:
        self.group_id = group_id
        self.partition = partition
        self.topic_id = partition.topic_id
        self.leader_epoch = partition.assignment.leader_epoch
        self.share: SharePartition | None = None
        self.error = ErrorCode.NONE
        self.is_reading = False
        self.lock_timeouts_count = 0
        self.lock_timed_out_ms: int | None = None
        """When a lock ran out the last time, in milliseconds since 1970."""
        self.gave_up_ms: int | None = None
        """When a record was given up the last time."""
        self._given_up_seen = 0
        self._dependencies = dependencies
        self._registry = registry
        self._config: ShareGroupConfig | None = None
        self._waiting: dict[FetchWaiter, None] = {}
        self._is_waking = False
        self._pending_writes = 0
        self._timer: TimerEntry | None = None
        self._timer_deadline_ms = 0

    def __repr__(self) -> str:
        return f"<GroupPartition {self.group_id} {self.partition.topic}-{self.partition.partition}>"

    @property
    def index(self) -> int:
        return self.partition.partition

    @property
    def is_storing(self) -> bool:
        """Whether the outcome of a change is not known yet."""
        return self._pending_writes > 0

    @property
    def config(self) -> ShareGroupConfig:
        """What the group goes by now."""
        config = self._dependencies.config_of(self.group_id)
        if config is not self._config:
            self._config = config
            if self.share is not None:
                self.share.limits = _limits(config)
        return config

    @property
    def reads_committed(self) -> bool:
        return self.config.isolation_level == "read_committed"

    # --- loading and the end ---

    async def load(self) -> None:
        """Load what is stored, then serve; or close."""
        began_ms = self._dependencies.clock.monotonic_ms()
        try:
            stored = await self._dependencies.states.read(self.group_id, self.topic_id, self.index, self.leader_epoch)
        except KafkaError as refused:
            self.close(_as_members_know(refused.code))
            return
        try:
            if stored.start_offset == NO_START_OFFSET:
                stored = replace(stored, start_offset=await self._first_offset())
        except KafkaError as refused:
            self.close(refused.code)
            return
        if self.error is not ErrorCode.NONE:
            return
        self.share = SharePartition(stored, _limits(self.config))
        self._dependencies.metrics.share_loaded(self._dependencies.clock.monotonic_ms() - began_ms)
        self.wake()

    async def _first_offset(self) -> int:
        """Return where a group begins that has read nothing. Raises KafkaError."""
        reset = self.config.auto_offset_reset
        if reset.kind is ResetKind.EARLIEST:
            return self.partition.log.log_start_offset
        if reset.kind is ResetKind.BY_DURATION:
            since_ms = self._dependencies.clock.wall_ms() - reset.duration_ms
            found = await self.partition.log.reading.offset_for_timestamp(max(since_ms, 0))
            if found is not None:
                return found.offset
        return self.partition.high_watermark

    def close(self, error: ErrorCode) -> None:
        """End it with `error`, which whoever waits gets to know."""
        if self.error is not ErrorCode.NONE:
            return
        assert error is not ErrorCode.NONE
        self.error = error
        if self._timer is not None:
            self._timer.cancel()
        self._registry.forget(self)
        self.wake()

    # --- waiting ---

    def wait(self, fetch: FetchWaiter) -> None:
        """Call `fetch` when there may be something for it, until it leaves."""
        self._waiting[fetch] = None
        self._watch()

    def leave(self, fetch: FetchWaiter) -> None:
        self._waiting.pop(fetch, None)

    def _watch(self) -> None:
        interest = STABLE_END if self.reads_committed else COMMITTED_END
        self.partition.own_waiters().watchers_of(interest)[self] = None

    @property
    def waiting_count(self) -> int:
        """The number of share fetches that wait here."""
        return len(self._waiting)

    @property
    def is_parked(self) -> bool:
        """As a watcher of the partition: whether a share fetch waits."""
        return bool(self._waiting)

    def touch(self) -> FetchWaiter | None:
        """As a watcher of the partition: its end has moved."""
        return self if self._waiting else None

    def wake(self) -> None:
        """Call those who wait at the end of this turn of the loop."""
        if self._waiting and not self._is_waking:
            self._is_waking = True
            self._dependencies.call_soon(self.on_progress)

    def on_progress(self) -> None:
        """Call those who wait, in the order in which they came, while there is something for them."""
        self._is_waking = False
        for fetch in list(self._waiting):
            if self.error is ErrorCode.NONE and self.readable_offset() is None:
                break
            if fetch in self._waiting:
                fetch.on_progress()
        if self._waiting and self.error is ErrorCode.NONE:
            self._watch()

    # --- reading ---

    @property
    def limit_offset(self) -> int:
        """Where reading ends."""
        return self.partition.last_stable_offset if self.reads_committed else self.partition.high_watermark

    def readable_offset(self) -> int | None:
        """Return the offset from which a fetch may read and acquire now; None when there is nothing for it."""
        share = self.share
        if share is None or self.is_reading or self.error is not ErrorCode.NONE:
            return None
        limit_offset = self.limit_offset
        log_start_offset = self.partition.log.offsets.log_start_offset
        if share.start_offset < log_start_offset:
            share.advance_log_start(log_start_offset)
        if not share.may_acquire():
            return None
        offset = share.next_fetch_offset()
        return offset if offset < limit_offset else None

    def on_acquired(self) -> None:
        """Records were acquired: watch their locks."""
        self._watch_locks()

    def archive(self, acquired: Sequence[AcquiredRange], aborted: Sequence[tuple[int, int]]) -> list[AcquiredRange]:
        """No member gets the offsets of aborted transactions, ascending. Returns what is left of `acquired`."""
        assert self.share is not None
        self._store(self.share.archive(aborted))
        return without(acquired, aborted)

    # --- acknowledging ---

    def acknowledge(self, member_id: str, batches: Sequence[AckBatch], done: Done) -> None:
        """Apply what a member says of its records. `done` is called once, with NONE when it is stored. Raises KafkaError, and
        then nothing has changed."""
        if self.error is not ErrorCode.NONE:
            raise KafkaError(self.error)
        if self.share is None:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "The records are not acquired here.")
        lock_until_ms = self._dependencies.clock.monotonic_ms() + self.config.record_lock_duration_ms
        self._store(self.share.acknowledge(member_id, batches, lock_until_ms=lock_until_ms), done)

    def release(self, member_id: str, done: Done) -> None:
        """The session of a member is over: others may have its records. `done` is called once."""
        if self.share is None or self.error is not ErrorCode.NONE:
            done(ErrorCode.NONE)
        else:
            self._store(self.share.release(member_id), done)

    def _store(self, change: ShareChange | None, done: Done | None = None) -> None:
        """Store what has changed, if that is to be stored, and go on with it."""
        assert self.share is not None
        if self.share.given_up_count > self._given_up_seen:
            self._given_up_seen = self.share.given_up_count
            self.gave_up_ms = self._dependencies.clock.wall_ms()
        if change is None or change.is_empty:
            if change is not None:
                change.succeeded()
            self._watch_locks()
            self.wake()
            if done is not None:
                done(ErrorCode.NONE)
            return
        self._pending_writes += 1
        self._dependencies.states.write(
            self.group_id,
            self.topic_id,
            self.index,
            state_epoch=self.share.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
            batches=change.batches,
            done=partial(self._stored, change, done),
        )

    def _stored(self, change: ShareChange, done: Done | None, error: ErrorCode) -> None:
        self._pending_writes -= 1
        if error is ErrorCode.NONE:
            change.succeeded()
        else:
            change.failed()
            logger.info(
                "share state not stored: group=%s topic=%s partition=%d error=%s",
                self.group_id, self.partition.topic, self.index, error.name,
            )  # fmt: skip
            if error in _FENCING:
                self.close(_as_members_know(error))
        self._watch_locks()
        self.wake()
        if done is not None:
            done(_as_members_know(error))
        if not self._pending_writes:
            self._registry.on_all_stored(self)

    # --- locks ---

    def _watch_locks(self) -> None:
        """See that the first lock that runs out is noticed. Locks are mostly taken in the order in which they end, so that
        the timer that runs is mostly the right one."""
        if self.share is None or self.error is not ErrorCode.NONE:
            return
        deadline_ms = self.share.next_deadline_ms()
        if deadline_ms is None:
            return
        now_ms = self._dependencies.clock.monotonic_ms()
        if self._timer is not None and self._timer.is_pending:
            if self._timer_deadline_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_deadline_ms = deadline_ms
        self._timer = self._dependencies.timer.schedule(deadline_ms - now_ms, self._on_lock_timer)

    def _on_lock_timer(self) -> None:
        """Locks have run out: others may have the records."""
        share = self.share
        assert share is not None
        change = share.expire(self._dependencies.clock.monotonic_ms())
        if change is not None:
            self.lock_timed_out_ms = self._dependencies.clock.wall_ms()
            self.lock_timeouts_count += sum(batch.last_offset - batch.first_offset + 1 for batch in change.batches)
        self._store(change)


def _as_members_know(error: ErrorCode) -> ErrorCode:
    return _AS_MEMBERS_KNOW.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


def _limits(config: ShareGroupConfig) -> ShareLimits:
    return ShareLimits(
        delivery_count_limit=config.delivery_count_limit,
        max_record_locks=config.partition_max_record_locks,
        can_renew=config.renew_acknowledge_enable,
    )
