"""One partition on this broker: its log, its role, and who waits for it. The host of the pure `LeaderState`.

Rules: synchronous; every effect of an event is carried out before the next event of the same partition. Errors leave as
`KafkaError`. Waiting fetches are woken once a loop turn, however many appends the turn held.
Invariants: only a leader appends what clients send; readers see nothing at or past the high watermark.
Source: Kafka Partition, ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from replication.leader import HighWatermarkAdvanced, LeaderState
from replication.waiters import CommitWaiters, FetchWaiter, FetchWaiters
from storage.log import AppendOrigin, AppendResult, PartitionLog

if TYPE_CHECKING:
    from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
    from runtime.filesystem import Buffer

NO_LEADER = -1
NO_EPOCH = -1


class WakeUps:
    """Gathers the waiter lists that one loop turn has touched, and wakes each of them once at the turn's end."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._touched: dict[FetchWaiters, None] = {}

    def touch(self, waiters: FetchWaiters) -> None:
        if not self._touched:
            self._call_soon(self._wake)
        self._touched[waiters] = None

    def _wake(self) -> None:
        touched, self._touched = self._touched, {}
        for waiters in touched:
            waiters.wake()


class Partition:
    """Life cycle: made by the first LeaderAndIsr that names it, dropped by StopReplica or with its log directory."""

    __slots__ = (
        "_broker_id",
        "_hw_waiters",
        "_lso_waiters",
        "_wake_ups",
        "_written_waiters",
        "commit_waiters",
        "controller_epoch",
        "isr",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "partition",
        "partition_epoch",
        "replicas",
        "topic",
    )

    def __init__(self, log: PartitionLog, broker_id: int, wake_ups: WakeUps) -> None:
        self.topic = log.topic
        self.partition = log.partition
        self.log = log
        self.leader: LeaderState | None = None
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.controller_epoch = NO_EPOCH
        self.isr: list[int] = []
        self.replicas: list[int] = []
        self.last_stable_offset = 0
        self.commit_waiters = CommitWaiters()
        self._written_waiters = CommitWaiters()
        self._hw_waiters = FetchWaiters()
        self._lso_waiters = FetchWaiters()
        self._wake_ups = wake_ups
        self._broker_id = broker_id

    def __repr__(self) -> str:
        return f"<Partition {self.topic}-{self.partition} leader={self.leader_id} epoch={self.leader_epoch}>"

    # --- role ---

    @property
    def is_leader(self) -> bool:
        return self.leader is not None

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def topic_id(self) -> bytes:
        return self.log.topic_id

    def become_leader(self, state: LeaderAndIsrPartitionState) -> bool:
        """Lead in `state.leader_epoch`. Returns whether this is a new term."""
        is_new_term = self.leader is None or state.leader_epoch > self.leader_epoch
        self._note(state)
        if is_new_term:
            log = self.log
            self.leader = LeaderState(
                self._broker_id,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                leo=log.log_end_offset,
                high_watermark=log.high_watermark,
                min_insync_replicas=self._min_insync_replicas(),
            )
            log.assign_leader_epoch(state.leader_epoch, log.log_end_offset)
            self._carry_out(self.leader.on_elected())
            self._commit(log.high_watermark)
        return is_new_term

    def become_follower(self, state: LeaderAndIsrPartitionState) -> bool:
        """Follow `state.leader`. Returns whether anything changed hands."""
        was_leader = self.leader is not None
        changed = was_leader or state.leader_epoch > self.leader_epoch
        self._note(state)
        self.leader = None
        if was_leader:
            self._answer_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return changed

    def _min_insync_replicas(self) -> int:
        """Never more than there are replicas, as in Kafka: one replica with min.insync.replicas=2 takes acks=all."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    def stop(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """This broker holds the partition no more: everybody who waits gets `error`."""
        self.leader = None
        self.leader_id = NO_LEADER
        self._answer_waiters(error)

    def _note(self, state: LeaderAndIsrPartitionState) -> None:
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.controller_epoch = state.controller_epoch
        self.isr = list(state.isr)
        self.replicas = list(state.replicas)

    def _answer_waiters(self, error: ErrorCode) -> None:
        self._written_waiters.fail_all(error)
        self.commit_waiters.fail_all(error)
        self._wake_ups.touch(self._hw_waiters)
        self._wake_ups.touch(self._lso_waiters)

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raises FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.

        `current_leader_epoch` is the one the client believes in; -1 when it does not say.
        """
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"Leader epoch {current_leader_epoch} of {self.topic}-{self.partition} is over: now {self.leader_epoch}.",
                )
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"Leader epoch {current_leader_epoch} of {self.topic}-{self.partition} is not known here yet: "
                f"now {self.leader_epoch}.",
            )
        if self.leader is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker does not lead {self.topic}-{self.partition}."
            )

    # --- writing ---

    def append(
        self, records: Buffer, *, origin: AppendOrigin, acks: int, now_ms: int, produce_version: int | None = None
    ) -> AppendResult:
        """Append as leader. The records are readable once the high watermark passes `result.last_offset`.

        `records` is patched in place and belongs to the log until written. `acks` is the client's: -1 asks for a full
        ISR. The write may still be under way when this returns: see `when_written` and `when_committed`.
        Raises KafkaError, and then nothing has changed.
        """
        leader = self.leader
        if leader is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker does not lead {self.topic}-{self.partition}."
            )
        if acks == -1 and leader.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic}-{self.partition} has {len(leader.isr)} in-sync replicas, "
                f"min.insync.replicas asks for {leader.min_insync_replicas}.",
            )
        result = self.log.append(
            records,
            leader_epoch=leader.leader_epoch,
            origin=origin,
            now_ms=now_ms,
            done=self._on_written,
            produce_version=produce_version,
        )
        if self.leader is None:  # the write failed at once and took the directory offline
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.topic}-{self.partition} has failed.")
        return result

    def is_written(self, end_offset: int) -> bool:
        return self.log.log_end_offset >= end_offset

    def is_committed(self, end_offset: int) -> bool:
        return self.log.high_watermark >= end_offset

    def when_written(self, end_offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Call `on_result` once everything below `end_offset` is in the log; returns a ticket for `forget_written`."""
        return self._written_waiters.park(end_offset, on_result)

    def when_committed(self, end_offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Call `on_result` once everything below `end_offset` is committed; a ticket for `commit_waiters.cancel`."""
        return self.commit_waiters.park(end_offset, on_result)

    @property
    def waiting_produces_count(self) -> int:
        return len(self._written_waiters) + len(self.commit_waiters)

    @property
    def waiting_fetches_count(self) -> int:
        return len(self._hw_waiters) + len(self._lso_waiters)

    def forget_written(self, ticket: int) -> None:
        self._written_waiters.cancel(ticket)

    def _on_written(self, error: KafkaError | None) -> None:
        if error is not None:
            self._written_waiters.fail_all(error.code)
            self.commit_waiters.fail_all(error.code)
            return
        leo = self.log.log_end_offset
        if self._written_waiters.heap:
            self._written_waiters.release(leo)
        leader = self.leader
        if leader is not None:
            high_watermark = leader.on_append(leo)
            if high_watermark is not None:
                self._commit(high_watermark)

    def _carry_out(self, effects: list[HighWatermarkAdvanced]) -> None:
        for effect in effects:  # no await in this loop: an event's effects are one step
            self._commit(effect.high_watermark)

    def _commit(self, high_watermark: int) -> None:
        stable_offset = self.log.commit(high_watermark)
        if self.commit_waiters.heap:
            self.commit_waiters.release(high_watermark)
        if self._hw_waiters.waiting:
            self._wake_ups.touch(self._hw_waiters)
        if stable_offset != self.last_stable_offset:
            self.last_stable_offset = stable_offset
            if self._lso_waiters.waiting:
                self._wake_ups.touch(self._lso_waiters)

    def on_config_changed(self) -> None:
        """The log's settings changed: a lower min.insync.replicas may commit records."""
        if self.leader is not None:
            self._carry_out(self.leader.on_min_insync_replicas(self._min_insync_replicas()))

    # --- reading ---

    def readable_end(self, *, read_committed: bool) -> int:
        """The offset at which a consumer's reading ends."""
        return self.last_stable_offset if read_committed else self.log.high_watermark

    def park_fetch(self, waiter: FetchWaiter, *, read_committed: bool) -> None:
        (self._lso_waiters if read_committed else self._hw_waiters).park(waiter)

    def leave_fetch(self, waiter: FetchWaiter) -> None:
        self._hw_waiters.leave(waiter)
        self._lso_waiters.leave(waiter)

    def truncated(self) -> None:
        """Records went away (DeleteRecords, truncation): waiting fetches look again."""
        self._wake_ups.touch(self._hw_waiters)
        self._wake_ups.touch(self._lso_waiters)
