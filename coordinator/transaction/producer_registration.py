"""InitProducerId with a transactional id: a producer gets its id and epoch, and its predecessors are fenced. Pure.

Behaviour: a new id begins at epoch 0; a known one gets the next epoch, or a new producer id when the epochs are used up. An
open transaction is aborted first, under an epoch that no producer gets, and the client retries until that is complete
(CONCURRENT_TRANSACTIONS). A producer that names its previous id and epoch (KIP-360) is fenced unless they are the current
ones, or those before them: then it retries a request whose response it did not receive, and gets that response.
Source: KIP-98, KIP-360; Kafka TransactionCoordinator.prepareInitProducerIdTransit, TransactionMetadata.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.runtime.contract import Outbox, Waiter
from coordinator.transaction.change_writer import ChangeWriter
from coordinator.transaction.completion import TransactionCompletion, needs_id_to_fence
from coordinator.transaction.events import ProducerInitialized
from coordinator.transaction.transaction import (
    LAST_CLIENT_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    Transaction,
    TransactionalId,
    TransactionResponse,
    TransactionState,
)
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ProducerInit:
    """One InitProducerId. `expected` is the previous id and epoch that the producer names; `fresh_producer_id` is allocated for
    this request, and given when `ProducerRegistration.needs_producer_id` is true."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    fresh_producer_id: int | None = None


class ProducerRegistration:
    """Initializes producers. The shard owns `ids`; a new transactional id is added to it."""

    def __init__(
        self,
        partition: int,
        ids: dict[str, TransactionalId],
        writer: ChangeWriter,
        completion: TransactionCompletion,
        outbox: Outbox,
        ids_max: int,
    ) -> None:
        self._partition = partition
        self._ids = ids
        self._writer = writer
        self._completion = completion
        self._outbox = outbox
        self._ids_max = ids_max

    def needs_producer_id(self, transactional_id: str, expected: ProducerIdAndEpoch | None) -> bool:
        subject = self._ids.get(transactional_id)
        if subject is None:
            return True
        current = subject.stored
        if current is None or subject.pending is not None:
            return False
        if needs_id_to_fence(current):
            return _may_go_on(subject, current, expected)
        if not current.state.may_expire:
            return False
        return _must_rotate(current, expected) and _may_go_on(subject, current, expected)

    def init(self, request: ProducerInit, waiter: Waiter, now_ms: int) -> None:
        subject = self._ids.get(request.transactional_id)
        if subject is None:
            self._begin_new(request, waiter, now_ms)
            return
        current, expected = subject.stored, request.expected
        if current is None or subject.pending is not None or current.state.is_prepared:
            self._refuse(waiter, ErrorCode.CONCURRENT_TRANSACTIONS)
        elif not _may_go_on(subject, current, expected):
            self._refuse(waiter, ErrorCode.PRODUCER_FENCED)
        elif current.state is TransactionState.ONGOING:
            if needs_id_to_fence(current) and request.fresh_producer_id is None:  # it changed since `needs_producer_id`
                self._refuse(waiter, ErrorCode.CONCURRENT_TRANSACTIONS)
                return
            retry = TransactionResponse(ErrorCode.CONCURRENT_TRANSACTIONS)
            self._completion.fence(
                subject, "abort before a new epoch", now_ms,
                fresh_producer_id=request.fresh_producer_id, waiter=waiter, response=retry,
            )  # fmt: skip
        elif _must_rotate(current, expected):
            if request.fresh_producer_id is None:  # it changed since `needs_producer_id`
                self._refuse(waiter, ErrorCode.CONCURRENT_TRANSACTIONS)
                return
            last_epoch = NO_PRODUCER_EPOCH if expected is None else current.producer_epoch
            begun = current.initialized(request.fresh_producer_id, 0, request.timeout_ms, now_ms)
            self._store(subject, begun, last_epoch, waiter)
        else:
            self._next_epoch(subject, current, request, waiter, now_ms)

    def _begin_new(self, request: ProducerInit, waiter: Waiter, now_ms: int) -> None:
        if len(self._ids) >= self._ids_max:
            self._refuse(waiter, ErrorCode.POLICY_VIOLATION)
            return
        if request.fresh_producer_id is None:  # it expired since `needs_producer_id`
            self._refuse(waiter, ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        begun = Transaction(
            producer_id=request.fresh_producer_id,
            producer_epoch=0,
            timeout_ms=request.timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_timestamp_ms=NO_TIMESTAMP,
            update_timestamp_ms=now_ms,
            previous_producer_id=request.fresh_producer_id,
        )
        subject = self._ids[request.transactional_id] = TransactionalId(request.transactional_id)
        self._store(subject, begun, NO_PRODUCER_EPOCH, waiter)

    def _next_epoch(
        self, subject: TransactionalId, current: Transaction, request: ProducerInit, waiter: Waiter, now_ms: int
    ) -> None:
        expected = request.expected
        if expected is None:
            epoch, last_epoch = current.producer_epoch + 1, NO_PRODUCER_EPOCH
        elif expected.epoch == current.producer_epoch:
            epoch, last_epoch = current.producer_epoch + 1, current.producer_epoch
        elif expected.epoch == subject.last_producer_epoch:
            # A producer that was initialized since would have reset the last epoch.
            epoch, last_epoch = current.producer_epoch, subject.last_producer_epoch
        else:
            self._refuse(waiter, ErrorCode.PRODUCER_FENCED)
            return
        begun = current.initialized(current.producer_id, epoch, request.timeout_ms, now_ms)
        self._store(subject, begun, last_epoch, waiter)

    def _store(self, subject: TransactionalId, begun: Transaction, last_epoch: int, waiter: Waiter) -> None:
        current = subject.stored
        if current is not None and (begun.producer_id, begun.producer_epoch) == (
            current.producer_id,
            current.producer_epoch,
        ):
            previous_id = subject.previous_producer_id  # a retried request may be retried once more
        else:
            previous_id = begun.producer_id if current is None else current.producer_id

        def committed(_now_ms: int) -> None:
            subject.previous_producer_id = previous_id
            subject.last_producer_epoch = last_epoch
            self._outbox.put(
                ProducerInitialized(subject.name, self._partition, begun.producer_id, begun.producer_epoch)
            )

        response = TransactionResponse(ErrorCode.NONE, begun.producer_id, begun.producer_epoch)
        self._writer.store(subject, begun, "new producer epoch", waiter=waiter, response=response, committed=committed)

    def _refuse(self, waiter: Waiter, error: ErrorCode) -> None:
        self._outbox.respond(waiter, TransactionResponse(error))


def _may_go_on(subject: TransactionalId, current: Transaction, expected: ProducerIdAndEpoch | None) -> bool:
    """Whether the named id is the current one, or the exhausted one before it, whose producer did not receive the new id."""
    if expected is None or expected.producer_id == current.producer_id:
        return True
    previous = (subject.previous_producer_id, current.previous_producer_id)
    return expected.producer_id in previous and expected.epoch >= LAST_CLIENT_EPOCH


def _must_rotate(current: Transaction, expected: ProducerIdAndEpoch | None) -> bool:
    return current.is_epoch_exhausted and (expected is None or expected.epoch == current.producer_epoch)
