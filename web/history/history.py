"""The samples of the last hour: series by what they measure, of which subject. Pure.

    with history.round(now_ms):
        history.put(Measure.LAG, 17, "group", "topic")
    history.rounds.times_ms()                     the times that all series share
    history.parts(Measure.LAG, "group")           series by topic

Rules: bounded: each measure of topics and groups has an equal part of the memory, so that many groups leave room for topics.
Beyond it, what is new is left out, and counted, until the subjects of older series have been gone for as long as anything is
kept. Response times have as much room as topics: there are as many as the settings name brokers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Final

from web.history.series import NAN, Rounds, Series, Values

KEPT_MS: Final = 3_600_000
PARTS: Final = 4
"""Of the memory: records, bytes, sizes and lags."""


class Measure(Enum):
    """What is measured, by its unit. Lag is by group and topic, latency by broker and request, the others by topic."""

    RECORDS = "records/s"
    BYTES = "bytes/s"
    SIZE = "bytes"
    LAG = "records"
    LATENCY = "ms"


class History:
    """`interval_ms` is the shortest time between two rounds."""

    def __init__(self, interval_ms: int, max_bytes: int, kept_ms: int = KEPT_MS) -> None:
        kept = kept_ms // interval_ms + 1
        self.rounds = Rounds(kept, kept_ms)
        self.interval_ms = interval_ms
        self.series_max = max(max_bytes // Series.bytes_of(kept) // PARTS, 1)
        """Of each measure."""
        self._series: dict[Measure, dict[str, dict[str, Series]]] = {measure: {} for measure in Measure}
        self._counts = dict.fromkeys(Measure, 0)
        self._left_out = dict.fromkeys(Measure, 0)
        self._searched: set[Measure] = set()
        """Of what the present round has looked for series that are over."""

    @contextmanager
    def round(self, now_ms: int) -> Iterator[None]:
        """What is put meanwhile belongs to this time; readers see it when the round ends."""
        self.rounds.begin(now_ms)
        self._left_out = dict.fromkeys(Measure, 0)
        self._searched = set()
        try:
            yield
        finally:
            self.rounds.end()

    def put(self, measure: Measure, value: float | None, subject: str, part: str = "") -> None:
        """Keep a value of the present round; None is not known."""
        if value is None:
            return
        series = self._series[measure].get(subject, {}).get(part)
        if series is None:
            if not self._has_room(measure):
                self._left_out[measure] += 1
                return
            series = Series(self.rounds)
            self._series[measure].setdefault(subject, {})[part] = series
            self._counts[measure] += 1
        series.write(value)

    def hold(self, measure: Measure) -> None:
        """Say again what was put in the round before, where the present round does not look."""
        for parts in self._series[measure].values():
            for series in parts.values():
                series.hold()

    def left_out(self, measure: Measure) -> int:
        """Return for how many values of the last round there was no room."""
        return self._left_out[measure]

    def subjects(self, measure: Measure) -> Iterable[str]:
        """Return what has values."""
        return self._series[measure].keys()

    def parts(self, measure: Measure, subject: str) -> Mapping[str, Series]:
        """Return the series of a subject."""
        return self._series[measure].get(subject, {})

    def latest(self, measure: Measure, subject: str, part: str = "") -> float | None:
        """Return the value of the last round, None when there is none."""
        series = self._series[measure].get(subject, {}).get(part)
        value = NAN if series is None else series.latest
        return None if math.isnan(value) else value

    def _has_room(self, measure: Measure) -> bool:
        if self._counts[measure] >= self.series_max and measure not in self._searched:
            self._searched.add(measure)
            self._drop_old(measure)
        return self._counts[measure] < self.series_max

    def _drop_old(self, measure: Measure) -> None:
        by_subject = self._series[measure]
        for subject, parts in list(by_subject.items()):
            for part in [part for part, series in parts.items() if series.is_over]:
                del parts[part]
                self._counts[measure] -= 1
            if not parts:
                del by_subject[subject]


def plain(values: Values) -> list[float | None]:
    """Return values as JSON has them, with four digits that count."""
    return [None if math.isnan(each) else _rounded(each) for each in values]


def _rounded(value: float) -> float:
    return round(value) if abs(value) >= 10_000 else float(f"{value:.4g}")
