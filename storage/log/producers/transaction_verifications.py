"""Guards of the producers that are about to begin a transaction in a partition, while it is being verified. Pure.

    begin        a guard for the producer; the first batch of its transaction is appended with it
    is_current   whether the guard is still the producer's guard in the partition

A guard ends with the first batch that is appended in the transaction, and with any marker. A verification that ends too late,
after the marker of its transaction, therefore opens no other transaction, which would never end. The guard keeps the lowest
sequence number of its batches: a batch must not be the first one if an earlier one of the same producer waits for
verification, or was refused and will be retried.

Rules: pure. Invariants: at most one guard per producer and `GUARDS_MAX` in all; the oldest one is evicted first.
Source: KIP-890 part 1; Kafka VerificationGuard, VerificationStateEntry, ProducerStateManager.
"""

from __future__ import annotations

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import BatchHeader

GUARDS_MAX = 10_000


class VerificationGuard:
    """One attempt of one producer to begin a transaction in one partition; guards are compared by identity."""

    __slots__ = ("bumps_epoch", "epoch", "lowest_sequence", "since_ms")

    def __init__(self, sequence: int, epoch: int, since_ms: int, *, bumps_epoch: bool = False) -> None:
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.since_ms = since_ms
        self.bumps_epoch = bumps_epoch

    def include(self, sequence: int, epoch: int) -> None:
        """Include another batch of the producer: a newer epoch replaces the values, an older one is ignored."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


ONGOING = VerificationGuard(0, 0, 0)
"""The guard of a producer whose transaction has already begun in the partition: it begins none."""


class TransactionVerifications:
    """The guards of one partition. The log owns it."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, bumps_epoch: bool = False
    ) -> VerificationGuard:
        """Return the guard of this producer, made if there is none. `sequence` is the first one of its batch; with
        `bumps_epoch` the first batch of all has to be the producer's first one in its epoch."""
        guard = self._guards.get(producer_id)
        if guard is None:
            if len(self._guards) >= GUARDS_MAX:
                del self._guards[next(iter(self._guards))]
            guard = self._guards[producer_id] = VerificationGuard(sequence, epoch, now_ms, bumps_epoch=bumps_epoch)
        else:
            guard.include(sequence, epoch)
        return guard

    def is_current(self, producer_id: int, guard: VerificationGuard) -> bool:
        return self._guards.get(producer_id) is guard

    def check_sequence(self, header: BatchHeader, *, is_known: bool = True) -> None:
        """Check that `header` may begin its producer's transaction. `is_known`: the partition has records or a marker of the
        producer. Raises KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER."""
        guard = self._guards.get(header.producer_id)
        if guard is not None and guard.bumps_epoch and not is_known and header.base_sequence != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for producer {header.producer_id}: {header.base_sequence} (incoming seq. "
                "number), 0 is expected for its first records in an epoch",
            )
        if guard is not None and header.base_sequence > guard.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id}: {header.base_sequence} (incoming seq. "
                f"number), {guard.lowest_sequence} (earliest seen sequence)",
            )

    def end(self, producer_id: int) -> None:
        """End the guard: a batch or a marker of a transaction of this producer is in the log."""
        self._guards.pop(producer_id, None)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget guards that are `expiration_ms` old."""
        for producer_id in [key for key, guard in self._guards.items() if now_ms - guard.since_ms >= expiration_ms]:
            del self._guards[producer_id]
