"""What a log must hold after a crash, as whoever wrote to it knows it.

Records are never written twice to one offset, unless the log was cut there before. So a log is a *history*: a list of
records with rising offsets. A crash leaves a beginning of it:

    start                 durable end            written end              (offsets)
      |----- always there -----|- after a crash of -|- may be there -->
                                  the process alone

While a cut is under way there are two histories, the one before and the one after it; either may be found, and so it is
while the disk is full with what it has refused. Compaction leaves holes, but every key has the value that it has in the
history. Behind what is promised a compacted log may lack more than its end: when the power goes, a segment may lose what
was not on the disk yet while the next one stays, and a start cannot tell such a hole from one of compaction, which a
leader's log may have anywhere and hands on to its followers; in Apache Kafka neither. What has gone that way is *lost*.

Rules: pure. What is wrong is answered as text, None when nothing is. Transactions are looked at by `transactions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from storage.segments.txn_index import AbortedTxn


class Kind(Enum):
    """What a record is to a transaction."""

    PLAIN = "plain"
    TRANSACTIONAL = "transactional"
    COMMIT = "commit"
    ABORT = "abort"

    @property
    def is_marker(self) -> bool:
        return self in (Kind.COMMIT, Kind.ABORT)


@dataclass(frozen=True, slots=True)
class Written:
    """A record. `batch` is the base offset of its batch, `sequence` its producer's number, -1 without one. `is_lost`: it was
    not promised, and not there any more."""

    offset: int
    batch: int
    key: bytes
    value: bytes | None
    epoch: int
    sequence: int = -1
    producer: int = -1
    kind: Kind = Kind.PLAIN
    is_lost: bool = False


History = tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """Of one log at one moment. `may_be_gone`: it is being deleted."""

    histories: tuple[History, ...]
    start: int
    written_end: int
    durable_end: int
    is_compacted: bool = False
    may_be_gone: bool = False
    topic_id: bytes = b""
    epoch: int = 0
    """Of its leader. Whoever leads after a start does so in a later one: only epochs tell what was lost from what was
    written in its place."""

    def after_power_loss(self) -> Expected:
        """What is promised still."""
        return replace(self, written_end=self.durable_end)


@dataclass(frozen=True, slots=True)
class Found:
    """What a start made of the files. `first_unstable`: where the earliest open transaction begins."""

    start: int
    end: int
    records: History
    last_sequences: Mapping[int, int] = field(default_factory=dict)
    aborted: Sequence[AbortedTxn] = ()
    first_unstable: int | None = None


NOTHING = Found(0, 0, ())


def compare(
    expected: Expected, found: Found | None, judge: Callable[[History, Found], str | None] = lambda *_: None
) -> tuple[str | None, History]:
    """(what is wrong, the history that was found), when nothing but the process has ended since. None stands for a log that
    is not there. `judge`: what else is wrong if it is this history. A log without a record fits several; what it knows of
    producers and transactions tells which it is."""
    problems = []
    if found is None and expected.may_be_gone:
        return None, ()
    for whole in expected.histories:
        history = _with_losses(expected, whole, found or NOTHING) if expected.is_compacted else whole
        problem = _differs(expected, history, found or NOTHING) or judge(history, found or NOTHING)
        if problem is None:
            return None, history
        problems.append(problem)
    return " / ".join(problems), ()


def _with_losses(expected: Expected, history: History, found: Found) -> History:
    """See the module. Nor is anything promised of records before the start, which a cut under way may leave without those
    behind them."""
    held = {record.offset for record in found.records}

    def is_lost(record: Written) -> bool:
        if record.offset in held:
            return False  # or not any more: a copy in another directory may have had it still
        is_promised = expected.start <= record.offset < expected.written_end
        is_readable = record.offset >= found.start  # what is not may be there, if it was written
        return record.is_lost or (not is_promised and (is_readable or record.offset >= expected.written_end))

    return tuple(replace(record, is_lost=is_lost(record)) for record in history)


def _differs(expected: Expected, history: History, found: Found) -> str | None:
    promised = [record for record in history if expected.start <= record.offset < expected.written_end]
    promised = [record for record in promised if not record.is_lost]
    if promised and promised[0].offset < found.start:
        return f"starts at {found.start}, but {promised[0].offset} was not deleted"
    if promised and found.end <= promised[-1].offset:
        return f"ends at {found.end}, but {promised[-1].offset} was there for good"
    expectable = [record for record in history if found.start <= record.offset < found.end]
    if expected.is_compacted:
        there = [record for record in history if record.offset < found.end and not record.is_lost]
        problem = _differs_compacted(there, found, max(expected.start, found.start))
        # With its last batch a compacted log may lose all that it knew of a producer.
        is_whole = not history or history[-1].offset < found.end
        return problem or (_differs_in_sequence(history, found) if is_whole else None)
    if len(expectable) != found.end - found.start:
        return f"is [{found.start}, {found.end}), but only {len(expectable)} records were written there"
    for ours, theirs in zip(expectable, found.records, strict=False):
        if ours != theirs:
            return f"holds {theirs}, but {ours} was written"
    if len(expectable) != len(found.records):
        return f"is [{found.start}, {found.end}), but has {len(found.records)} records"
    return _differs_in_sequence(history, found)


def _differs_in_sequence(history: Sequence[Written], found: Found) -> str | None:
    """Each producer with records from the start on is known by its last record. One that is lost may have left its trace;
    when all of these are, the producer is known by its last record before the start, or not at all."""
    there = [record for record in history if record.offset < found.end and record.sequence >= 0]
    for producer in sorted({record.producer for record in there if record.offset >= found.start}):
        possible: list[int] = []
        is_certain = False
        for record in reversed(there):
            if record.producer == producer:
                possible.append(record.sequence)
                if not record.is_lost:
                    is_certain = record.offset >= found.start
                    break
        known = found.last_sequences.get(producer, -1)
        if known not in possible and (known >= 0 or is_certain):
            return f"knows sequence {known} of producer {producer}, not {' or '.join(map(str, possible))}"
    unheard_of = found.last_sequences.keys() - {record.producer for record in there}
    for producer in sorted(unheard_of):
        if found.last_sequences[producer] >= 0:
            return f"knows producer {producer}, who has written nothing"
    return None


def _differs_compacted(there: Sequence[Written], found: Found, start: int) -> str | None:
    written = {record.offset: record for record in there}
    for record in found.records:
        if written.get(record.offset) != record:
            return f"holds {record}, but {written.get(record.offset)} was written"
    aborted = aborted_offsets(there)
    wanted, held = latest(there, start, aborted), latest(found.records, start, aborted)
    for key in wanted.keys() | held.keys():
        if wanted.get(key) != held.get(key):
            return f"has lost a latest value: {key!r} is {held.get(key)!r}, but was {wanted.get(key)!r}"
    return None


def aborted_offsets(records: Iterable[Written]) -> set[int]:
    """Of the records whose transactions were aborted."""
    aborted: set[int] = set()
    for is_aborted, ended in transactions(records):
        if is_aborted:
            aborted.update(record.offset for record in ended)
    return aborted


def transactions(records: Iterable[Written]) -> Iterable[tuple[bool | None, list[Written]]]:
    """(whether it was aborted, None while it is open, its records) of each."""
    is_open: dict[int, list[Written]] = {}
    for record in records:
        if record.kind is Kind.TRANSACTIONAL:
            is_open.setdefault(record.producer, []).append(record)
        elif record.kind.is_marker and record.producer in is_open:
            yield record.kind is Kind.ABORT, is_open.pop(record.producer)
    for ongoing in is_open.values():
        yield None, ongoing


def latest(records: Iterable[Written], start: int, aborted: Collection[int] = ()) -> dict[bytes, bytes]:
    """The last value of each key that was not deleted, at or above `start`."""
    values: dict[bytes, bytes] = {}
    for record in records:
        if record.offset < start or record.offset in aborted or record.kind.is_marker:
            continue
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
    return values
