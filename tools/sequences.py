"""What a verification has written and what it finds again: sequence numbers in each partition. Pure.

Rules: the sequence of a partition grows by one with each record handed to the client, acknowledged or not. Every acknowledged
record must be read once, and first readings must be in order. A record without acknowledgement may be there or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SHOWN_MISSING = 10


class Intervals:
    """A set of numbers, kept as intervals: [first, last] pairs in order."""

    def __init__(self, pairs: list[list[int]] | None = None) -> None:
        self.pairs: list[list[int]] = [] if pairs is None else pairs

    def add(self, number: int) -> None:
        """Add a number; nearly always the next one, or one shortly before it."""
        pairs = self.pairs
        position = len(pairs)
        while position and pairs[position - 1][0] > number:
            position -= 1
        if position and number <= pairs[position - 1][1] + 1:
            before = pairs[position - 1]
            before[1] = max(before[1], number)
            if position < len(pairs) and pairs[position][0] == before[1] + 1:
                before[1] = pairs.pop(position)[1]
        elif position < len(pairs) and pairs[position][0] == number + 1:
            pairs[position][0] = number
        else:
            pairs.insert(position, [number, number])

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.pairs)

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.pairs)

    def missing_from(self, other: Intervals) -> Intervals:
        """Return the numbers of this set that `other` does not have."""
        found = Intervals()
        theirs = iter(other.pairs)
        their = next(theirs, None)
        for first, last in self.pairs:
            begin = first
            while their is not None and their[1] < begin:
                their = next(theirs, None)
            while their is not None and their[0] <= last:
                if their[0] > begin:
                    found.pairs.append([begin, their[0] - 1])
                begin = their[1] + 1
                if begin > last:
                    break
                their = next(theirs, None)
            if begin <= last:
                found.pairs.append([begin, last])
        return found


@dataclass(slots=True)
class PartitionCheck:
    """What was read of one partition. Offsets are those of the first few records that are out of order."""

    seen: Intervals = field(default_factory=Intervals)
    repeated: int = 0
    disordered_offsets: list[int] = field(default_factory=list)
    _highest: int = -1

    def read(self, sequence: int, offset: int) -> None:
        if sequence <= self._highest and sequence in self.seen:
            self.repeated += 1
            return
        if sequence < self._highest and len(self.disordered_offsets) < SHOWN_MISSING:
            self.disordered_offsets.append(offset)
        self._highest = max(self._highest, sequence)
        self.seen.add(sequence)


def verdict(acknowledged: Mapping[int, Intervals], checks: Mapping[int, PartitionCheck]) -> dict[str, object]:
    """Return what is wrong, by partition; `is_sound` says whether nothing is."""
    missing = {}
    for partition, written in acknowledged.items():
        lost = written.missing_from(checks[partition].seen if partition in checks else Intervals())
        if lost.pairs:
            missing[partition] = {"count": len(lost), "sequences": lost.pairs[:SHOWN_MISSING]}
    repeated = {partition: check.repeated for partition, check in checks.items() if check.repeated}
    disordered = {
        partition: check.disordered_offsets for partition, check in checks.items() if check.disordered_offsets
    }
    return {
        "acknowledged": sum(map(len, acknowledged.values())),
        "read": sum(len(check.seen) for check in checks.values()),
        "missing": missing,
        "repeated": repeated,
        "out_of_order": disordered,
        "is_sound": not (missing or repeated or disordered),
    }
