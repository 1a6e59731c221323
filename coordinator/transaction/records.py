"""The records of `__transaction_state`, as Apache Kafka writes and reads them.

    key version 0    transactional id -> transaction (value version 0 or 1)

Rules: no IO. Values are written in version 0, as 3.9 does, while the level of `transaction.version` is 0; in version 1 above
it, and for a transaction whose end raises the epoch: without it the next leader could not complete it in the same way. Apache
Kafka 3.9 reads both. A null value is a tombstone: the id has expired.
Source: Kafka TransactionLog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from coordinator.runtime.contract import CoordinatorRecord
from coordinator.transaction.transaction import STORED_STATES, Transaction, TransactionState
from protocol.primitives import DecodeError
from protocol.stored.stored import stored_version
from protocol.stored.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue

KEY_VERSION = 0
FIRST_VALUE_VERSION = 0
VALUE_VERSION = 1


@dataclass(frozen=True, slots=True)
class TransactionKey:
    transactional_id: str


@dataclass(frozen=True, slots=True)
class UnknownTransactionKey:
    version: int


RecordKey: TypeAlias = TransactionKey | UnknownTransactionKey


def transaction_record(transactional_id: str, transaction: Transaction, level: int = 0) -> CoordinatorRecord:
    """Encode a value at a level of `transaction.version`."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.code,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else _by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.update_timestamp_ms,
        transaction_start_timestamp_ms=transaction.start_timestamp_ms,
    )
    if level == 0 and not transaction.bumps_epoch:
        return CoordinatorRecord(_key(transactional_id), value.encode_stored(FIRST_VALUE_VERSION))
    value.previous_producer_id = transaction.previous_producer_id
    value.next_producer_id = transaction.next_producer_id
    value.client_transaction_version = transaction.client_version
    return CoordinatorRecord(_key(transactional_id), value.encode_stored(VALUE_VERSION))


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(_key(transactional_id), None)


def read_key(key: bytes) -> RecordKey:
    """Decode a key. Raises: DecodeError when it is no key of this topic."""
    version = stored_version(key)
    if version != KEY_VERSION:
        return UnknownTransactionKey(version)
    return TransactionKey(TransactionLogKey.decode_stored(key).transactional_id)


def read_transaction(value: bytes) -> Transaction:
    """Decode a value. Raises: DecodeError, also for a state that no record may have."""
    stored = TransactionLogValue.decode_stored(value)
    if not 0 <= stored.transaction_status < len(STORED_STATES):
        raise DecodeError(f"transaction state {stored.transaction_status}")
    return Transaction(
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        state=STORED_STATES[stored.transaction_status],
        partitions=frozenset(
            (each.topic, partition) for each in stored.transaction_partitions or () for partition in each.partition_ids
        ),
        start_timestamp_ms=stored.transaction_start_timestamp_ms,
        update_timestamp_ms=stored.transaction_last_update_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        client_version=stored.client_transaction_version,
    )


def _by_topic(transaction: Transaction) -> list[PartitionsSchema]:
    """Return the partitions by topic, in an order that depends on the partitions alone."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=partitions) for topic, partitions in topics.items()]


def _key(transactional_id: str) -> bytes:
    return TransactionLogKey(transactional_id=transactional_id).encode_stored(KEY_VERSION)
