"""What the transaction coordinator reports to the outside: one log line a fact.

Rules: lines are quiet where nothing unusual happened: the begin and end of transactions are not logged.
"""

from __future__ import annotations

import logging

from coordinator.runtime.contract import ShardEvent
from coordinator.transaction.events import (
    MarkersFenced,
    ProducerInitialized,
    TransactionalIdsExpired,
    TransactionNotStored,
    TransactionRecordSkipped,
    TransactionTimedOut,
)

logger = logging.getLogger(__name__)


def observe(event: ShardEvent) -> None:
    """Take an event of any transaction shard."""
    match event:
        case ProducerInitialized(transactional_id, partition, producer_id, producer_epoch):
            logger.info(
                "producer initialized: transactional_id=%r producer_id=%d producer_epoch=%d partition=%d",
                *(transactional_id, producer_id, producer_epoch, partition),
            )
        case TransactionTimedOut(transactional_id, producer_id, producer_epoch, timeout_ms):
            logger.info(
                "transaction aborted, it timed out: transactional_id=%r producer_id=%d producer_epoch=%d timeout_ms=%d",
                *(transactional_id, producer_id, producer_epoch, timeout_ms),
            )
        case TransactionNotStored(transactional_id, what, error):
            logger.warning(
                "change of a transaction not stored: transactional_id=%r change=%s error=%s",
                *(transactional_id, what, error.name),
            )
        case MarkersFenced(markers):
            logger.warning(
                "transaction markers fenced, the transaction stays prepared: transactional_id=%r producer_id=%d "
                "producer_epoch=%d coordinator_epoch=%d partitions=%d",
                *(markers.transactional_id, markers.producer_id, markers.producer_epoch, markers.coordinator_epoch),
                len(markers.partitions),
            )
        case TransactionalIdsExpired(partition, transactional_ids):
            logger.info(
                "transactional ids expired: partition=%d transactional_ids=%d", partition, len(transactional_ids)
            )
        case TransactionRecordSkipped(partition, offset, why):
            logger.warning("transaction record skipped: partition=%d offset=%d reason=%s", partition, offset, why)
        case _:
            raise AssertionError(f"not an event of a transaction: {event}")
