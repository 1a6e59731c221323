"""The port through which a broker verifies a transaction with its coordinator before the first write in a partition, or adds
the partition to it.

Without it, a late request of a producer whose transaction has ended would begin a transaction that never ends.
Source: KIP-890; Kafka AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition


class TransactionVerification(Protocol):
    """Implemented by `broker.cluster.transactions.transaction_verification`."""

    async def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Ask the coordinator of `transactional_id` whether `partitions` belong to its ongoing transaction.

        Returns an entry for each partition; NONE: it does. An error of the connection or of the coordinator is an entry,
        too, as Apache Kafka maps it; nothing is raised for it.
        """

    async def add(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Have the coordinator of `transactional_id` make `partitions` part of its transaction, which they may begin.

        Returns as `verify`: NONE when all of them are.
        """
