"""Records on their way to one partition, each with a waiter that learns what became of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from protocol.errors import KafkaError
from protocol.records.batch import NO_SEQUENCE, advance_sequence
from protocol.records.compression import Compression
from protocol.records.record import Record, encode_batch
from protocol.topic_partition import TopicPartition

W = TypeVar("W")


class IdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int


NO_IDENTITY: Final = IdAndEpoch(-1, -1)


class BatchState(Enum):
    WAITING = "not sent, without a sequence number"
    IN_FLIGHT = "sent, not answered"
    REPEAT = "to be sent again, the same"
    REJECTED = "certainly not appended, to get a new sequence number"


@dataclass(eq=False, slots=True)
class ProducerBatch(Generic[W]):
    """`created_ms`: when its first record came; `not_before_ms`: when it may be sent again."""

    key: TopicPartition
    created_ms: int
    entries: list[tuple[Record, W]] = field(default_factory=list)
    size_bytes: int = 0
    state: BatchState = BatchState.WAITING
    identity: IdAndEpoch = NO_IDENTITY
    base_sequence: int = NO_SEQUENCE
    attempts_count: int = 0
    not_before_ms: int = 0
    may_be_appended: bool = False
    """Whether an attempt before may have come through: it was not answered, or with an error that may follow an append."""
    log_append_time_ms: int = -1
    """The time that the broker gave its records; -1 where they keep their own."""
    _content: bytes = b""

    def add(self, record: Record, size_bytes: int, waiter: W) -> None:
        self.entries.append((record, waiter))
        self.size_bytes += size_bytes

    def number(self, identity: IdAndEpoch, base_sequence: int) -> int:
        """Take an identity and sequence numbers; return the sequence number behind its last record."""
        self.identity, self.base_sequence, self._content = identity, base_sequence, b""
        return advance_sequence(base_sequence, len(self.entries))

    def encode(self, compression: Compression, *, is_transactional: bool) -> bytes:
        """Return the batch as it is sent, the same each time."""
        if not self._content:
            self._content = encode_batch(
                [record for record, _ in self.entries],
                compression=compression,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                base_sequence=self.base_sequence,
                is_transactional=is_transactional,
            )
        return self._content

    def halves(self) -> tuple[ProducerBatch[W], ProducerBatch[W]]:
        """Return its records as two batches with the same sequence numbers."""
        middle = len(self.entries) // 2
        sequence, made = self.base_sequence, []
        for entries in (self.entries[:middle], self.entries[middle:]):
            half = ProducerBatch(self.key, self.created_ms, entries, self.size_bytes // 2, BatchState.REPEAT)
            half.may_be_appended = self.may_be_appended
            sequence = half.number(self.identity, sequence)
            made.append(half)
        return made[0], made[1]


@dataclass(frozen=True, slots=True)
class Finished(Generic[W]):
    """What became of a batch. `base_offset` is -1 when the broker has not said it; `error` is None for success."""

    batch: ProducerBatch[W]
    base_offset: int = -1
    error: KafkaError | None = None
