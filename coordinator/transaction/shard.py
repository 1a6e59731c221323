"""The transactions of one partition of `__transaction_state`: requests in, effects out, records replayed. Pure.

This is the contract's `Shard` for transactions. Each operation is decided by the module of its family. The caller has
checked that this broker is the coordinator of the transactional id.

Rules: `replay` alone changes what is stored. Markers and completions follow from stored states: after a load every prepared
transaction is continued, whichever coordinator prepared it.
Invariant: a reloaded shard has the same `durable_state`.
Source: Kafka TransactionCoordinator and TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from coordinator.runtime.contract import (
    BatchPosition,
    CoordinatorRecord,
    Effect,
    Outbox,
    Respond,
    Result,
    TimerKey,
    Waiter,
)
from coordinator.transaction.change_writer import ChangeWriter
from coordinator.transaction.completion import CompletionTimer, TransactionCompletion, TransactionEnd
from coordinator.transaction.descriptions import TransactionFilter, described, listed
from coordinator.transaction.events import TransactionRecordSkipped
from coordinator.transaction.expiry import IdExpiry
from coordinator.transaction.markers import CancelMarkers, MarkerOutcome, TransactionMarkers
from coordinator.transaction.producer_registration import ProducerIdAndEpoch, ProducerInit, ProducerRegistration
from coordinator.transaction.records import TransactionKey, UnknownTransactionKey, read_key, read_transaction
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.transaction import Transaction, TransactionalId, TransactionState
from coordinator.transaction.transaction_partitions import TransactionalProducer, TransactionPartitions
from protocol.errors import ErrorCode
from protocol.messages import describe_transactions, list_transactions
from protocol.primitives import DecodeError
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import ONE_EPOCH


class TransactionShard:
    """Implements `coordinator.runtime.contract.Shard`. `leader_epoch` is that of the election which made it."""

    def __init__(
        self, partition: int, leader_epoch: int, settings: TransactionSettings, level: Callable[[], int] = lambda: 0
    ) -> None:
        """`level` returns that of `transaction.version`."""
        self.partition = partition
        self._ids: dict[str, TransactionalId] = {}
        self._open: dict[str, None] = {}
        """The ids with an open transaction, in the order of their start."""
        self._is_loading = True
        self._outbox = Outbox()
        self._writer = ChangeWriter(self._ids, self._outbox, level)
        self._completion = TransactionCompletion(
            partition, leader_epoch, settings, self._ids, self._writer, self._outbox
        )
        self._registration = ProducerRegistration(
            partition, self._ids, self._writer, self._completion, self._outbox, settings.ids_max
        )
        self._partitions = TransactionPartitions(self._ids, self._writer, self._outbox)
        self._expiry = IdExpiry(partition, settings, self._ids, self._writer, self._outbox)

    # --- requests of producers -------------------------------------------------------------------------------------

    def needs_producer_id(self, transactional_id: str, expected: ProducerIdAndEpoch | None) -> bool:
        """Return whether `init_producer_id` would use a fresh producer id now."""
        return self._registration.needs_producer_id(transactional_id, expected)

    def init_producer_id(self, request: ProducerInit, waiter: Waiter, now_ms: int) -> list[Effect]:
        """Give a producer its id and epoch. The response, as of the two below, is a TransactionResponse."""
        self._registration.init(request, waiter, now_ms)
        return self._outbox.drain()

    def add_partitions(
        self,
        producer: TransactionalProducer,
        partitions: Collection[TopicPartition],
        waiter: Waiter,
        now_ms: int,
        client_version: int = ONE_EPOCH,
    ) -> list[Effect]:
        self._partitions.add(producer, partitions, waiter, now_ms, client_version)
        return self._outbox.drain()

    def verify_partitions(
        self, producer: TransactionalProducer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        return self._partitions.verify(producer, partitions)

    def needs_next_producer_id(self, request: TransactionEnd) -> bool:
        """Return whether `end_transaction` would use a fresh producer id now."""
        return self._completion.needs_producer_id(request)

    def end_transaction(self, request: TransactionEnd, waiter: Waiter, now_ms: int) -> list[Effect]:
        self._completion.end(request, waiter, now_ms)
        return self._outbox.drain()

    # --- descriptions -----------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> describe_transactions.TransactionState:
        return described(transactional_id, self._ids.get(transactional_id))

    def list_row(
        self, transactional_id: str, wanted: TransactionFilter, now_ms: int
    ) -> list_transactions.TransactionState | None:
        """Return the row of ListTransactions for one id; None when the filter excludes it, or it is not stored."""
        return listed(self._ids.get(transactional_id), wanted, now_ms)

    def stored_keys(self) -> list[str]:
        return list(self._ids)

    def durable_state(self) -> dict[str, Transaction]:
        """Return the state that a replay of the log must rebuild: for tests and for comparing coordinators."""
        return {name: subject.stored for name, subject in self._ids.items() if subject.stored is not None}

    @property
    def waiting_completions(self) -> int:
        """The transactions whose markers are written and whose completion the log has refused."""
        return self._completion.waiting_completions

    @property
    def ids_count(self) -> int:
        """The transactional ids that are known."""
        return len(self._ids)

    # --- periodic work -------------------------------------------------------------------------------------------

    def open_ids(self) -> list[str]:
        """Return the ids with an open transaction."""
        return list(self._open)

    def abort_overdue(self, transactional_id: str, now_ms: int, fresh_producer_id: int | None = None) -> list[Effect]:
        """Abort the transaction if it has outlived its timeout. It may ask for a producer id first."""
        self._completion.abort_overdue(transactional_id, now_ms, fresh_producer_id)
        return self._outbox.drain()

    def id_chunks(self) -> Iterator[list[str]]:
        """Yield all ids, in chunks, for `expire`."""
        return self._expiry.chunks()

    def expire(self, transactional_ids: Sequence[str], now_ms: int) -> list[Effect]:
        """Expire those of the ids that were not used for too long."""
        self._expiry.expire(transactional_ids, now_ms)
        return self._outbox.drain()

    # --- records ---------------------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, position: BatchPosition, now_ms: int) -> None:
        try:
            match read_key(record.key):
                case TransactionKey(transactional_id):
                    self._replay(transactional_id, None if record.value is None else read_transaction(record.value))
                case UnknownTransactionKey(version):
                    self._skip(position, f"key version {version}")
        except DecodeError as error:
            # Records of this broker always decode; while loading, one bad record must not make the whole partition unavailable.
            assert self._is_loading
            self._skip(position, str(error))

    def _replay(self, transactional_id: str, stored: Transaction | None) -> None:
        subject = self._ids.get(transactional_id)
        if subject is None:
            if stored is not None:
                subject = self._ids[transactional_id] = TransactionalId(transactional_id)
                subject.stored = stored
        else:
            subject.stored = stored
            if stored is None and subject.pending is None:
                del self._ids[transactional_id]
        if stored is not None and stored.state is TransactionState.ONGOING:
            self._open[transactional_id] = None
        else:
            self._open.pop(transactional_id, None)

    def _skip(self, position: BatchPosition, why: str) -> None:
        self._outbox.put(TransactionRecordSkipped(self.partition, position.base_offset, why))

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Do nothing: no transaction writes to this topic."""

    # --- the context's events --------------------------------------------------------------------------------------

    def on_loaded(self, now_ms: int) -> list[Effect]:
        self._is_loading = False
        self._carry_on(now_ms)
        return self._outbox.drain()

    def on_reelected(self, leader_epoch: int, now_ms: int) -> list[Effect]:
        """Request all markers again: partitions refuse markers of the previous epoch once they have seen the new one."""
        self._completion.coordinator_epoch = leader_epoch
        if not self._is_loading:
            self._outbox.put(CancelMarkers())
            self._carry_on(now_ms)
        return self._outbox.drain()

    def _carry_on(self, now_ms: int) -> None:
        for subject in self._ids.values():
            if self._completion.must_write_markers(subject):
                self._completion.write_markers(subject, now_ms)

    def on_markers_written(self, markers: TransactionMarkers, outcome: MarkerOutcome, now_ms: int) -> list[Effect]:
        """Process the outcome of a `WriteMarkers`. It is ignored when the markers were requested again since."""
        self._completion.on_markers_written(markers, outcome, now_ms)
        return self._outbox.drain()

    def on_timer(self, key: TimerKey, now_ms: int) -> list[Effect]:
        match key:
            case CompletionTimer(transactional_id):
                self._completion.on_completion_timer(transactional_id, now_ms)
            case _:
                raise AssertionError(f"not a timer of a transaction: {key}")
        return self._outbox.drain()

    def on_committed(self, result: Result, now_ms: int) -> list[Effect]:
        if result.waiter is not None:  # first: the client need not wait for the markers
            assert result.response is not None
            self._outbox.respond(result.waiter, result.response)
        result.change.committed(now_ms)
        return self._outbox.drain()

    def on_failed(self, result: Result, error: ErrorCode, now_ms: int) -> list[Effect]:
        self._outbox.fail(result, error, now_ms)
        return self._outbox.drain()

    def on_commit_timeout(self, result: Result, now_ms: int) -> list[Effect]:
        self._outbox.time_out(result, now_ms)
        return self._outbox.drain()

    def on_unloaded(self, in_flight: Sequence[Result], now_ms: int) -> list[Effect]:
        """Return only responses: the next coordinator continues the work of this shard."""
        effects: list[Effect] = []
        for result in in_flight:
            effects += self.on_failed(result, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
        return [effect for effect in effects if isinstance(effect, Respond)]
