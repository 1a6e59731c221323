"""Torn transactions: all of a transaction is visible or nothing, also when its client never learnt which."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.transactions.final_logs import FinalLogs
from tests.simulation.transactions.ledger import Ledger


def torn_transactions(ledger: Ledger, logs: FinalLogs) -> Iterator[str]:
    """What is wrong, as text."""
    for transaction in ledger.transactions:
        seen = [value in logs.committed_values[key] for key, value in transaction.all_values()]
        if any(seen) and not all(seen):
            missing = [key for key, value in transaction.all_values() if value not in logs.committed_values[key]]
            yield f"torn transaction: {sum(seen)} of {len(seen)} records of {transaction} are visible, not in {missing[0]}"
        if any(seen) and not transaction.may_be_visible:
            yield f"aborted write: {sum(seen)} of {len(seen)} records of {transaction} are visible"
