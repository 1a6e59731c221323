"""Writes the changes of transactional ids: each is appended, pending until it is committed, undone when it is refused. Pure.

Rules: a change is pending from its append until its outcome is known, even if its waiter has already got a timeout error: the
record may still be committed, and no decision may be made without it.
Source: Kafka TransactionStateManager.appendTransactionToLog (which forgets the change at the timeout, and may then be older
than its log).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.runtime.contract import AppendRecords, Outbox, Result, Waiter
from coordinator.transaction.events import TransactionNotStored
from coordinator.transaction.records import transaction_record
from coordinator.transaction.transaction import Transaction, TransactionalId, TransactionResponse
from protocol.errors import ErrorCode

_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


SUCCESS = TransactionResponse(ErrorCode.NONE)


def _failure(append_error: ErrorCode) -> TransactionResponse:
    """Return the response when the append of a change ended with `append_error`."""
    return TransactionResponse(_COORDINATOR_ERRORS.get(append_error, append_error))


class ChangeWriter:
    """Appends changes, one at a time for each transactional id. The shard owns `ids`. `level` returns that of
    `transaction.version`."""

    def __init__(self, ids: dict[str, TransactionalId], outbox: Outbox, level: Callable[[], int]) -> None:
        self._ids = ids
        self._outbox = outbox
        self._level = level

    def store(
        self,
        subject: TransactionalId,
        transaction: Transaction,
        what: str,
        *,
        waiter: Waiter | None = None,
        response: TransactionResponse = SUCCESS,
        committed: Callable[[int], None] | None = None,
        failed: Callable[[int], None] | None = None,
    ) -> None:
        """Append `transaction` as the next value of `subject`. `committed` and `failed` are called with the time of the
        outcome, after `waiter` has got `response`, or the error of the append; `what` names the change in the log."""
        assert subject.pending is None, subject
        change = subject.pending = _TransactionChange(self, subject, what, committed, failed)
        record = transaction_record(subject.name, transaction, self._level())
        self._outbox.put(AppendRecords(Result((record,), change, response, waiter)))

    def ended(self, subject: TransactionalId) -> None:
        """Clear the pending change: its outcome is known."""
        subject.pending = None
        if subject.stored is None:
            del self._ids[subject.name]

    def not_stored(self, subject: TransactionalId, what: str, error: ErrorCode) -> None:
        self._outbox.put(TransactionNotStored(subject.name, what, error))


@dataclass(slots=True, eq=False)
class _TransactionChange:
    """Implements the contract's `PendingChange`."""

    writer: ChangeWriter
    subject: TransactionalId
    what: str
    on_committed: Callable[[int], None] | None
    on_failed: Callable[[int], None] | None

    def committed(self, now_ms: int) -> None:
        self.writer.ended(self.subject)
        if self.on_committed is not None:
            self.on_committed(now_ms)

    def failed(self, error: ErrorCode, now_ms: int) -> TransactionResponse:
        self.writer.ended(self.subject)
        self.writer.not_stored(self.subject, self.what, error)
        if self.on_failed is not None:
            self.on_failed(now_ms)
        return _failure(error)

    def timed_out(self, now_ms: int) -> TransactionResponse:
        return _failure(ErrorCode.REQUEST_TIMED_OUT)
