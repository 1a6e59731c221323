"""The last stable offset never moves back, is never above the high watermark, and ends what read_committed returns.

Of one broker it never moves back at all. In a cluster a new leader may know a lower high watermark, so the offset is compared
within one leader epoch of one process (`term`).
"""

from __future__ import annotations

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import Report

Term = tuple[int, ...]


class StableOffsetChecker:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._highest: dict[tuple[TopicPartition, Term], int] = {}

    def known(self, key: TopicPartition, term: Term = ()) -> int:
        """The highest that was seen: what a client may count on when it sends a request."""
        return self._highest.get((key, term), 0)

    def on_offset(
        self, key: TopicPartition, floor: int, last_stable_offset: int, high_watermark: int, term: Term = ()
    ) -> None:
        """`floor` is what was known when the request was sent."""
        if last_stable_offset > high_watermark:
            self._report(f"{key}: last stable offset {last_stable_offset} is above the high watermark {high_watermark}")
        if last_stable_offset < floor:
            self._report(f"last stable offset of {key} went back from {floor} to {last_stable_offset} {term or ''}")
        self._highest[key, term] = max(self.known(key, term), last_stable_offset)

    def on_records(self, reader: str, key: TopicPartition, next_offset: int, last_stable_offset: int) -> None:
        """A read_committed fetch returned batches up to `next_offset`."""
        if next_offset > last_stable_offset:
            self._report(f"{reader}: {key} gave records up to {next_offset}, stable are {last_stable_offset}")
