"""The arithmetic of the job `audit`: absent offsets, missing and repeated sequence numbers, and the tables it prints. Pure.

Rules: cells may be what others have written, so they are shown without characters that a terminal obeys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from barnabas.spark.texts import count_text, visible

PRODUCER = "barnabas-producer"
"""The header that names who made a record."""
SEQUENCE = "barnabas-sequence"
"""The header with the record's number, decimal, one more for each record of its producer in a topic."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """The records of a partition. Offsets between `first` and `last` may be absent without a loss: compaction removes
    records, and the ends of transactions take offsets."""

    topic: str
    partition: int
    records: int
    first: int
    last: int

    @property
    def absent(self) -> int:
        return self.last - self.first + 1 - self.records


@dataclass(frozen=True, slots=True)
class Sequences:
    """The sequence numbers of a producer in a topic; `distinct` counts each number once."""

    topic: str
    producer: str
    records: int
    distinct: int
    first: int
    last: int

    @property
    def missing(self) -> int:
        return self.last - self.first + 1 - self.distinct

    @property
    def duplicates(self) -> int:
        return self.records - self.distinct


def verdict(sequences: Iterable[Sequences]) -> str | None:
    """Return what was lost or repeated as one line, None when nothing was."""
    every = list(sequences)
    missing, duplicates = sum(each.missing for each in every), sum(each.duplicates for each in every)
    if not missing and not duplicates:
        return None
    of = sum(bool(each.missing or each.duplicates) for each in every)
    return (
        f"{count_text(missing, 'sequence number', 'is missing', 'are missing')} and "
        f"{count_text(duplicates, 'record', 'is repeated', 'are repeated')}, of {of} of {count_text(len(every), 'producer')}"
    )


def table(title: str, names: Sequence[str], rows: Sequence[Sequence[object]], most: int) -> str:
    """Return rows as a text table of up to `most` rows, with a last line that says how many are left out."""
    shown = [list(names), *([_text(value) for value in row] for row in rows[:most])]
    widths = [max(len(row[column]) for row in shown) for column in range(len(names))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    if len(rows) > most:
        lines.append(f"... and {len(rows) - most} more")
    return "\n".join([title, *(f"  {line}" for line in lines)])


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else visible(str(value))
