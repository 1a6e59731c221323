"""Which dead letters were brought back, as records of one compacted topic. Pure.

A mark is written in the transaction that brings letters back, one for each partition of theirs:

    key    {"topic": NAME, "id": TOPIC_ID, "partition": P, "start": OFFSET}     the first offset of the mark
    value  {"ranges": [[START, END], ...]}                                      offsets from START up to before END

A mark is removed (a null value) when all that it names was deleted.

Rules: replay takes records in any order, and twice. The id of the topic is a part of the key, in hexadecimal: a topic that was
deleted and made again has no marks. What is no mark is passed over: anyone who may write the topic may write anything.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

MARKS_TOPIC: Final = "barnabas-dlq-handled"
Range = tuple[int, int]


@dataclass(slots=True)
class Marks:
    """The marks of one topic of dead letters."""

    topic: str
    topic_id: str
    _marks: dict[tuple[int, int], list[Range]] = field(default_factory=dict)  # by partition and start
    _ranges: dict[int, list[Range]] | None = None  # of each partition: sorted, apart from each other

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record of the topic of marks."""
        place = self._place(key)
        if place is None:
            return
        self._ranges = None
        ranges = None if value is None else _ranges_of(value)
        if ranges:
            self._marks[place] = ranges
        else:
            self._marks.pop(place, None)

    def has(self, partition: int, offset: int) -> bool:
        """Return whether a dead letter was brought back."""
        if self._ranges is None:
            self._ranges = self._joined()
        ranges = self._ranges.get(partition, [])
        at = bisect_right(ranges, offset, key=lambda each: each[0]) - 1
        return at >= 0 and offset < ranges[at][1]

    def record(self, partition: int, offsets: Iterable[int]) -> tuple[bytes, bytes]:
        """Return the mark that says that these were brought back, at least one."""
        ranges = _joined((offset, offset + 1) for offset in offsets)
        return self._key(partition, ranges[0][0]), json.dumps({"ranges": ranges}).encode()

    def obsolete(self, log_starts: Mapping[int, int]) -> list[bytes]:
        """Return the keys of marks that name only what was deleted."""
        return [
            self._key(partition, start)
            for (partition, start), ranges in self._marks.items()
            if max(end for _, end in ranges) <= log_starts.get(partition, 0)
        ]

    def _key(self, partition: int, start: int) -> bytes:
        return json.dumps({"topic": self.topic, "id": self.topic_id, "partition": partition, "start": start}).encode()

    def _place(self, key: bytes | None) -> tuple[int, int] | None:
        """Return partition and start of a key; None for what is no key of a mark of this topic."""
        found = _json_object(key)
        if found.get("topic") != self.topic or found.get("id") != self.topic_id:
            return None
        partition, start = found.get("partition"), found.get("start")
        return (partition, start) if isinstance(partition, int) and isinstance(start, int) else None

    def _joined(self) -> dict[int, list[Range]]:
        found: dict[int, list[Range]] = {}
        for (partition, _), ranges in self._marks.items():
            found.setdefault(partition, []).extend(ranges)
        return {partition: _joined(ranges) for partition, ranges in found.items()}


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in order, those joined that meet."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _ranges_of(value: bytes) -> list[Range]:
    ranges = _json_object(value).get("ranges")
    if not isinstance(ranges, list):
        return []
    return [
        (each[0], each[1])
        for each in ranges
        if isinstance(each, list) and len(each) == 2 and all(isinstance(number, int) for number in each)
    ]


def _json_object(data: bytes | None) -> dict[str, object]:
    try:
        found = json.loads(data or b"")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
