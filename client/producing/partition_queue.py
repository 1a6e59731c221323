"""The batches of one partition: in which order they go, with which sequence numbers, and how many are in flight. Pure.

    WAITING -> IN_FLIGHT -> done or failed
                  ^  |
                  |  +-> REPEAT     retriable: the same again
                  |  +-> REJECTED   its sequence number was refused, and it is certainly not in the log
                  +----- with a new sequence number, once the identity was raised

Rules: at most `MAX_IN_FLIGHT` batches have a sequence number and no answer, because a broker recognises as many. A batch that
is repeated goes when it is the oldest, so that none overtakes it. Once a batch that had a sequence number has failed, there
may be a gap: no new batch is sent until the others have their answers and the identity is raised (KIP-360). A batch that may
have been appended never gets another sequence number, because its records could come twice: it fails.
Invariant: the sequence numbers of an identity follow each other without a gap, and none is given twice.
Source: KIP-98, KIP-360, KIP-679; Kafka RecordAccumulator, TxnPartitionEntry. Kafka gives new numbers to batches that may be
in the log, too."""

from __future__ import annotations

from collections import deque
from typing import Final, Generic

from client.producing.batch import NO_IDENTITY, BatchState, IdAndEpoch, ProducerBatch, W
from protocol.records.record import Record
from protocol.topic_partition import TopicPartition

MAX_IN_FLIGHT: Final = 5


class PartitionQueue(Generic[W]):
    def __init__(self, key: TopicPartition, batch_size_bytes: int, linger_ms: int) -> None:
        self.key = key
        self.has_gap = False
        """Whether a batch with a sequence number has failed under this identity."""
        self._batch_size_bytes = batch_size_bytes
        self._linger_ms = linger_ms
        self._waiting: deque[ProducerBatch[W]] = deque()
        self._sent: list[ProducerBatch[W]] = []
        self.identity = NO_IDENTITY
        self._next_sequence = 0

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._sent

    @property
    def is_settled(self) -> bool:
        """Whether no batch under this identity may still be appended."""
        return all(batch.state is BatchState.REJECTED for batch in self._sent)

    @property
    def in_flight_count(self) -> int:
        return sum(batch.state is BatchState.IN_FLIGHT for batch in self._sent)

    def append(self, record: Record, size_bytes: int, waiter: W, now_ms: int) -> None:
        """Put a record into the newest batch, or into a new one when it is full."""
        last = self._waiting[-1] if self._waiting else None
        if last is None or last.size_bytes + size_bytes > self._batch_size_bytes:
            last = ProducerBatch(self.key, now_ms)
            self._waiting.append(last)
        last.add(record, size_bytes, waiter)

    def take(self, now_ms: int, *, is_flushing: bool) -> ProducerBatch[W] | None:
        """Return the next batch to be sent now, which is in flight then."""
        batch = self._repeated(now_ms)
        if batch is None and self._may_send_new(now_ms, is_flushing=is_flushing):
            batch = self._waiting.popleft()
            self._next_sequence = batch.number(self.identity, self._next_sequence)
            self._sent.append(batch)
        if batch is not None:
            batch.state = BatchState.IN_FLIGHT
            batch.attempts_count += 1
        return batch

    def wakeup_ms(self, *, is_flushing: bool) -> int | None:
        """Return when `take` may have something that it does not have now."""
        head = self._head()
        if head is not None and head.state is BatchState.REPEAT:
            return head.not_before_ms
        if not self._has_new():
            return None
        return 0 if is_flushing or len(self._waiting) > 1 else self._waiting[0].created_ms + self._linger_ms

    # --- what became of a batch that was in flight ---

    def done(self, batch: ProducerBatch[W]) -> None:
        self._sent.remove(batch)

    def repeat(self, batch: ProducerBatch[W], not_before_ms: int) -> None:
        batch.state, batch.not_before_ms = BatchState.REPEAT, not_before_ms

    def fail(self, batch: ProducerBatch[W]) -> None:
        """A batch that was sent will not be sent any more."""
        self._sent.remove(batch)
        self.has_gap = True

    def split(self, batch: ProducerBatch[W]) -> None:
        at = self._sent.index(batch)
        self._sent[at : at + 1] = batch.halves()

    def is_oldest(self, batch: ProducerBatch[W]) -> bool:
        return self._head() is batch

    def reject(self, batch: ProducerBatch[W]) -> None:
        """The sequence number of a batch that is not in the log was refused."""
        assert not batch.may_be_appended
        batch.state = BatchState.REJECTED
        self.has_gap = True

    # --- all batches ---

    def renumber(self, identity: IdAndEpoch) -> None:
        """Go on under a raised identity: what was rejected gets new sequence numbers, and goes first."""
        assert self.is_settled
        self.identity, self._next_sequence, self.has_gap = identity, 0, False
        for batch in self._sent:
            self._next_sequence = batch.number(identity, self._next_sequence)
            batch.state, batch.not_before_ms = BatchState.REPEAT, 0

    def expired(self, before_ms: int) -> list[ProducerBatch[W]]:
        """Remove and return the batches that are as old as `before_ms` and not in flight."""
        found = [each for each in self._sent if not _is_in_flight(each) and each.created_ms <= before_ms]
        for batch in found:
            self.fail(batch)
        while self._waiting and self._waiting[0].created_ms <= before_ms:
            found.append(self._waiting.popleft())
        return found

    def oldest_ms(self) -> int | None:
        """Return when the oldest batch came that is not in flight."""
        return min((each.created_ms for each in (*self._sent, *self._waiting) if not _is_in_flight(each)), default=None)

    def drop(self) -> list[ProducerBatch[W]]:
        """Remove and return the batches that are not in flight."""
        found = [batch for batch in self._sent if not _is_in_flight(batch)]
        for batch in found:
            self.fail(batch)
        found += self._waiting
        self._waiting.clear()
        return found

    def clear(self) -> list[ProducerBatch[W]]:
        """Remove and return all batches."""
        found = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        return found

    def _head(self) -> ProducerBatch[W] | None:
        return next((batch for batch in self._sent if batch.state is not BatchState.REJECTED), None)

    def _repeated(self, now_ms: int) -> ProducerBatch[W] | None:
        head = self._head()
        if head is not None and head.state is BatchState.REPEAT and head.not_before_ms <= now_ms:
            return head
        return None

    def _is_repeating(self) -> bool:
        return any(batch.state is not BatchState.IN_FLIGHT for batch in self._sent)

    def _has_new(self) -> bool:
        """Whether the sequence numbers and the batches in flight let a new batch follow."""
        is_next = not self.has_gap and not self._is_repeating() and len(self._sent) < MAX_IN_FLIGHT
        return is_next and bool(self._waiting)

    def _may_send_new(self, now_ms: int, *, is_flushing: bool) -> bool:
        if not self._has_new():
            return False
        return is_flushing or len(self._waiting) > 1 or now_ms >= self._waiting[0].created_ms + self._linger_ms


def _is_in_flight(batch: ProducerBatch[W]) -> bool:
    return batch.state is BatchState.IN_FLIGHT
