"""Where share groups start: a start offset that was told never goes back, nor does one lie behind the end of the log,
and a lag is never below zero."""

from __future__ import annotations

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import Report

NOT_BEGUN = -1
"""The share partition has not been read, so that nobody knows yet where it begins."""


class StartChecker:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._starts: dict[tuple[str, TopicPartition], int] = {}
        self.forgotten_count = 0

    def floor(self, group: str, key: TopicPartition) -> int:
        """What an answer to a question that is asked now may not be below."""
        return self._starts.get((group, key), NOT_BEGUN)

    def told(
        self, group: str, key: TopicPartition, start: int, lag: int, *, floor: int, end: int, forgotten_count: int
    ) -> None:
        """The answer. `floor` and `forgotten_count` are from when it was asked, `end` is the end of the log by now."""
        if forgotten_count != self.forgotten_count:
            return
        if start < floor:
            self._report(f"{group}: {key} starts at {start}, and at {floor} before")
        if start > end:
            self._report(f"{group}: {key} starts at {start}, the log ends at {end}")
        if start != NOT_BEGUN and lag < -1:
            self._report(f"{group}: the lag of {key} is {lag}")
        self._starts[group, key] = max(start, self._starts.get((group, key), NOT_BEGUN))

    def altering(self, group: str, key: TopicPartition) -> None:
        """Somebody sets it: it may be anything."""
        self._starts.pop((group, key), None)
        self.forgotten_count += 1

    def forget(self) -> None:
        """What was stored of share groups may be lost."""
        self._starts.clear()
        self.forgotten_count += 1
