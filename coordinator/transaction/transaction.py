"""One transactional id: its producer, the state of its transaction, and the change that is being written. Pure.

    EMPTY --> ONGOING --> PREPARE_COMMIT --> COMPLETE_COMMIT
                 |                               (a next transaction begins from EMPTY or COMPLETE_*)
                 +------> PREPARE_ABORT ---> COMPLETE_ABORT

Rules: a `Transaction` is a value, the content of one record of the log; a `TransactionalId` changes its stored value by replay
alone. While a change of it is being written (`pending`), no other one may begin. A producer is fenced by the record of its
abort, which has the next epoch: memory is never newer than the log. PREPARE_EPOCH_FENCE, Kafka's state while it is, and DEAD
are states that clients may filter by and that no transaction has here.
Versions: what a transaction is depends on the client that began or ended it (`client_version`). With `EPOCH_BUMPS` every end
raises the epoch, so that nothing of one transaction can get into the next; where the epochs are used up, the next transaction
has the next producer id, which the prepared state names already. Such a client may abort a transaction that has no partition.
Invariant: an epoch that a client gets is at most `LAST_CLIENT_EPOCH`, so that there is always one more to fence it with.
Source: KIP-98, KIP-360, KIP-890; Kafka TransactionMetadata, TransactionState.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from coordinator.transaction.markers import TransactionMarkers
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import EPOCH_BUMPS, ONE_EPOCH

if TYPE_CHECKING:
    from coordinator.runtime.contract import PendingChange

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
EPOCH_MAX = 2**15 - 1
LAST_CLIENT_EPOCH = EPOCH_MAX - 1


class TransactionState(Enum):
    """`value` is the state's name in responses; `code` is its number in records."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @property
    def code(self) -> int:
        return _CODES[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers are being written."""
        return self in _PREPARED

    @property
    def may_expire(self) -> bool:
        """Whether no transaction is open."""
        return self in _WITHOUT_TRANSACTION


_CODES = {state: code for code, state in enumerate(TransactionState)}
_PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_WITHOUT_TRANSACTION = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
# The other two states are never stored.
STORED_STATES = tuple(TransactionState)[: TransactionState.DEAD.code]
STATES_BY_NAME = {state.value: state for state in TransactionState}


@dataclass(frozen=True, slots=True)
class Transaction:
    """The stored state of a transactional id. Times are of the wall clock; `start_timestamp_ms` is that of the last
    transaction, NO_TIMESTAMP before the first one of a producer epoch."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_timestamp_ms: int
    update_timestamp_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before this record. It differs only where a new id was given."""
    next_producer_id: int = NO_PRODUCER_ID
    """Of a prepared transaction: the id that its completion gives, NO_PRODUCER_ID when it stays."""
    client_version: int = ONE_EPOCH

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_CLIENT_EPOCH

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= EPOCH_BUMPS

    def overdue_at(self, now_ms: int) -> bool:
        """Return whether an open transaction has outlived its timeout."""
        return self.state is TransactionState.ONGOING and self.start_timestamp_ms + self.timeout_ms < now_ms

    def initialized(self, producer_id: int, producer_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state in which a producer begins, with its id and epoch."""
        assert self.state.may_expire, self
        return replace(
            self,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_timestamp_ms=NO_TIMESTAMP,
            update_timestamp_ms=now_ms,
            previous_producer_id=self.producer_id,
        )

    def with_partitions(
        self, added: frozenset[TopicPartition], now_ms: int, client_version: int = ONE_EPOCH
    ) -> Transaction:
        assert self.state is TransactionState.ONGOING or self.state.may_expire, self
        is_new = self.state is not TransactionState.ONGOING
        return replace(
            self,
            state=TransactionState.ONGOING,
            partitions=self.partitions | added,
            start_timestamp_ms=now_ms if is_new else self.start_timestamp_ms,
            update_timestamp_ms=now_ms,
            previous_producer_id=self.producer_id,
            client_version=client_version,
        )

    def prepared(self, now_ms: int, *, is_commit: bool, client_version: int = ONE_EPOCH) -> Transaction:
        """Return the prepared state: the outcome is decided. Where epochs are raised, `with_next_id` has to follow if they are
        used up."""
        is_open = self.state is TransactionState.ONGOING
        bumps_epoch = client_version >= EPOCH_BUMPS
        assert is_open or (bumps_epoch and not is_commit and self.state.may_expire), self
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + bumps_epoch, EPOCH_MAX),
            state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            start_timestamp_ms=self.start_timestamp_ms if is_open else now_ms,
            update_timestamp_ms=now_ms,
            previous_producer_id=self.producer_id,
            client_version=client_version,
        )

    def fenced(self, now_ms: int) -> Transaction:
        """Return an abort under the next epoch, decided by the coordinator: the producer cannot continue with its epoch."""
        prepared = self.prepared(now_ms, is_commit=False, client_version=self.client_version)
        return replace(prepared, producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX))

    def with_next_id(self, producer_id: int) -> Transaction:
        """Return a prepared state whose completion gives the producer this id."""
        assert self.state.is_prepared and self.bumps_epoch, self
        return replace(self, next_producer_id=producer_id)

    def completed(self, now_ms: int) -> Transaction:
        """Return the completed state: every partition has its marker."""
        assert self.state.is_prepared, self
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        gets_next = self.bumps_epoch and self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            producer_id=self.next_producer_id if gets_next else self.producer_id,
            producer_epoch=0 if gets_next else self.producer_epoch,
            state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            update_timestamp_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )


@dataclass(slots=True)
class TransactionalId:
    """The shard's state of one transactional id.

    `stored` is None while its first record is being written. `previous_producer_id` and `last_producer_epoch` recognise a
    producer that retries an InitProducerId whose response it did not receive; they are in no record, and are lost when the
    coordinator moves, as in Kafka. `markers` are those that were requested and are not all written yet.
    """

    name: str
    stored: Transaction | None = None
    pending: PendingChange | None = None
    previous_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    markers: TransactionMarkers | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TransactionResponse:
    """The response to a request of a producer: the handler makes the message of its API. Id and epoch are InitProducerId's,
    and those of the next transaction where EndTxn raises the epoch."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
