"""Lost writes: what a transaction has written is readable for ever once its commit was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.transactions.final_logs import FinalLogs
from tests.simulation.transactions.ledger import Ledger


def lost_writes(ledger: Ledger, logs: FinalLogs) -> Iterator[str]:
    """What is wrong, as text."""
    for transaction in ledger.transactions:
        if not transaction.must_be_visible:
            continue
        lost = [(key, value) for key, value in transaction.all_values() if value not in logs.committed_values[key]]
        if lost:
            key, value = lost[0]
            count = sum(map(len, transaction.values.values()))
            yield f"lost write: {len(lost)} of {count} records of {transaction}, as {value[:80]!r} of {key}"
