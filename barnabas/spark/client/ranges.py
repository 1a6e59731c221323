"""Ranges of offsets: divides them among tasks, and limits how many records a batch of a stream has. Pure.

Rules: pure. A division loses and repeats no offset, and keeps the order of partitions.
Source: Spark KafkaOffsetRangeCalculator, KafkaMicroBatchStream.rateLimit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from barnabas.spark.client.option_values import Offsets
from protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of a partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}, offsets {self.start} to {self.end - 1}"


def divide(ranges: Iterable[OffsetRange], min_tasks: int | None, max_records: int | None) -> list[OffsetRange]:
    """One range a task: at least `min_tasks` in all where there are enough offsets, each with at most `max_records` offsets.
    Ranges without an offset are left out."""
    some = [each for each in ranges if each.end > each.start]
    if max_records is not None:
        some = [part for each in some for part in _divide_one(each, math.ceil((each.end - each.start) / max_records))]
    if min_tasks is None or len(some) >= min_tasks:
        return some
    total = sum(each.end - each.start for each in some)
    return [part for each in some for part in _divide_one(each, math.ceil((each.end - each.start) * min_tasks / total))]


def _divide_one(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    size = whole.end - whole.start
    parts = max(1, min(parts, size))
    bounds = [whole.start + size * part // parts for part in range(parts + 1)]
    return [OffsetRange(whole.topic, whole.partition, start, end) for start, end in pairwise(bounds)]


def limit(start: Mapping[TopicPartition, int], end: Offsets, most: int | None) -> Offsets:
    """`end`, or earlier offsets such that at most about `most` offsets lie in between: each partition in proportion to what
    it has, one at least. `start` has every partition of `end`."""
    sizes = {key: max(offset - start[key], 0) for key, offset in end.items()}
    total = sum(sizes.values())
    if most is None or total <= most:
        return end
    return {
        key: start[key] + min(sizes[key], max(1, sizes[key] * most // total)) if sizes[key] else offset
        for key, offset in end.items()
    }
