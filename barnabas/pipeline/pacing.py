"""When the slices of a replay are written: at a rate, or with the spacing of their times. Pure.

An archive is divided into buckets, which have counts, by the time of their records and, for a rate, by their offsets.
Slices are buckets in order that are written together, a Spark job each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

TICK_S = 1.0
"""What is due within so many seconds is written together."""


class Bucket(NamedTuple):
    """Records of an interval of time that begins at `time_ms`; `chunk` orders those of one interval."""

    time_ms: int
    chunk: int
    records: int


class Slice(NamedTuple):
    """The buckets from `first` to `last`, due `due_s` after the replay began."""

    first: Bucket
    last: Bucket
    records: int
    due_s: float


def slices_at_speed(buckets: Sequence[Bucket], speed: float) -> list[Slice]:
    """Return slices with the spacing of the buckets' times, `speed` times as fast."""
    if not buckets:
        return []
    begin_ms = buckets[0].time_ms
    return _together((bucket, (bucket.time_ms - begin_ms) / 1000 / speed) for bucket in buckets)


def slices_at_rate(buckets: Sequence[Bucket], records_per_s: float) -> list[Slice]:
    """Return slices so that on average so many records are written in a second."""
    due: list[tuple[Bucket, float]] = []
    before = 0
    for bucket in buckets:
        due.append((bucket, before / records_per_s))
        before += bucket.records
    return _together(due)


def slices_at_once(buckets: Sequence[Bucket]) -> list[Slice]:
    """Return one slice that is due immediately."""
    return _together((bucket, 0.0) for bucket in buckets)


def after(slices: Iterable[Slice], done: tuple[int, int] | None) -> list[Slice]:
    """Return the slices behind the last bucket (time and chunk) that was written, due as long after the first of them as
    before."""
    left = [each for each in slices if done is None or (each.first.time_ms, each.first.chunk) > done]
    return [each._replace(due_s=each.due_s - left[0].due_s) for each in left]


def _together(due: Iterable[tuple[Bucket, float]]) -> list[Slice]:
    """Join neighbours that are due within a tick."""
    slices: list[Slice] = []
    for bucket, due_s in due:
        if slices and due_s < slices[-1].due_s + TICK_S:
            last = slices[-1]
            slices[-1] = last._replace(last=bucket, records=last.records + bucket.records)
        else:
            slices.append(Slice(bucket, bucket, bucket.records, due_s))
    return slices
