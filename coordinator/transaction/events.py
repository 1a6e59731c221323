"""What a transaction shard reports for logs and metrics. Facts in the past tense; `coordinator.transaction_observation` logs
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.runtime.contract import ShardEvent
from coordinator.transaction.markers import TransactionMarkers
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class ProducerInitialized(ShardEvent):
    transactional_id: str
    partition: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionTimedOut(ShardEvent):
    """The coordinator aborts a transaction that outlived its timeout."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class TransactionNotStored(ShardEvent):
    """The log refused a change; the client got an error, or the coordinator retries."""

    transactional_id: str
    what: str
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class MarkersFenced(ShardEvent):
    """A partition refused a marker permanently: it knows a newer epoch of the producer or of the coordinator."""

    markers: TransactionMarkers


@dataclass(frozen=True, slots=True)
class TransactionalIdsExpired(ShardEvent):
    partition: int
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TransactionRecordSkipped(ShardEvent):
    """A record of an unknown type, or one that does not decode, was skipped."""

    partition: int
    offset: int
    why: str
