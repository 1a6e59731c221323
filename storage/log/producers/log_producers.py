"""The producers of one log: their states, the transactions that are about to begin, and what of them is in a snapshot.

Rules: runs on the event loop. A log without producers shares one empty, unchangeable `ProducerStates` with all others.
Invariants: a batch is replayed exactly when it is placed, in the order of offsets; while `is_known` is False the states are not
those of the log's end, and no snapshot is written from them.
Source: Kafka ProducerStateManager, UnifiedLog.analyzeAndValidateProducerState, maybeStartTransactionVerification (KIP-890).
"""

from __future__ import annotations

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import BatchHeader
from protocol.records.control import read_marker
from runtime.disk.filesystem import Buffer
from storage.log.log_environment import LogEnvironment
from storage.log.producers.producer_state import NO_PRODUCERS, CompletedTransaction, Duplicate, ProducerStates
from storage.log.producers.transaction_verifications import ONGOING, TransactionVerifications, VerificationGuard


class LogProducers:
    """What one log knows of producers. `states` is read-only for others; `lacks_snapshot`: a snapshot at the log's end is to be
    written before segments are deleted."""

    __slots__ = ("_environment", "_verifications", "is_known", "lacks_snapshot", "states")

    def __init__(self, environment: LogEnvironment, states: ProducerStates, *, lacks_snapshot: bool) -> None:
        """`states` were read from files."""
        self._environment = environment
        self._verifications: TransactionVerifications | None = None
        self.states = NO_PRODUCERS
        self.adopt(states)
        self.lacks_snapshot = lacks_snapshot
        # False from a truncation until the producers are rebuilt from the files.
        self.is_known = True

    def adopt(self, states: ProducerStates) -> None:
        """Use states that were read from files, from now on with the limit of the broker."""
        if len(states):
            states.keep_at_most = self._environment.producers_max
            self.states = states
        else:
            self.states = NO_PRODUCERS

    def clear(self) -> None:
        """Forget all producers: the log has no records any more."""
        self.states, self.is_known = NO_PRODUCERS, True

    def own_states(self) -> ProducerStates:
        """Return states that this log may change."""
        if self.states is NO_PRODUCERS:
            self.states = ProducerStates(self._environment.producers_max)
        return self.states

    def recall(self, before: ProducerStates, log_end_offset: int) -> bool:
        """Take over producers of another log, see `ProducerStates.recall`."""
        return len(before) > 0 and self.own_states().recall(before, log_end_offset)

    def snapshot(self) -> bytes | None:
        """Return the content of a snapshot; None when the states are not known."""
        return self.states.to_snapshot() if self.is_known else None

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Drop the state of producers that have been silent for `expiration_ms`."""
        self.states.remove_expired(now_ms, expiration_ms)
        if self._verifications is not None:
            self._verifications.remove_expired(now_ms, expiration_ms)

    # --- appending ---

    def check(
        self, records: Buffer, header: BatchHeader, guard: VerificationGuard | None, *, is_client: bool
    ) -> Duplicate | None:
        """Whether this batch of a producer may be appended: None when it may, or how it was appended before. Raises
        INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, TRANSACTION_COORDINATOR_FENCED."""
        if guard is not None and header.is_transactional and not self._is_verified(header, guard):
            if is_client and (earlier := self.states.find_duplicate(header)) is not None:
                return earlier
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        if not is_client:
            self._check_coordinators(records, header)
            return None
        earlier = self.states.check(header)
        if earlier is None and self._verifications is not None:
            self._verifications.check_sequence(header, is_known=header.producer_id in self.states)
        return earlier

    def _check_coordinators(self, records: Buffer, header: BatchHeader) -> None:
        """Check whether a coordinator of this or another broker may append this batch of a producer, or the marker that ends
        its transaction. Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, INVALID_TXN_STATE."""
        marker = read_marker(records, 0, header) if header.is_control else None
        if marker is not None:
            self.states.check_marker(header, marker)
        elif not header.is_control:
            self.states.check(header, is_client=False)

    def _is_verified(self, header: BatchHeader, guard: VerificationGuard) -> bool:
        if self.states.has_open_transaction(header.producer_id, header.producer_epoch):
            return True
        return self._verifications is not None and self._verifications.is_current(header.producer_id, guard)

    def replay(self, records: Buffer, position: int, header: BatchHeader) -> CompletedTransaction | None:
        """Update the producer of a batch that is about to be placed. Returns the transaction that it ends."""
        if self._verifications is not None and header.is_transactional:
            self._verifications.end(header.producer_id)
        states = self.states
        if states is NO_PRODUCERS:
            states = self.own_states()
        return states.replay(records, position, header)

    # --- transactions that are about to begin ---

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epoch: bool = False
    ) -> VerificationGuard:
        """Return a guard for the first batch of a transaction, whose coordinator is asked meanwhile; `ONGOING` when the
        transaction has begun here, which needs no verification. With `bumps_epoch` each transaction has an epoch of its
        own. Raises INVALID_PRODUCER_EPOCH."""
        if bumps_epoch:
            self.states.check_epoch(producer_id, epoch)
        if self.states.has_open_transaction(producer_id, epoch):
            return ONGOING
        if self._verifications is None:
            self._verifications = TransactionVerifications()
        return self._verifications.begin(
            producer_id, epoch, sequence, self._environment.clock.wall_ms(), bumps_epoch=bumps_epoch
        )

    def is_current(self, producer_id: int, guard: VerificationGuard) -> bool:
        """Whether no marker has come since `begin_verification` has returned this guard."""
        return guard is ONGOING or (
            self._verifications is not None and self._verifications.is_current(producer_id, guard)
        )

    def take_over_verifications(self, before: LogProducers) -> None:
        """Take over the pending verifications of a log that this one replaces."""
        self._verifications = before._verifications
