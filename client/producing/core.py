"""A producer without IO: the queues of its partitions and its transaction together. Pure.

The shell takes batches (`take`) and requests (`next_ask`), sends them, and tells what was answered. What became of batches
comes back as `Finished`, from whichever call has ended them.

Rules: acknowledgements of all in-sync replicas. A batch is sent again until `delivery_timeout_ms` after its first record; one
that is in flight then fails with its answer. A batch that is too large for the broker is sent again in two halves, a single
record of that size fails. A sequence number that is refused means: for a transaction, an abort and a raised epoch; without
one, a raised epoch, under which batches that are certainly not in the log are sent again.
Source: KIP-91 (delivery timeout), KIP-126 (splitting), KIP-360; Kafka Sender, RecordAccumulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic

from client.errors import AbortableError
from client.producing.batch import Finished, ProducerBatch, W
from client.producing.partition_queue import PartitionQueue
from client.producing.transaction import CONCURRENT_PAUSE_MS, CoordinatorRequest, ProducerTransaction, State
from client.producing.verdicts import ProducerVerdict, verdict_on
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import ProduceRequest
from protocol.records.record import Record
from protocol.topic_partition import TopicPartition

RECORD_OVERHEAD_BYTES: Final = 21
"""At most what a record has beside its key, value and headers."""
NOT_APPENDED: Final = frozenset({
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.CONCURRENT_TRANSACTIONS,
})  # fmt: skip
"""The answers behind which a batch is certainly not in the log. Any other that calls for a repetition may follow an append."""


@dataclass(frozen=True, slots=True)
class ProducerLimits:
    """The defaults are Apache Kafka's."""

    batch_size_bytes: int = 16_384
    linger_ms: int = 0
    delivery_timeout_ms: int = 120_000
    transaction_timeout_ms: int = 60_000


class ProducerCore(Generic[W]):
    """`backoff_ms` returns the pause before an attempt, by how many there were."""

    def __init__(self, transactional_id: str | None, limits: ProducerLimits, backoff_ms: Callable[[int], int]) -> None:
        self.transaction = ProducerTransaction(transactional_id, limits.transaction_timeout_ms, backoff_ms)
        self.is_flushing = False
        """Whether batches go before they are full and before they are `linger_ms` old."""
        self._limits = limits
        self._backoff_ms = backoff_ms
        self._queues: dict[TopicPartition, PartitionQueue[W]] = {}

    @property
    def has_batches(self) -> bool:
        """Whether any batch has no answer yet."""
        return any(not queue.is_empty for queue in self._queues.values())

    @property
    def _is_over(self) -> bool:
        """Whether nothing is sent again."""
        return self.transaction.state in (State.ABORTING, State.FATAL_ERROR)

    # --- what the application wants ---

    def append(self, key: TopicPartition, entries: Iterable[tuple[Record, int, W]], now_ms: int) -> None:
        """Take records for a partition, each with its `size_of`. Raises AbortableError, FatalError; RuntimeError outside of a
        transaction."""
        if self.transaction.transactional_id is None:
            self.transaction.initialize()
        else:
            self.transaction.check_open()
            self.transaction.add(key)
        queue = self._queues.get(key)
        if queue is None:
            queue = PartitionQueue(key, self._limits.batch_size_bytes, self._limits.linger_ms)
            self._queues[key] = queue
        for record, size_bytes, waiter in entries:
            queue.append(record, size_bytes, waiter, now_ms)

    def abort(self) -> list[Finished[W]]:
        """Abort the transaction. Raises FatalError, RuntimeError."""
        self.transaction.abort()
        return self._drop(AbortableError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted"))

    # --- what is to be sent ---

    def take(self, now_ms: int) -> list[ProducerBatch[W]]:
        """Return the batches to be sent now. Each is answered by `answered` or `unanswered`."""
        found = []
        for key, queue in self._queues.items():
            if not self.transaction.may_send(key):
                continue
            self._take_identity(queue)
            is_flushing = self.is_flushing or self.transaction.state is State.COMMITTING
            while (batch := queue.take(now_ms, is_flushing=is_flushing)) is not None:
                found.append(batch)
        if found:
            self.transaction.batches_sent()
        return found

    def next_ask(self, now_ms: int) -> CoordinatorRequest | None:
        """Return the next request to a coordinator. It is answered by `transaction.answered` or `.unanswered`."""
        return self.transaction.next(now_ms, has_batches=self.has_batches)

    def wakeup_ms(self, now_ms: int) -> int | None:
        """Return when to call `take`, `next_ask` and `expire` again, if nothing happens before."""
        is_flushing = self.is_flushing or self.transaction.state is State.COMMITTING
        times = [self.transaction.not_before_ms]
        for key, queue in self._queues.items():
            oldest_ms = queue.oldest_ms()
            if oldest_ms is not None:
                times.append(oldest_ms + self._limits.delivery_timeout_ms)
            if self.transaction.may_send(key) and (at_ms := queue.wakeup_ms(is_flushing=is_flushing)) is not None:
                times.append(at_ms)
        return min((each for each in times if each > now_ms), default=None)

    # --- what happened ---

    def answered(
        self, batch: ProducerBatch[W], code: ErrorCode, message: str | None, base_offset: int, now_ms: int
    ) -> list[Finished[W]]:
        """A broker has answered a batch."""
        queue, verdict = self._queues[batch.key], verdict_on(ProduceRequest, code)
        if verdict is ProducerVerdict.DONE:
            queue.done(batch)
            return [Finished(batch, base_offset)]
        error = KafkaError(code, message)
        if self._is_over:
            return self._fail(queue, batch, verdict, error)
        if verdict is ProducerVerdict.SPLIT and len(batch.entries) > 1:
            queue.split(batch)
            return []
        if verdict is ProducerVerdict.SEQUENCE_LOST:
            return self._on_sequence_lost(queue, batch, error, now_ms)
        if verdict is ProducerVerdict.REPEAT:
            batch.may_be_appended |= code not in NOT_APPENDED
            return self._repeat(queue, batch, error, now_ms)
        return self._fail(queue, batch, verdict, error)

    def unanswered(self, batch: ProducerBatch[W], reason: str, now_ms: int, *, was_sent: bool) -> list[Finished[W]]:
        """No answer came; `was_sent` is false where there was nobody to send it to."""
        batch.may_be_appended |= was_sent
        error = KafkaError(ErrorCode.NETWORK_EXCEPTION, reason)
        return self._repeat(self._queues[batch.key], batch, error, now_ms)

    def expire(self, now_ms: int) -> list[Finished[W]]:
        """End the batches whose delivery has taken too long."""
        before_ms = now_ms - self._limits.delivery_timeout_ms
        late = [batch for queue in self._queues.values() for batch in queue.expired(before_ms)]
        return [self._failed(batch, ProducerVerdict.FAIL, self._late()) for batch in late]

    def _late(self) -> KafkaError:
        limit_ms = self._limits.delivery_timeout_ms
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not delivered within {limit_ms} ms")

    def _repeat(
        self, queue: PartitionQueue[W], batch: ProducerBatch[W], error: KafkaError, now_ms: int
    ) -> list[Finished[W]]:
        if self._is_over:
            return self._fail(queue, batch, ProducerVerdict.FAIL, error)
        if batch.created_ms + self._limits.delivery_timeout_ms <= now_ms:
            return self._fail(queue, batch, ProducerVerdict.FAIL, self._late())
        pause_ms = self._backoff_ms(batch.attempts_count)
        if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            pause_ms = min(pause_ms, CONCURRENT_PAUSE_MS)
        queue.repeat(batch, now_ms + pause_ms)
        return []

    def _on_sequence_lost(
        self, queue: PartitionQueue[W], batch: ProducerBatch[W], error: KafkaError, now_ms: int
    ) -> list[Finished[W]]:
        if not queue.is_oldest(batch):
            return self._repeat(queue, batch, error, now_ms)  # one before it is missing: that one goes first
        if self.transaction.transactional_id is not None or batch.may_be_appended:
            return self._fail(queue, batch, ProducerVerdict.FAIL, error)
        queue.reject(batch)
        return []

    def _fail(
        self, queue: PartitionQueue[W], batch: ProducerBatch[W], verdict: ProducerVerdict, error: KafkaError
    ) -> list[Finished[W]]:
        queue.fail(batch)
        return [self._failed(batch, verdict, error)]

    def _failed(self, batch: ProducerBatch[W], verdict: ProducerVerdict, error: KafkaError) -> Finished[W]:
        self.transaction.must_bump |= batch.attempts_count > 0
        self.transaction.batch_failed(verdict, error)
        return Finished(batch, error=error)

    @property
    def has_waiting(self) -> bool:
        """Whether any batch is not in flight."""
        return any(queue.oldest_ms() is not None for queue in self._queues.values())

    def close(self, error: KafkaError) -> list[Finished[W]]:
        """End all batches, those in flight as well: no answer is waited for."""
        return [Finished(batch, error=error) for queue in self._queues.values() for batch in queue.clear()]

    def stop(self, error: KafkaError) -> list[Finished[W]]:
        """End all batches that are not in flight: nothing is sent any more."""
        return self._drop(error)

    def _drop(self, error: KafkaError) -> list[Finished[W]]:
        dropped = [batch for queue in self._queues.values() for batch in queue.drop()]
        self.transaction.must_bump |= any(batch.attempts_count for batch in dropped)
        return [Finished(batch, error=error) for batch in dropped]

    def _take_identity(self, queue: PartitionQueue[W]) -> None:
        """Let a queue go on under the newest identity, raised where the queue has a gap."""
        transaction = self.transaction
        if not queue.is_settled:
            return
        if queue.has_gap and queue.identity == transaction.identity and transaction.transactional_id is None:
            transaction.raise_epoch()
        if queue.identity != transaction.identity and transaction.may_send(queue.key):
            queue.renumber(transaction.identity)


def size_of(record: Record) -> int:
    """Return the most that a record takes in a batch without compression, in bytes."""
    size_bytes = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size_bytes += len(name.encode()) + len(value or b"") + 10
    return size_bytes
