"""Progress: nothing that a group has to read is lost. A group never commits what none of its members has read, its
offsets never go back, and at the end every record that was acknowledged was read.

Commits whose answers never came are in doubt: they may come into force until the partition has another owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import Report

NOTHING = -1
GroupKey = tuple[str, TopicPartition]


@dataclass(slots=True)
class _Progress:
    read: dict[int, str] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    in_doubt: set[int] = field(default_factory=set)
    floor: int = NOTHING


class ProgressChecker:
    def __init__(self, report: Report, count: Callable[[str], None]) -> None:
        self._report = report
        self._count = count
        self._progress: dict[GroupKey, _Progress] = {}
        self._excused: set[TopicPartition] = set()
        self.forgotten_count = 0

    def _of(self, group: str, key: TopicPartition) -> _Progress:
        return self._progress.setdefault((group, key), _Progress())

    def read(self, group: str, key: TopicPartition, offset: int, value: str) -> None:
        progress = self._of(group, key)
        self._count("records read again" if offset in progress.read else "records read")
        progress.read[offset] = value

    def floor(self, group: str, key: TopicPartition) -> int:
        """What a fetch that is sent now may not be below."""
        return self._of(group, key).floor

    def committing(self, group: str, key: TopicPartition, offset: int) -> None:
        progress = self._of(group, key)
        progress.sent.add(offset)
        progress.in_doubt.add(offset)

    def refused(self, group: str, key: TopicPartition, offset: int) -> None:
        self._of(group, key).in_doubt.discard(offset)

    def committed(self, group: str, key: TopicPartition, offset: int, forgotten_count: int) -> None:
        """`forgotten_count` is from when the request was sent."""
        progress = self._of(group, key)
        progress.in_doubt.discard(offset)
        if forgotten_count == self.forgotten_count:
            progress.floor = max(progress.floor, offset)
            self._count("commits of members")

    def fetched(self, group: str, key: TopicPartition, floor: int, offset: int, forgotten_count: int) -> None:
        """`floor` and `forgotten_count` are from when the request was sent."""
        progress = self._of(group, key)
        if offset != NOTHING and offset not in progress.sent:
            self._report(f"{group}: {key} is committed at {offset}, which nobody has sent")
        if forgotten_count == self.forgotten_count and offset < floor and offset not in progress.in_doubt:
            self._report(f"{group}: the offset of {key} went back to {offset}, {floor} was acknowledged")

    def forget(self) -> None:
        """Committed offsets may be lost."""
        self.forgotten_count += 1
        for progress in self._progress.values():
            progress.floor = NOTHING

    def excuse(self, key: TopicPartition) -> None:
        """Records of this partition may be lost, and others be at their offsets."""
        self._excused.add(key)

    def unread(self, group: str, key: TopicPartition, acknowledged: Mapping[int, str]) -> list[int]:
        """The offsets of those records of the partition that the group has not read."""
        if key in self._excused:
            return []
        read = self._of(group, key).read
        return [offset for offset, value in acknowledged.items() if read.get(offset) != value]

    def at_rest(self, group: str, key: TopicPartition, acknowledged: Mapping[int, str]) -> None:
        """`acknowledged` are the records of the partition, by offset, once everybody has read to its end."""
        lost = self.unread(group, key, acknowledged)
        if lost:
            self._report(f"{group}: {len(lost)} of {len(acknowledged)} records of {key} were not read, as {lost[0]}")
