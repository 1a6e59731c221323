"""Collects what `dump-log` finds wrong until every file was read, then reports it in Apache Kafka's words and order.

Rules: pure. For each kind and file a thousand findings are kept and further ones only counted, because a damaged index can
have one for each entry.
Source: Kafka DumpLogSegments (TimeIndexDumpErrors).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

KEPT = 1000
NOT_FOUND = -1


class _Kind(IntEnum):
    """The kinds of findings, in the order in which they are reported."""

    INDEX_MISMATCH = 0
    TIMESTAMP_MISMATCH = 1
    FALLING_TIMESTAMP = 2
    OFFSET_NOT_FOUND = 3
    GAP = 4


_LATEST_FIRST = frozenset((_Kind.INDEX_MISMATCH, _Kind.GAP))


class Findings:
    """The findings by kind and file; the exit code is derived from `count`."""

    __slots__ = ("_found", "count")

    def __init__(self) -> None:
        self.count = 0
        # (kind, file) -> (heading, lines, number of lines not kept)
        self._found: dict[tuple[_Kind, str], tuple[str, list[str], int]] = {}

    def _note(self, kind: _Kind, path: str, heading: str, line: str) -> None:
        self.count += 1
        _, lines, more = self._found.setdefault((kind, path), (heading, [], 0))
        if len(lines) < KEPT:
            lines.append(line)
        else:
            self._found[kind, path] = (heading, lines, more + 1)

    def problem(self) -> None:
        """Count a problem that was printed where it was found."""
        self.count += 1

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        line = f"  Index offset: {index_offset}, log offset: {log_offset}"
        self._note(_Kind.INDEX_MISMATCH, path, f"Mismatches in :{path}", line)

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        line = f"  Index timestamp: {index_timestamp}, log timestamp: {log_timestamp}"
        self._note(_Kind.TIMESTAMP_MISMATCH, path, f"Found timestamp mismatch in :{path}", line)

    def falling_timestamp(self, path: str, timestamp: int, previous: int) -> None:
        line = f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}"
        self._note(_Kind.FALLING_TIMESTAMP, path, f"Found out of order timestamp in :{path}", line)

    def offset_not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        heading = "The following indexed offsets are not found in the log."
        line = f"Indexed offset: {index_offset}, found log offset: {log_offset}"
        self._note(_Kind.OFFSET_NOT_FOUND, path, heading, line)

    def gap(self, path: str, before: int, behind: int) -> None:
        """Note non-consecutive offsets. Missing offsets are usual in a compacted log; offsets that do not rise are damage."""
        self._note(_Kind.GAP, path, f"Non-consecutive offsets in {path}", f"  {before} is followed by {behind}")
        if behind > before:
            self.count -= 1

    def tell(self, complain: Callable[[str], None]) -> None:
        for (kind, _), (heading, lines, more) in sorted(self._found.items(), key=lambda row: row[0][0]):
            complain(heading)
            for line in reversed(lines) if kind in _LATEST_FIRST else lines:
                complain(line)
            if more:
                complain(f"  and {more} more")
