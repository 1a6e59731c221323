"""What `dump-log` finds wrong, kept until every file was looked at and then told in Apache Kafka's words.

Rules: pure. Of each kind and file a thousand findings are kept and the rest counted, for a damaged index has as many as
it has entries.
Source: Kafka DumpLogSegments (TimeIndexDumpErrors).
"""

from __future__ import annotations

from collections.abc import Callable

KEPT = 1000
NOT_FOUND = -1


class Findings:
    """By kind and file; `count` is what an exit code is made of."""

    __slots__ = ("_found", "count")

    def __init__(self) -> None:
        self.count = 0
        # heading -> (lines, how many more there were)
        self._found: dict[str, tuple[list[str], int]] = {}

    def _note(self, heading: str, line: str) -> None:
        self.count += 1
        lines, more = self._found.setdefault(heading, ([], 0))
        if len(lines) < KEPT:
            lines.append(line)
        else:
            self._found[heading] = (lines, more + 1)

    def problem(self) -> None:
        """One that was printed where it was found."""
        self.count += 1

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        self._note(f"Mismatches in :{path}", f"  Index offset: {index_offset}, log offset: {log_offset}")

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        self._note(
            f"Found timestamp mismatch in :{path}",
            f"  Index timestamp: {index_timestamp}, log timestamp: {log_timestamp}",
        )

    def falling_timestamp(self, path: str, timestamp: int, previous: int) -> None:
        self._note(
            f"Found out of order timestamp in :{path}",
            f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}",
        )

    def offset_not_found(self, index_offset: int, log_offset: int) -> None:
        self._note(
            "The following indexed offsets are not found in the log.",
            f"Indexed offset: {index_offset}, found log offset: {log_offset}",
        )

    def gap(self, path: str, before: int, behind: int) -> None:
        """Offsets that are missing are usual in a compacted log, and no damage; those that do not rise are."""
        self._note(f"Non-consecutive offsets in {path}", f"  {before} is followed by {behind}")
        if behind > before:
            self.count -= 1

    def tell(self, complain: Callable[[str], None]) -> None:
        for heading, (lines, more) in self._found.items():
            complain(heading)
            for line in lines:
                complain(line)
            if more:
                complain(f"  and {more} more")
