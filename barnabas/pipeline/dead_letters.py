"""The headers of dead letters, and when a dead letter is tried again. Pure.

A dead letter is the record as it was, with headers that say why it is one: reason, source topic, partition, offset and
timestamp, and the number of the attempt that failed. The attempt stays on a record that is tried again, so that its next
failure counts on.

Rules: pure. Texts of headers are UTF-8; numbers are decimal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.pipeline.rules import header_sql, literal
from barnabas.spark.letters import (
    ATTEMPT,
    PLACE,
    REASON,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TIMESTAMP,
    SOURCE_TOPIC,
)

RETRIED, PARKED = "retried", "parked"


def attempt_sql() -> str:
    """Return the number of attempts that a record has had as SQL, 0 for a record that never failed."""
    return f"COALESCE(TRY_CAST(CAST({header_sql(ATTEMPT)} AS STRING) AS INT), 0)"


def dead_letter_headers_sql(reason: str) -> str:
    """Return the headers of a record that becomes a dead letter as SQL. `reason` is SQL, too."""
    values = {
        REASON: reason,
        SOURCE_TOPIC: "topic",
        SOURCE_PARTITION: "CAST(partition AS STRING)",
        SOURCE_OFFSET: "CAST(offset AS STRING)",
        SOURCE_TIMESTAMP: "CAST(UNIX_MILLIS(timestamp) AS STRING)",
        ATTEMPT: f"CAST({attempt_sql()} + 1 AS STRING)",
    }
    added = ", ".join(
        f"STRUCT({literal(name)} AS key, CAST({value} AS BINARY) AS value)" for name, value in values.items()
    )
    return f"CONCAT({headers_without_sql((*PLACE, ATTEMPT))}, ARRAY({added}))"


def headers_without_sql(names: Iterable[str]) -> str:
    """Return the headers of a record without those of these names as SQL."""
    left_out = ", ".join(literal(name) for name in names)
    return f"FILTER(COALESCE(headers, ARRAY()), h -> h.key NOT IN ({left_out}))"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The delays between attempts: `first_s`, multiplied by `factor` each time, up to `most_s`; after `limit` attempts none."""

    first_s: float
    factor: float
    most_s: float
    limit: int

    def delay_s(self, attempt: int) -> float:
        """Return how long to wait after this attempt, counted from 1, has failed."""
        delay_s = self.first_s
        for _ in range(min(attempt, self.limit) - 1):
            if delay_s >= self.most_s:
                break
            delay_s *= self.factor
        return min(delay_s, self.most_s)

    def decide(self, attempt: int, failed_ms: int, now_ms: int) -> str | None:
        """Return RETRIED or PARKED for a dead letter that is due, None for one that has to wait."""
        if attempt >= self.limit:
            return PARKED
        return RETRIED if now_ms >= failed_ms + self.delay_s(attempt) * 1000 else None


class WaitingLetter(NamedTuple):
    """A dead letter's place in the dead-letter topic, and what decides about it."""

    partition: int
    offset: int
    timestamp_ms: int
    attempt: int


@dataclass
class Handled:
    """Which dead letters have been handled: for each partition all below `starts`, and those in `later`."""

    starts: dict[int, int] = field(default_factory=dict)
    later: dict[int, set[int]] = field(default_factory=dict)

    def has(self, letter: WaitingLetter) -> bool:
        """Return whether a dead letter has been handled."""
        return letter.offset < self.starts.get(letter.partition, 0) or letter.offset in self.later.get(
            letter.partition, ()
        )

    def after(self, seen: Iterable[WaitingLetter], handled: Iterable[WaitingLetter]) -> Handled:
        """Return the state after `handled` of the letters that were `seen`, which are all from `starts` on."""
        done = {partition: set(offsets) for partition, offsets in self.later.items()}
        for letter in handled:
            done.setdefault(letter.partition, set()).add(letter.offset)
        offsets: dict[int, list[int]] = {}
        for letter in seen:
            offsets.setdefault(letter.partition, []).append(letter.offset)
        starts = dict(self.starts)
        for partition, found in offsets.items():
            waiting = [offset for offset in found if offset not in done.get(partition, ())]
            start = min(waiting) if waiting else max(found) + 1
            starts[partition] = max(start, starts.get(partition, 0))
        later = {
            partition: {offset for offset in those if offset > starts.get(partition, 0)}
            for partition, those in done.items()
        }
        return Handled(starts, {partition: those for partition, those in later.items() if those})

    def to_json(self) -> dict[str, object]:
        """Return the state in a form for JSON."""
        return {
            str(partition): {"start": self.starts.get(partition, 0), "later": sorted(self.later.get(partition, ()))}
            for partition in sorted({*self.starts, *self.later})
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Mapping[str, object]]) -> Handled:
        """Return the state that `to_json` returned."""
        starts, later = {}, {}
        for partition, each in state.items():
            start, offsets = each["start"], each["later"]
            assert isinstance(start, int) and isinstance(offsets, list)
            starts[int(partition)] = start
            if offsets:
                later[int(partition)] = set(offsets)
        return cls(starts, later)
