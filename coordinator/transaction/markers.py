"""The markers that end a transaction: what the coordinator requests, and the port that writes them. Pure.

A decided transaction (PREPARE_COMMIT, PREPARE_ABORT) is complete when each of its partitions has a marker. The shard
requests the markers with a `WriteMarkers` command; their outcome returns to it as an operation of its own.

Rules: markers of one producer are never reordered. A deleted partition needs no marker.
Source: KIP-98; Kafka TransactionMarkerChannelManager (TxnMarkerEntry, PendingCompleteTxn).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from coordinator.runtime.contract import Command
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import ONE_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionMarkers:
    """The end of one transaction, to be written to `partitions`.

    `coordinator_partition` is the transaction's partition of `__transaction_state`, and `coordinator_epoch` its leader epoch: a
    partition refuses markers of an older epoch than it has seen.
    """

    transactional_id: str
    coordinator_partition: int
    coordinator_epoch: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int = ONE_EPOCH
    """The `client_version` of the transaction: what a partition takes for a late marker depends on it."""


class MarkerOutcome(Enum):
    COMPLETE = "complete"  # every partition has the marker, or is deleted
    FENCED = "fenced"  # a partition knows a newer coordinator epoch or producer epoch


class MarkerWriter(Protocol):
    """Writes markers to the leaders of their partitions. `broker.cluster.transactions.transaction_markers` implements it."""

    def write(self, markers: TransactionMarkers, done: Callable[[MarkerOutcome], None]) -> None:
        """Send the markers until every partition has responded.

        `done` is called once, on the event loop, perhaps before `write` returns, and never after `cancel`.
        """

    def cancel(self, coordinator_partition: int) -> None:
        """Forget the pending markers of a partition that this broker no longer leads: their `done` is not called."""


@dataclass(frozen=True, slots=True)
class WriteMarkers(Command):
    """Write `markers`, and report their outcome to the shard (`on_markers_written`)."""

    markers: TransactionMarkers


@dataclass(frozen=True, slots=True)
class CancelMarkers(Command):
    """Forget the pending markers of this shard: it requests them again, under its new epoch."""
