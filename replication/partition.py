"""One partition on this broker: its role, what it appends and commits, and who is in sync. Carries out the effects of the pure
`LeaderState`. Its parts:

| part | duty |
|---|---|
| `assignment` | what the controller announced last: epochs, replicas, ISR |
| `log` | the records |
| `leader` | the pure state of a leader; None on a follower |
| `waiters` | the requests that wait for it |

Rules: synchronous; every effect of an event is carried out before the next event of the same partition. Errors leave as
`KafkaError`. There may be ten thousand, most of them idle: parts that are needed only during activity are created then.
Invariants: only a leader appends what clients send, only a follower what a leader has; consumers see nothing at or past the
high watermark, here or on a follower. A follower's high watermark and log start are the leader's, each as far as this log
reaches; they are taken over again whenever more of what was copied is written. A leader moves its high watermark only while
the ISR is large enough, in the same step in which it completes waiting requests, so no produce gets
NOT_ENOUGH_REPLICAS_AFTER_APPEND here.
Source: Kafka Partition, ReplicaManager, ReplicaFetcherThread.processPartitionData.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from replication.assignment import NO_EPOCH, NO_LEADER, UNASSIGNED, PartitionAssignment
from replication.dependencies import PartitionContext
from replication.leader import (
    Effect,
    HighWatermarkAdvanced,
    IsrChange,
    IsrChangeFailed,
    IsrChangeRequested,
    IsrCommitted,
    IsrResponse,
    LeaderState,
)
from replication.replica_progress import UNKNOWN_BROKER_EPOCH, FetchChannel, ReplicaProgress
from replication.replica_selector import preferred_read_replica
from replication.waiting.delayed_queues import WakeUps, mark
from replication.waiting.partition_waits import NO_WAITERS, PartitionWaiters
from storage.log.partition_log import AppendOrigin, AppendResult, PartitionLog
from storage.log.producers.transaction_verifications import VerificationGuard
from storage.log.removal.segment_retention import delete_records, raise_log_start_offset
from storage.log.validation import ValidatedRecords

if TYPE_CHECKING:
    from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
    from runtime.disk.filesystem import Buffer

__all__ = ["NO_EPOCH", "NO_LEADER", "Partition", "WakeUps"]

logger = logging.getLogger(__name__)


class Partition:
    """One partition. Life cycle: created by the first LeaderAndIsr that names it, dropped by StopReplica or with its log
    directory."""

    __slots__ = (
        "_context",
        "_leader_high_watermark",
        "_leader_log_start_offset",
        "assignment",
        "last_stable_offset",
        "leader",
        "log",
        "on_shortened",
        "partition",
        "topic",
        "waiters",
    )

    def __init__(self, log: PartitionLog, context: PartitionContext) -> None:
        self.topic = log.topic
        self.partition = log.partition
        self.log = log
        self._context = context
        self.assignment = UNASSIGNED
        # Read-only; a request that has to wait uses `own_waiters`.
        self.waiters = NO_WAITERS
        self.leader: LeaderState | None = None
        # Of the leader's last response to this follower, -1 before the first.
        self._leader_high_watermark = self._leader_log_start_offset = -1
        # Called on a follower when the log start has risen, which the leader must know. Ends with the time as follower.
        self.on_shortened: Callable[[Partition], None] | None = None
        self.last_stable_offset = log.commit(log.high_watermark)
        log.start_listener = self

    def __repr__(self) -> str:
        leader_id, leader_epoch = self.assignment.leader_id, self.assignment.leader_epoch
        return f"<Partition {self.topic}-{self.partition} leader={leader_id} epoch={leader_epoch}>"

    def own_waiters(self) -> PartitionWaiters:
        """Return waiters that a request may be added to."""
        waiters = self.waiters
        if waiters is NO_WAITERS:
            waiters = self.waiters = PartitionWaiters(self._context.wake_ups)
        return waiters

    # --- role ---

    @property
    def is_leader(self) -> bool:
        return self.leader is not None

    @property
    def high_watermark(self) -> int:
        return self.log.offsets.high_watermark

    @property
    def topic_id(self) -> bytes:
        return self.log.topic_id

    def become_leader(self, state: LeaderAndIsrPartitionState) -> bool:
        """Lead in `state.leader_epoch`. Returns whether this is a new term; a new state of the present term is applied as
        well."""
        if state.partition_epoch < self.assignment.partition_epoch:
            return False  # the response to our own request came first
        leader, now_ms = self.leader, self._context.now_ms()
        is_new_term = leader is None or state.leader_epoch > self.assignment.leader_epoch
        self.assignment = PartitionAssignment.of(state)
        if leader is not None and not is_new_term:
            self._carry_out(
                leader.on_partition_state(
                    isr=state.isr, partition_epoch=state.partition_epoch, replicas=state.replicas, now_ms=now_ms
                )
            )
            self.waiters.mark_fetches()
            return False
        log, assignment = self.log, self.assignment
        # Records that are assigned and not written yet are of earlier epochs: this one begins behind them.
        self.leader = LeaderState(
            self._context.broker,
            leader_epoch=assignment.leader_epoch,
            partition_epoch=assignment.partition_epoch,
            isr=assignment.isr,
            replicas=assignment.replicas,
            leo=log.log_end_offset,
            epoch_start_offset=log.offsets.next_offset,
            high_watermark=log.high_watermark,
            min_insync_replicas=log.config.min_insync_replicas,
            previous=leader,
            now_ms=now_ms,
        )
        self._leader_high_watermark = self._leader_log_start_offset = -1
        self.on_shortened = None
        log.epochs.assign(state.leader_epoch, log.offsets.next_offset)
        self._carry_out(self.leader.on_elected(now_ms))
        self._release_deletions()  # a removed replica is not waited for
        self.commit(log.high_watermark)
        self.waiters.wake_fetches()
        return True

    def become_follower(self, state: LeaderAndIsrPartitionState) -> bool:
        """Follow `state.leader`. Returns whether the leader or its epoch changed."""
        if state.partition_epoch < self.assignment.partition_epoch:
            return False
        was_leader = self.leader is not None
        changed = was_leader or state.leader_epoch > self.assignment.leader_epoch
        self.assignment = PartitionAssignment.of(state)
        self.leader = None
        self._leader_high_watermark = self._leader_log_start_offset = -1
        if was_leader:
            self.waiters.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif changed:
            self.waiters.wake_fetches()
        return changed

    def replace_log(self, log: PartitionLog) -> None:
        """Use another log, in another directory, which contains everything that the present one has written."""
        old, self.log = self.log, log
        old.start_listener, log.start_listener = log.start_listener, self
        log.producers.take_over_verifications(old.producers)
        self.last_stable_offset = log.commit(old.high_watermark)
        self.waiters.wake_fetches()

    def stop(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Remove the partition from this broker: every waiting request gets `error`."""
        self.leader = None
        self.assignment = self.assignment.without_leader()
        self.waiters.fail_all(error)

    def check_online(self) -> None:
        """Raise KAFKA_STORAGE_ERROR when the log directory has failed; no other error is reported for the partition then."""
        if self.log.failure is not None:  # not raised itself: it would keep the frames, and all their objects, alive
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory of {self.topic}-{self.partition} is offline."
            )

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Check that this broker leads in the client's `current_leader_epoch` (-1: the client sent none).

        Raises KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        if self.leader is None:
            self.check_online()
        self.assignment.check_epoch(current_leader_epoch, self.topic, self.partition)
        if self.leader is None:
            raise self._not_leader()

    def _not_leader(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker does not lead {self.topic}-{self.partition}.")

    # --- the state of replication, as metrics show it ---

    @property
    def is_under_replicated(self) -> bool:
        return self.leader is not None and self.assignment.replication_factor > len(self.assignment.isr)

    @property
    def spare_isr(self) -> int:
        """In-sync replicas above what min.insync.replicas asks for; below zero, acks=all is refused."""
        leader = self.leader
        return 0 if leader is None else len(leader.isr) - leader.effective_min_isr

    # --- writing ---

    def append(
        self,
        records: Buffer,
        *,
        origin: AppendOrigin,
        acks: int,
        now_ms: int,
        produce_version: int | None = None,
        checked: ValidatedRecords | None = None,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Append as leader. The records are readable once the high watermark passes `result.last_offset`.

        `records` is patched in place and belongs to the log until written. `acks` is the client's: -1 asks for a full
        ISR. The write may still be under way when this returns: see `when_written` and `when_committed`.
        `checked` is what the log's `validate_in_thread` made of records that take long; `guard`, see `begin_verification`.
        Raises KafkaError or LongValidation, and then nothing has changed.
        """
        leader = self.leader
        if leader is None:
            self.check_online()
            raise self._not_leader()
        if acks == -1 and leader.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic}-{self.partition} has {len(leader.isr)} in-sync replicas, "
                f"min.insync.replicas asks for {leader.effective_min_isr}.",
            )
        result = self.log.append(
            records,
            leader_epoch=leader.leader_epoch,
            origin=origin,
            now_ms=now_ms,
            done=self.on_written,
            produce_version=produce_version,
            checked=checked,
            guard=guard,
        )
        if self.leader is None:  # the write failed immediately and took the directory offline
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.topic}-{self.partition} has failed.")
        return result

    def append_own(
        self, records: Buffer, *, acks: int, now_ms: int, guard: VerificationGuard | None = None
    ) -> AppendResult:
        """Append what a coordinator of this cluster writes, as `append` does, and count it. Raises KafkaError."""
        result = self.append(records, origin=AppendOrigin.COORDINATOR, acks=acks, now_ms=now_ms, guard=guard)
        self._context.dependencies.metrics.produced(self.topic, len(records), result.records_count)
        return result

    def append_as_follower(
        self, records: Buffer, *, leader_high_watermark: int, leader_log_start_offset: int, now_ms: int
    ) -> None:
        """Append what the leader has, and take over how far it is committed and where it begins, as far as this log goes.

        `records` may be empty. The write may still be under way when this returns: only what is below
        `log.log_end_offset` may be claimed to the leader. Raises KafkaError, and then nothing has changed.
        """
        if self.leader is not None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker leads {self.topic}-{self.partition}: it follows no other.",
            )
        log = self.log
        if len(records):
            log.append(
                records,
                leader_epoch=self.assignment.leader_epoch,
                origin=AppendOrigin.REPLICA,
                now_ms=now_ms,
                done=self._on_copied,
            )
            if log.failure is not None:  # the write failed immediately
                raise log.failure.again()
        self._leader_high_watermark = leader_high_watermark
        self._leader_log_start_offset = leader_log_start_offset
        self._take_over_leader_offsets()

    def _on_copied(self, error: KafkaError | None) -> None:
        self.on_written(error)
        if error is None:
            self._take_over_leader_offsets()

    def _take_over_leader_offsets(self) -> None:
        """Apply the leader's high watermark and log start, each as far as this log reaches by now."""
        if self._leader_high_watermark < 0:
            return  # what was written came from an earlier leader
        log = self.log
        high_watermark = max(min(self._leader_high_watermark, log.log_end_offset), log.log_start_offset)
        if high_watermark != log.high_watermark:
            self.commit(high_watermark)
        log_start_offset = min(self._leader_log_start_offset, high_watermark)
        if log_start_offset > log.log_start_offset:
            raise_log_start_offset(log, log_start_offset)
            self.truncated()

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epoch: bool = False
    ) -> VerificationGuard:
        """See `LogProducers`. Raises NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, INVALID_PRODUCER_EPOCH."""
        self.check_leader()
        return self.log.producers.begin_verification(producer_id, epoch, sequence, bumps_epoch=bumps_epoch)

    def check_marker_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """See `ProducerStates`. Raises NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, INVALID_PRODUCER_EPOCH."""
        self.check_leader()
        self.log.producers.states.check_marker_epoch(producer_id, producer_epoch)

    def is_written(self, end_offset: int) -> bool:
        return self.log.offsets.log_end_offset >= end_offset

    def is_committed(self, end_offset: int) -> bool:
        return self.log.offsets.high_watermark >= end_offset

    def on_written(self, error: KafkaError | None) -> None:
        """Called when an append is written or has failed."""
        if error is not None:
            self.waiters.fail_produces(error.code)
            return
        leo = self.log.offsets.log_end_offset
        waiters = self.waiters
        if waiters.written is not None and waiters.written.heap:
            waiters.written.release(leo)
        watchers = waiters.watchers
        if watchers is not None and watchers.leo:
            self._context.wake_ups.touch(watchers.leo)
        leader = self.leader
        if leader is not None:
            high_watermark = (
                leader.on_append(leo, self._context.now_ms()) if leader.followers else leader.on_append(leo)
            )
            if high_watermark is not None:
                self.commit(high_watermark)

    def commit(self, high_watermark: int) -> None:
        """Set the high watermark, and wake those who wait for it."""
        stable_offset = self.log.commit(high_watermark)
        waiters = self.waiters
        if waiters.committed is not None and waiters.committed.heap:
            waiters.committed.release(high_watermark)
        watchers = waiters.watchers
        if watchers is None:
            self.last_stable_offset = stable_offset
            return
        if watchers.hw:
            self._context.wake_ups.touch(watchers.hw)
        if stable_offset != self.last_stable_offset:
            self.last_stable_offset = stable_offset
            if watchers.lso:
                self._context.wake_ups.touch(watchers.lso)
        elif watchers.lso:
            mark(watchers.lso)
        if watchers.leo:
            mark(watchers.leo)

    def on_start_raised(self) -> None:
        """Update what depends on the log start, see `storage.log.removal.start_listener.StartListener`."""
        stable_offset = self.log.commit(self.log.high_watermark)
        if stable_offset != self.last_stable_offset:  # an open transaction began in the deleted records
            self.last_stable_offset = stable_offset
            watchers = self.waiters.watchers
            if watchers is not None and watchers.lso:
                self._context.wake_ups.touch(watchers.lso)
        self.waiters.mark_fetches()
        if self.on_shortened is not None:
            self.on_shortened(self)

    def on_config_changed(self) -> None:
        """Apply changed log settings: a lower min.insync.replicas may commit records, a codec may be too new for a client."""
        self.waiters.mark_fetches()
        if self.leader is not None:
            self._carry_out(
                self.leader.on_min_insync_replicas(self.log.config.min_insync_replicas, self._context.now_ms())
            )

    # --- followers, and who is in sync ---

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:  # no await in this loop: an event's effects are one step
            match effect:
                case HighWatermarkAdvanced(high_watermark):
                    self.commit(high_watermark)
                case IsrChangeRequested(change):
                    self._context.dependencies.isr_changes.submit(self, change)
                case IsrCommitted(isr, partition_epoch, is_expansion):
                    self.assignment = self.assignment.with_isr(isr, partition_epoch)
                    self.waiters.mark_fetches()
                    metrics = self._context.dependencies.metrics
                    (metrics.isr_expanded if is_expansion else metrics.isr_shrunk)()
                    logger.debug("ISR changed: topic=%s partition=%d isr=%s", self.topic, self.partition, isr)
                case IsrChangeFailed(change, error):
                    self._context.dependencies.metrics.isr_change_failed()
                    logger.debug(
                        "ISR not changed: topic=%s partition=%d requested_isr=%s error=%s",
                        self.topic, self.partition, list(change.isr), error.name,
                    )  # fmt: skip

    def check_replica(self, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> None:
        """Check a follower's request to this leader. Raises UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER: the follower
        retries.

        A follower that sends its epoch may have an assignment that this leader has not received yet.
        """
        assert self.leader is not None
        follower = self.leader.followers.get(replica_id)
        if follower is None:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if current_leader_epoch != NO_EPOCH:
                code = ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"Broker {replica_id} is no replica of {self.topic}-{self.partition} here.")
        if UNKNOWN_BROKER_EPOCH < broker_epoch < follower.broker_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Broker {replica_id} has started anew since: epoch {follower.broker_epoch}, not {broker_epoch}.",
            )

    def on_follower_fetch(
        self, replica_id: int, broker_epoch: int, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> None:
        """Note that a follower, checked by `check_replica`, has everything below `fetch_offset`, which is in this log."""
        leader = self.leader
        if leader is None:
            return  # what another partition's commit brought about has ended the leadership since the check
        self._carry_out(
            leader.on_follower_fetch(
                replica_id,
                broker_epoch=broker_epoch,
                fetch_offset=fetch_offset,
                log_start_offset=log_start_offset,
                leo=self.log.log_end_offset,
                now_ms=now_ms,
            )
        )
        self._release_deletions()

    def mark_idle(self, replica_id: int, channel: FetchChannel) -> ReplicaProgress | None:
        """Mark a follower as idle, see `LeaderState`."""
        return None if self.leader is None else self.leader.mark_idle(replica_id, channel)

    def on_brokers_lost(self, broker_ids: Set[int]) -> None:
        """Note that these brokers are not alive any more."""
        leader = self.leader
        if leader is not None and not broker_ids.isdisjoint(leader.followers):
            self._carry_out(leader.on_brokers_lost(self._context.now_ms()))
            self._release_deletions()

    def on_tick(self, now_ms: int) -> None:
        """Remove lagging followers from the ISR. Due every half of replica.lag.time.max.ms."""
        if self.leader is not None and not self.leader.is_alone:
            self._carry_out(self.leader.on_tick(now_ms))
            self._release_deletions()

    def wants(self, change: IsrChange) -> bool:
        """See `IsrOwner`."""
        return self.leader is not None and self.leader.pending is change

    def on_isr_response(self, change: IsrChange, answer: IsrResponse) -> None:
        """See `IsrOwner`."""
        if self.leader is not None:
            self._carry_out(self.leader.on_isr_response(change, answer, self._context.now_ms()))

    def is_throttled(self, replica_id: int) -> bool:
        """Whether this follower gets no records now: it is out of sync, and the quota of such followers is used up."""
        quota = self._context.dependencies.quota
        return (
            replica_id not in self.assignment.isr
            and quota.is_throttled(self.topic, self.partition)
            and quota.is_exceeded
        )

    def on_sent_to_replica(self, replica_id: int, size_bytes: int) -> None:
        """Count records that are sent to a follower."""
        dependencies = self._context.dependencies
        dependencies.metrics.sent_to_replica(size_bytes, is_reassignment=replica_id in self.assignment.adding_replicas)
        if dependencies.quota.is_throttled(self.topic, self.partition):
            dependencies.quota.record(size_bytes)

    # --- deleting ---

    @property
    def low_watermark(self) -> int:
        """The offset below which no live replica has records."""
        start = self.log.log_start_offset
        return start if self.leader is None else self.leader.low_watermark(start)

    def delete_records(self, offset: int) -> int:
        """Make records below `offset` invisible to readers of this leader; returns the low watermark, which rises as followers
        delete.

        Raises OFFSET_OUT_OF_RANGE above the high watermark.
        """
        delete_records(self.log, offset)
        self.truncated()
        self._release_deletions()
        return self.low_watermark

    def expire(self, offset: int) -> None:
        """Delete the records below `offset`, which is at most the high watermark, because they have expired. Wakes nobody:
        followers and consumers learn the log start with their next response, as after retention."""
        assert self.leader is not None
        assert offset <= self.high_watermark
        raise_log_start_offset(self.log, offset)
        self._release_deletions()

    def _release_deletions(self) -> None:
        waiters = self.waiters.deleted
        if waiters is not None and waiters.heap:
            waiters.release(self.low_watermark)

    # --- reading ---

    def readable_end(self, *, read_committed: bool) -> int:
        """Return the offset at which a consumer's reading ends."""
        return self.last_stable_offset if read_committed else self.log.offsets.high_watermark

    @property
    def may_redirect(self) -> bool:
        """Whether consumers may be redirected to a replica near them."""
        return self.leader is not None and self._context.dependencies.select_replica is not None

    def preferred_read_replica(
        self, rack: str, fetch_offset: int, rack_of: Callable[[int], str | None], now_ms: int
    ) -> int | None:
        """Return the replica that a consumer in `rack` should read `fetch_offset` from; None: this one. `rack_of` returns None
        for a broker that is not reachable."""
        leader, select = self.leader, self._context.dependencies.select_replica
        if leader is None or select is None:
            return None
        return preferred_read_replica(select, leader, rack, fetch_offset, rack_of, now_ms)

    def truncated(self) -> None:
        """Wake waiting fetches, because records were removed at either end (DeleteRecords, truncation)."""
        self.last_stable_offset = self.log.commit(self.log.high_watermark)
        self.waiters.wake_fetches()
