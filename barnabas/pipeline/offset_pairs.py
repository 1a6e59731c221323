"""Which offset in a mirrored topic corresponds to an offset in its source, from pairs that the job `mirror` keeps. Pure.

A pair says of one partition: the `records` records from `source` on are those from `target` on, one by one; everything
before `source` is before `target`. A pair without records only says the latter.

Rules: pure. A translated offset never skips a record that its group has not read; some may be read twice.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

TOPIC = "barnabas-offset-syncs"
"""Of the target cluster, where pairs are written."""
MOST_PAIRS = 10_000
"""Of a partition, the newest are kept in memory."""


class OffsetPair(NamedTuple):
    """A pair of offsets of a partition."""

    source: int
    target: int
    records: int = 0


def pairs_of_batch(first: int, last: int, records: int, target_before: int, target_after: int) -> list[OffsetPair]:
    """Return the pairs of a batch.

    It had `records` records with source offsets from `first` to `last`, written between two ends of the target partition.
    """
    end = OffsetPair(last + 1, target_after)
    if target_after - target_before != records:  # some came twice, or another producer writes to the topic
        return [end]
    if last - first + 1 != records:  # offsets are absent in between
        return [OffsetPair(first, target_before), end]
    return [OffsetPair(first, target_before, records), end]


@dataclass
class PairsOfPartition:
    """The pairs of one partition, by rising source offsets."""

    pairs: list[OffsetPair] = field(default_factory=list)

    def add(self, pairs: Iterable[OffsetPair]) -> None:
        """Add pairs; a batch that was repeated replaces what its first attempt added."""
        for pair in pairs:
            while self.pairs and self.pairs[-1].source >= pair.source:
                self.pairs.pop()
            self.pairs.append(pair)
        del self.pairs[:-MOST_PAIRS]

    def translate(self, committed: int) -> int | None:
        """Return the offset in the target for a committed offset, None when it is from before all pairs."""
        place = bisect_right(self.pairs, committed, key=lambda pair: pair.source)
        if not place:
            return None
        pair = self.pairs[place - 1]
        return pair.target + min(committed - pair.source, pair.records)


def to_advance(
    translated: dict[tuple[str, int], int], current: dict[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    """Return the translated offsets that are past those committed in the target."""
    return {key: offset for key, offset in translated.items() if offset > current.get(key, -1)}


def pair_key(topic: str, partition: int) -> str:
    """Return the key of a pair's record."""
    return f"{topic}-{partition}"


def pair_value(topic: str, partition: int, pair: OffsetPair) -> str:
    """Return the value of a pair's record, JSON."""
    place = {"topic": topic, "partition": partition}
    return json.dumps(place | {"sourceOffset": pair.source, "targetOffset": pair.target, "records": pair.records})


def parse_pair(value: str) -> tuple[tuple[str, int], OffsetPair]:
    """Return the partition and the pair in a value that `pair_value` made. Raises ValueError, KeyError."""
    found = json.loads(value)
    pair = OffsetPair(int(found["sourceOffset"]), int(found["targetOffset"]), int(found["records"]))
    return (str(found["topic"]), int(found["partition"])), pair
