"""What a shard asks for when the end of a transaction, which no client has requested, uses up the epochs of its producer. Pure.

Source: KIP-890; Kafka TransactionCoordinator.endTransaction, which allocates the id in place.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.runtime.contract import Command


@dataclass(frozen=True, slots=True)
class AllocateProducerId(Command):
    """Allocate a producer id, and pass it to the shard (`abort_overdue`). Without one nothing happens: the next check asks
    again."""

    transactional_id: str
