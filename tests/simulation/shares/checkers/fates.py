"""Transactions whose records a share group reads: what was aborted is not for one that reads committed records, and
what was committed is not lost (`deliveries` looks for that)."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import Report


class TransactionFates:
    """By value: each is sent once."""

    def __init__(self, report: Report) -> None:
        self.committed: dict[TopicPartition, dict[int, str]] = {}
        """Records of transactions whose commit was acknowledged, by offset."""
        self._report = report
        self._never: set[str] = set()
        self._delivered: dict[str, str] = {}
        self._is_excused = False

    def was_committed(self, records: Iterable[tuple[TopicPartition, int, str]]) -> None:
        for key, offset, value in records:
            self.committed.setdefault(key, {})[offset] = value

    def was_aborted(self, values: Iterable[str]) -> None:
        """Nobody has ever asked to commit these."""
        for value in values:
            self._never.add(value)
            if value in self._delivered:
                self._report_delivered(value)

    def delivered(self, member: str, values: Iterable[str]) -> None:
        """A member of a group that reads committed records was given these."""
        for value in values:
            self._delivered[value] = member
            if value in self._never:
                self._report_delivered(value)

    def _report_delivered(self, value: str) -> None:
        if not self._is_excused:
            self._report(f"{value[:40]!r} was given to {self._delivered[value]}, and its transaction was not committed")

    def excuse(self) -> None:
        """What was decided of transactions may be lost."""
        self._is_excused = True
        self.committed.clear()
