"""Non-monotonic polls: a reader of committed records gets them in offset order, each once, and never skips one.

What a reader got is compared with the log at the end: a record that became visible behind the reader's back, since the last
stable offset had passed it too early, is one that it skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import Report
from tests.simulation.transactions.final_logs import FinalLogs


@dataclass(slots=True)
class _Reading:
    start: int
    position: int
    got: list[tuple[int, str]] = field(default_factory=list)


class PollChecker:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._readings: dict[tuple[str, TopicPartition], _Reading] = {}

    def begins(self, reader: str, key: TopicPartition, position: int) -> None:
        self._readings[reader, key] = _Reading(position, position)

    def on_poll(self, reader: str, key: TopicPartition, records: list[tuple[int, str]], position: int) -> None:
        """`records` were returned in this order; the next poll is at `position`."""
        reading = self._readings[reader, key]
        for offset, value in records:
            if offset < reading.position:
                self._report(f"{reader}: poll of {key} went back from {reading.position} to {offset} {value[:80]!r}")
            reading.position = offset + 1
            reading.got.append((offset, value))
        if position < reading.position:
            self._report(f"{reader}: position in {key} went back from {reading.position} to {position}")
        reading.position = position

    def differences(self, logs: FinalLogs) -> Iterator[str]:
        """What is wrong, as text."""
        for (reader, key), reading in self._readings.items():
            expected = [each for each in logs.committed[key] if reading.start <= each[0] < reading.position]
            if expected == reading.got:
                continue
            skipped = sorted(set(expected) - set(reading.got))
            extra = sorted(set(reading.got) - set(expected))
            if skipped:
                yield f"{reader} skipped {len(skipped)} committed records of {key}: {skipped[0][1][:80]!r} at {skipped[0][0]}"
            if extra:
                yield f"{reader} got {len(extra)} records of {key} that are not there: {extra[0][1][:80]!r} at {extra[0][0]}"
