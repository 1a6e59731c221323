"""The end of a transaction: EndTxn, aborts that the coordinator decides, the markers, the completion. Pure.

    ONGOING --record--> PREPARE_* --markers in all partitions--> --record--> COMPLETE_*

Behaviour: the client's response is sent when the outcome is stored; markers and completion follow. While markers are written
every EndTxn gets CONCURRENT_TRANSACTIONS. Afterwards the same outcome gets NONE again; the other one, or an end without a
transaction, gets INVALID_TXN_STATE.
Rules: markers are requested again after a load and after a re-election, under the new epoch; the outcome of markers that are
not the newest ones is ignored. A completion that the log refuses is retried: the markers are written, so nothing else can
follow. Fenced markers leave the transaction prepared, as in Kafka, until the coordinator is elected again.
Source: KIP-98; Kafka TransactionCoordinator.endTransaction, TransactionMarkerChannelManager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.runtime.contract import Outbox, ScheduleTimer, Waiter
from coordinator.transaction.change_writer import SUCCESS, ChangeWriter
from coordinator.transaction.events import MarkersFenced, TransactionTimedOut
from coordinator.transaction.markers import MarkerOutcome, TransactionMarkers, WriteMarkers
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.transaction import (
    NO_PRODUCER_EPOCH,
    TransactionalId,
    TransactionResponse,
    TransactionState,
)
from coordinator.transaction.transaction_partitions import TransactionalProducer
from protocol.errors import ErrorCode


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

    def end(self, producer: TransactionalProducer, waiter: Waiter, now_ms: int, *, is_commit: bool) -> None:
        subject = self._ids.get(producer.transactional_id)
        if subject is None or subject.stored is None or subject.stored.producer_id != producer.producer_id:
            self._outbox.respond(waiter, TransactionResponse(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            return
        current = subject.stored
        if current.producer_epoch != producer.producer_epoch:
            error = ErrorCode.PRODUCER_FENCED
        elif subject.pending is not None or current.state.is_prepared:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        elif current.state is TransactionState.ONGOING:
            prepared = current.prepared(now_ms, is_commit=is_commit)
            what = "commit" if is_commit else "abort"
            self._writer.store(subject, prepared, what, waiter=waiter, committed=self._begin_markers(subject))
            return
        else:
            reached = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
            error = ErrorCode.NONE if current.state is reached else ErrorCode.INVALID_TXN_STATE
        self._outbox.respond(waiter, TransactionResponse(error))

    def fence(
        self,
        subject: TransactionalId,
        what: str,
        now_ms: int,
        *,
        waiter: Waiter | None = None,
        response: TransactionResponse = SUCCESS,
        committed: Callable[[], None] | None = None,
    ) -> None:
        """Abort the open transaction under the next epoch, so that its producer cannot go on."""
        assert subject.stored is not None

        def on_committed(now_ms: int) -> None:
            subject.last_producer_epoch = NO_PRODUCER_EPOCH  # no producer may continue from the previous epoch
            if committed is not None:
                committed()
            self.write_markers(subject, now_ms)

        self._writer.store(
            subject, subject.stored.fenced(now_ms), what, waiter=waiter, response=response, committed=on_committed
        )

    def abort_overdue(self, transactional_id: str, now_ms: int) -> None:
        """Abort the transaction if it has outlived its timeout. One with a pending change is skipped."""
        subject = self._ids.get(transactional_id)
        if subject is None or subject.stored is None or subject.pending is not None:
            return
        current = subject.stored
        if not current.overdue_at(now_ms):
            return

        def aborted() -> None:
            self._outbox.put(
                TransactionTimedOut(transactional_id, current.producer_id, current.producer_epoch, current.timeout_ms)
            )

        self.fence(subject, "abort of a transaction that timed out", now_ms, committed=aborted)

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
