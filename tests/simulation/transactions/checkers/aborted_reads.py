"""Aborted reads (Adya's G1a): read_committed never returns a record of a transaction that nobody asked to commit."""

from __future__ import annotations

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import Report
from tests.simulation.transactions.ledger import Ledger


class AbortedReadChecker:
    def __init__(self, report: Report, ledger: Ledger) -> None:
        self._report = report
        self._ledger = ledger

    def on_read(self, reader: str, key: TopicPartition, offset: int, value: str) -> None:
        """`reader` got `value` as a committed record."""
        place = self._ledger.places.get(value)
        if place is None:
            self._report(f"{reader}: {value[:80]!r} at {key} {offset} was never sent")
            return
        transaction, sent_to = place
        if sent_to != key:
            self._report(f"{reader}: {value[:80]!r} at {key} {offset} was sent to {sent_to}")
        if not transaction.may_be_visible:
            self._report(f"aborted read: {reader} got {value[:80]!r} at {key} {offset} of {transaction}")
