"""Hanging transactions: once everybody has ended, each record is followed by its producer's marker, of the right kind."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.records.control import ControlType
from tests.simulation.transactions.final_logs import FinalLogs
from tests.simulation.transactions.ledger import Fate, Ledger, Transaction


def hanging(logs: FinalLogs) -> Iterator[str]:
    """What is wrong, as text."""
    for key, records in logs.records.items():
        unended: dict[int, int] = {}
        for record in records:
            if record.marker is not None:
                unended.pop(record.producer_id, None)
            else:
                unended.setdefault(record.producer_id, record.offset)
        for producer_id, offset in unended.items():
            yield f"hanging transaction: {key} at {offset} of producer {producer_id}, without a marker up to {logs.ends[key]}"
        if logs.stable_ends[key] != logs.ends[key]:
            yield f"hanging transaction: {key} ends at {logs.ends[key]}, its last stable offset is {logs.stable_ends[key]}"


def wrong_markers(ledger: Ledger, logs: FinalLogs) -> Iterator[str]:
    """Records whose next marker is not that of their transaction's fate, as text."""
    for key, records in logs.records.items():
        open_records: dict[int, list[tuple[int, Transaction]]] = {}
        for record in records:
            if record.marker is None:
                transaction = ledger.places[record.value][0]
                open_records.setdefault(record.producer_id, []).append((record.offset, transaction))
                continue
            is_commit = record.marker is ControlType.COMMIT
            for offset, transaction in open_records.pop(record.producer_id, ()):
                if transaction.fate is Fate.COMMIT_SENT or transaction.must_be_visible == is_commit:
                    continue
                yield f"{key}: the marker at {record.offset} says {record.marker.name} of {transaction} at {offset}"
