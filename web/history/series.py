"""Values by round of sampling, in rings of fixed size. Pure.

A round is one attempt to look at the cluster. All series share the rounds and their times; a series has one value for each
round, NaN where nothing was learnt. Rounds are not equally far apart: a cluster that answers slowly is asked less often.

Rules: a series takes as much memory at its first value as at its last. Values have four bytes each, which is enough to draw.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from operator import add
from typing import Final

NAN: Final = math.nan
OVERHEAD_BYTES: Final = 400
"""About what the objects of a series take beside its values."""

Values = Sequence[float]


class Rounds:
    """The times of the last rounds. `kept` is how many, `kept_ms` for how long. Readers see rounds that have ended."""

    def __init__(self, kept: int, kept_ms: int) -> None:
        self.kept = kept
        self.kept_ms = kept_ms
        self.slots = kept + 1
        """One more than are kept: the round that is under way has a place of its own."""
        self.count = 0
        """How many rounds have ended; the one that is under way has this number."""
        self._times_ms = array("q", [0]) * self.slots

    def begin(self, now_ms: int) -> None:
        """Begin a round. The time does not go back."""
        self._times_ms[self.count % self.slots] = now_ms

    def end(self) -> None:
        """End the round that is under way."""
        self.count += 1

    def times_ms(self) -> list[int]:
        """Return the times of the rounds that are kept and not too old, the oldest first."""
        if not self.count:
            return []
        first = max(self.count - self.kept, 0)
        times = [self._times_ms[number % self.slots] for number in range(first, self.count)]
        since_ms = times[-1] - self.kept_ms
        return [each for each in times if each >= since_ms]


class Series:
    """The values of one subject."""

    __slots__ = ("_rounds", "_values", "_written")

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._values = array("f", [NAN]) * rounds.slots
        self._written = rounds.count - 1

    @staticmethod
    def bytes_of(kept: int) -> int:
        """Return how much memory a series takes."""
        return (kept + 1) * array("f").itemsize + OVERHEAD_BYTES

    @property
    def is_over(self) -> bool:
        """Whether nothing was written in all the rounds that are kept."""
        return self._rounds.count - self._written > self._rounds.kept

    @property
    def latest(self) -> float:
        """The value of the last round that has ended, or of the one under way; NaN when there is none."""
        return self._values[self._written % self._rounds.slots] if self._written >= self._rounds.count - 1 else NAN

    def write(self, value: float) -> None:
        """Set the value of the round that is under way."""
        slots, number = self._rounds.slots, self._rounds.count
        for skipped in range(max(self._written + 1, number - slots + 1), number):
            self._values[skipped % slots] = NAN
        self._values[number % slots] = value
        self._written = number

    def hold(self) -> None:
        """Say the value of the round before again."""
        if self._written == self._rounds.count - 1:
            self.write(self.latest)

    def values(self, count: int) -> Values:
        """Return the values of the last `count` rounds that have ended, the oldest first."""
        slots, end = self._rounds.slots, self._rounds.count
        start = (end - count) % slots
        found = self._values[start : start + count]
        found += self._values[: count - len(found)]
        unwritten = min(max(end - 1 - self._written, 0), count)
        if unwritten:
            found[count - unwritten :] = array("f", [NAN]) * unwritten
        return found


def added(total: list[float], values: Values) -> list[float]:
    """Return the sum by round. What is not known does not count; where nothing is known the sum is NaN."""
    if math.isfinite(sum(values)) and math.isfinite(sum(total)):
        return list(map(add, total, values))
    # NaN is not equal to itself, which is quicker to ask than `math.isnan`.
    return [
        (left + right if right == right else left) if left == left else right
        for left, right in zip(total, values, strict=True)
    ]


def downsampled(times_ms: Sequence[int], values: Values, points: int) -> tuple[list[int], list[float]]:
    """Return at most `points` means of neighbouring values, with the time of the last of each. The youngest values always make
    a whole mean."""
    size = -(-len(times_ms) // max(points, 1))
    if size <= 1:
        return list(times_ms), list(values)
    ends = range(len(times_ms), 0, -size)
    means = [_mean(values[max(end - size, 0) : end]) for end in ends]
    return [times_ms[end - 1] for end in ends][::-1], means[::-1]


def _mean(values: Iterable[float]) -> float:
    known = [each for each in values if not math.isnan(each)]
    return sum(known) / len(known) if known else NAN
