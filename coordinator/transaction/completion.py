"""The end of a transaction: EndTxn, aborts that the coordinator decides, the markers, the completion. Pure.

    ONGOING --record--> PREPARE_* --markers in all partitions--> --record--> COMPLETE_*

Behaviour: the client's response is sent when the outcome is stored; markers and completion follow. While markers are written
every EndTxn gets CONCURRENT_TRANSACTIONS. Afterwards the same outcome gets NONE again; the other one, or an end without a
transaction, gets INVALID_TXN_STATE. Where the end raises the epoch (`EPOCH_BUMPS`), the response has the id and the epoch of
the next transaction, and a request that is repeated is known by its epoch: it gets the same response. An abort without a
transaction is then one more end, which raises the epoch as well: the client does not know whether a partition was added.
Rules: markers are requested again after a load and after a re-election, under the new epoch; the outcome of markers that are
not the newest ones is ignored. A completion that the log refuses is retried: the markers are written, so nothing else can
follow. Fenced markers leave the transaction prepared, as in Kafka, until the coordinator is elected again.
Source: KIP-98, KIP-890; Kafka TransactionCoordinator.endTransaction, TransactionMarkerChannelManager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.runtime.contract import Outbox, ScheduleTimer, Waiter
from coordinator.transaction.change_writer import SUCCESS, ChangeWriter
from coordinator.transaction.events import MarkersFenced, TransactionTimedOut
from coordinator.transaction.markers import MarkerOutcome, TransactionMarkers, WriteMarkers
from coordinator.transaction.producer_ids import AllocateProducerId
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.transaction import (
    LAST_CLIENT_EPOCH,
    NO_PRODUCER_EPOCH,
    Transaction,
    TransactionalId,
    TransactionResponse,
    TransactionState,
)
from coordinator.transaction.transaction_partitions import TransactionalProducer
from protocol.errors import ErrorCode
from protocol.transaction_version import EPOCH_BUMPS, ONE_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """One EndTxn. `fresh_producer_id` is allocated for this request, and given when `TransactionCompletion.needs_producer_id`
    is true."""

    producer: TransactionalProducer
    is_commit: bool
    client_version: int = ONE_EPOCH
    fresh_producer_id: int | None = None

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= EPOCH_BUMPS


@dataclass(frozen=True, slots=True)
class CompletionTimer:
    """The key of the timer after which a completion is appended again."""

    transactional_id: str


class TransactionCompletion:
    """Ends transactions. The shard owns `ids`. `coordinator_epoch`, the leader epoch of its partition, is put into markers."""

    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        settings: TransactionSettings,
        ids: dict[str, TransactionalId],
        writer: ChangeWriter,
        outbox: Outbox,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch
        self._partition = partition
        self._settings = settings
        self._ids = ids
        self._writer = writer
        self._outbox = outbox
        self._waiting_completions: set[str] = set()

    @property
    def waiting_completions(self) -> int:
        """The transactions whose completion the log has refused, and which is to be retried."""
        return len(self._waiting_completions)

    # --- the decision ----------------------------------------------------------------------------------------------

    def needs_producer_id(self, request: TransactionEnd) -> bool:
        """Return whether `end` would use a fresh producer id now."""
        subject = self._ids.get(request.producer.transactional_id)
        if not request.bumps_epoch or subject is None or subject.stored is None or subject.pending is not None:
            return False
        return subject.stored.is_epoch_exhausted and not isinstance(_decided(subject.stored, request), ErrorCode)

    def end(self, request: TransactionEnd, waiter: Waiter, now_ms: int) -> None:
        subject = self._ids.get(request.producer.transactional_id)
        if subject is None or subject.stored is None:
            self._refuse(waiter, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return
        current = subject.stored
        if request.bumps_epoch:
            is_waiting = subject.pending is not None or current.state.is_prepared
            decided = ErrorCode.CONCURRENT_TRANSACTIONS if is_waiting else _decided(current, request)
            self._end_with_next_epoch(subject, current, request, decided, waiter, now_ms)
            return
        if current.producer_id != request.producer.producer_id:
            error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        elif current.producer_epoch != request.producer.producer_epoch:
            error = ErrorCode.PRODUCER_FENCED
        elif subject.pending is not None or current.state.is_prepared:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        elif current.state is TransactionState.ONGOING:
            prepared = current.prepared(now_ms, is_commit=request.is_commit)
            what = "commit" if request.is_commit else "abort"
            self._writer.store(subject, prepared, what, waiter=waiter, committed=self._begin_markers(subject))
            return
        else:
            reached = TransactionState.COMPLETE_COMMIT if request.is_commit else TransactionState.COMPLETE_ABORT
            error = ErrorCode.NONE if current.state is reached else ErrorCode.INVALID_TXN_STATE
        self._refuse(waiter, error)

    def _end_with_next_epoch(
        self,
        subject: TransactionalId,
        current: Transaction,
        request: TransactionEnd,
        decided: TransactionState | ErrorCode,
        waiter: Waiter,
        now_ms: int,
    ) -> None:
        if decided is ErrorCode.NONE:
            repeated = TransactionResponse(decided, current.producer_id, current.producer_epoch)
            self._outbox.respond(waiter, repeated)
            return
        if isinstance(decided, ErrorCode):
            self._refuse(waiter, decided)
            return
        prepared = current.prepared(now_ms, is_commit=request.is_commit, client_version=request.client_version)
        if current.is_epoch_exhausted:
            if request.fresh_producer_id is None:  # it changed since `needs_producer_id`
                self._refuse(waiter, ErrorCode.CONCURRENT_TRANSACTIONS)
                return
            prepared = prepared.with_next_id(request.fresh_producer_id)
        completed = prepared.completed(now_ms)

        def on_committed(now_ms: int) -> None:
            subject.last_producer_epoch = current.producer_epoch  # a client without the response may name it (KIP-360)
            self.write_markers(subject, now_ms)

        self._writer.store(
            subject,
            prepared,
            "commit" if request.is_commit else "abort",
            waiter=waiter,
            response=TransactionResponse(ErrorCode.NONE, completed.producer_id, completed.producer_epoch),
            committed=on_committed,
        )

    def _refuse(self, waiter: Waiter, error: ErrorCode) -> None:
        self._outbox.respond(waiter, TransactionResponse(error))

    def fence(
        self,
        subject: TransactionalId,
        what: str,
        now_ms: int,
        *,
        fresh_producer_id: int | None = None,
        waiter: Waiter | None = None,
        response: TransactionResponse = SUCCESS,
        committed: Callable[[], None] | None = None,
    ) -> None:
        """Abort the open transaction under the next epoch, so that its producer cannot go on. `fresh_producer_id` is to be
        given where `needs_id_to_fence`."""
        current = subject.stored
        assert current is not None
        fenced = current.fenced(now_ms)
        if needs_id_to_fence(current):
            assert fresh_producer_id is not None, subject
            fenced = fenced.with_next_id(fresh_producer_id)
        # Where the epoch stays, no producer may continue from the previous one; else an end of it may still be repeated.
        last_epoch = current.producer_epoch if current.bumps_epoch else NO_PRODUCER_EPOCH

        def on_committed(now_ms: int) -> None:
            subject.last_producer_epoch = last_epoch
            if committed is not None:
                committed()
            self.write_markers(subject, now_ms)

        self._writer.store(subject, fenced, what, waiter=waiter, response=response, committed=on_committed)

    def abort_overdue(self, transactional_id: str, now_ms: int, fresh_producer_id: int | None = None) -> None:
        """Abort the transaction if it has outlived its timeout. One with a pending change is skipped. Where its end needs a
        producer id, that is allocated first, and this called again."""
        subject = self._ids.get(transactional_id)
        if subject is None or subject.stored is None or subject.pending is not None:
            return
        current = subject.stored
        if not current.overdue_at(now_ms):
            return
        if needs_id_to_fence(current) and fresh_producer_id is None:
            self._outbox.put(AllocateProducerId(transactional_id))
            return

        def aborted() -> None:
            self._outbox.put(
                TransactionTimedOut(transactional_id, current.producer_id, current.producer_epoch, current.timeout_ms)
            )

        what = "abort of a transaction that timed out"
        self.fence(subject, what, now_ms, fresh_producer_id=fresh_producer_id, committed=aborted)

    # --- the markers -----------------------------------------------------------------------------------------------

    def _begin_markers(self, subject: TransactionalId) -> Callable[[int], None]:
        return lambda now_ms: self.write_markers(subject, now_ms)

    def write_markers(self, subject: TransactionalId, now_ms: int) -> None:
        """Request the markers of a prepared transaction, in place of those requested before."""
        current = subject.stored
        assert current is not None and current.state.is_prepared and subject.pending is None
        if not current.partitions:
            self._complete(subject, now_ms)
            return
        subject.markers = TransactionMarkers(
            transactional_id=subject.name,
            coordinator_partition=self._partition,
            coordinator_epoch=self.coordinator_epoch,
            producer_id=current.producer_id,
            producer_epoch=current.producer_epoch,
            is_commit=current.state is TransactionState.PREPARE_COMMIT,
            transaction_version=current.client_version,
            partitions=tuple(sorted(current.partitions)),
        )
        self._outbox.put(WriteMarkers(subject.markers))

    def must_write_markers(self, subject: TransactionalId) -> bool:
        """Whether the transaction is prepared, and its markers are not known to be in all partitions."""
        current = subject.stored
        if current is None or not current.state.is_prepared or subject.pending is not None:
            return False
        return subject.name not in self._waiting_completions

    def on_markers_written(self, markers: TransactionMarkers, outcome: MarkerOutcome, now_ms: int) -> None:
        subject = self._ids.get(markers.transactional_id)
        if subject is None or subject.markers is not markers:
            return  # requested again since
        if outcome is MarkerOutcome.FENCED:
            self._outbox.put(MarkersFenced(markers))
            return
        subject.markers = None
        self._complete(subject, now_ms)

    # --- the completion --------------------------------------------------------------------------------------------

    def _complete(self, subject: TransactionalId, now_ms: int) -> None:
        assert subject.stored is not None
        completed = subject.stored.completed(now_ms)
        self._writer.store(subject, completed, "completion", failed=lambda now_ms: self._wait(subject, now_ms))

    def _wait(self, subject: TransactionalId, now_ms: int) -> None:
        self._waiting_completions.add(subject.name)
        deadline_ms = now_ms + self._settings.completion_retry_ms
        self._outbox.put(ScheduleTimer(CompletionTimer(subject.name), deadline_ms))

    def on_completion_timer(self, transactional_id: str, now_ms: int) -> None:
        self._waiting_completions.discard(transactional_id)
        self._complete(self._ids[transactional_id], now_ms)


def needs_id_to_fence(current: Transaction) -> bool:
    """Whether an abort of the coordinator uses up the epochs, and the next transaction needs a producer id."""
    return current.state is TransactionState.ONGOING and current.bumps_epoch and current.is_epoch_exhausted


def _decided(current: Transaction, request: TransactionEnd) -> TransactionState | ErrorCode:
    """Return what an end that raises the epoch leads to: a prepared state, NONE for a request that is repeated, or an error."""
    producer, is_commit = request.producer, request.is_commit
    is_repeated = current.producer_id == producer.producer_id and current.producer_epoch == producer.producer_epoch + 1
    is_repeated_overflow = (
        current.previous_producer_id == producer.producer_id
        and producer.producer_epoch == LAST_CLIENT_EPOCH
        and current.producer_epoch == 0
    )
    if current.producer_id != producer.producer_id and not is_repeated_overflow:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    has_ended = current.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    may_be_repeated = has_ended and (is_repeated or is_repeated_overflow)
    if current.producer_epoch != producer.producer_epoch and not may_be_repeated:
        return ErrorCode.PRODUCER_FENCED
    if may_be_repeated:
        reached = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        return ErrorCode.NONE if current.state is reached else ErrorCode.INVALID_TXN_STATE
    if is_commit:
        is_open = current.state is TransactionState.ONGOING
        return TransactionState.PREPARE_COMMIT if is_open else ErrorCode.INVALID_TXN_STATE
    return TransactionState.PREPARE_ABORT
