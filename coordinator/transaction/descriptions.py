"""DescribeTransactions and ListTransactions: the stored state of transactional ids. Pure.

Rules: a change that is being written is not shown before it is committed.
Source: KIP-664, KIP-994; Kafka TransactionCoordinator.handleDescribeTransactions,
TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.transaction.transaction import STATES_BY_NAME, Transaction, TransactionalId
from protocol.errors import ErrorCode
from protocol.messages import describe_transactions, list_transactions


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """The filters of ListTransactions. An empty filter passes every transaction, as does a `longer_than_ms` below 0."""

    state_names: frozenset[str]
    producer_ids: frozenset[int]
    longer_than_ms: int = -1

    def passes(self, transaction: Transaction, now_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.state_names and transaction.state.value not in self.state_names:
            return False
        return self.longer_than_ms < 0 or now_ms - transaction.start_timestamp_ms > self.longer_than_ms


def unknown_states(names: Sequence[str]) -> list[str]:
    """Return the `names` that are no states, each once, in their order."""
    return [name for name in dict.fromkeys(names) if name not in STATES_BY_NAME]


def listed(
    subject: TransactionalId | None, wanted: TransactionFilter, now_ms: int
) -> list_transactions.TransactionState | None:
    stored = None if subject is None else subject.stored
    if subject is None or stored is None or not wanted.passes(stored, now_ms):
        return None
    return list_transactions.TransactionState(
        transactional_id=subject.name, producer_id=stored.producer_id, transaction_state=stored.state.value
    )


def described_error(transactional_id: str, error: ErrorCode) -> describe_transactions.TransactionState:
    return describe_transactions.TransactionState(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def described(transactional_id: str, subject: TransactionalId | None) -> describe_transactions.TransactionState:
    stored = None if subject is None else subject.stored
    if stored is None:
        return described_error(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(stored.partitions):
        topics.setdefault(topic, []).append(partition)
    return describe_transactions.TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=stored.state.value,
        transaction_timeout_ms=stored.timeout_ms,
        transaction_start_time_ms=stored.start_timestamp_ms,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        topics=[
            describe_transactions.TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()
        ],
    )
