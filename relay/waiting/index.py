"""What waits of one source partition, derived from the records of its index alone. No IO.

Rules: it changes by `replay` alone, with the records of the log in the log's order: all that are there when the partition is
taken over, then what a transaction wrote, after its commit. What waits is what taken records hold and no later done record
names. A record that is replayed for a key replaces what that key meant; null removes it. After an aborted transaction all
questions have the same answers as before.

`merge` says what to write so that the index stays in proportion to what waits: runs of which most entries are done are written
again, many small runs as one; done records go when no run needs them and their ids are forgotten. A run that is written again
makes its entries wait: in a transaction it stands before the done records, or alone.

Some 30 bytes an entry: runs (`relay.waiting.run`) are kept as the columns that they are on the log, and a table finds ids. What
is due next is on a heap of the runs by their first entries. A run whose first entry changes is put on the heap again; what is
there of it from before is passed over.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, merge
from itertools import chain, islice

from relay.waiting.delivered_ids import DeliveredIds
from relay.waiting.entries import NO_ID, SOURCE, TIERS, WaitingEntry, id_hash, offset_of, tier_of
from relay.waiting.id_table import IdTable
from relay.waiting.index_records import (
    DoneEntries,
    IndexKey,
    IndexRecordError,
    IndexRecordKind,
    TakenPosition,
    TakenRun,
    parse_done,
    parse_key,
    parse_position,
    parse_taken,
    taken_value,
)
from relay.waiting.merging import is_worn, runs_to_merge
from relay.waiting.place_ranges import PlaceRanges
from relay.waiting.run import WaitingRun

# A reference of the table of ids: the slot of a run, and the row in it.
_ROW_BITS = 15
_ROW_MASK = (1 << _ROW_BITS) - 1
_NO_IDS = array("Q")
# How many keys a call of `merge` removes.
_MOST_REMOVED = 500
# Runs are looked through for some to merge when so many are new.
_NEW_RUNS = 8
# What is done at the beginning of a run takes less than this part of its memory.
_TRIMMED_PART = 4
_SPARE_ON_HEAP = 1000
# What is due is sorted as a whole up to so many times as is asked for; of more, the first are picked one by one.
_MANY_TIMES = 4


class _DoneRecord:
    """`needed_by`: how many runs have rows that it names. `has_ids`: whether ids of it are remembered."""

    __slots__ = ("has_ids", "needed_by", "time_ms")

    def __init__(self, time_ms: int) -> None:
        self.time_ms = time_ms
        self.needed_by = 0
        self.has_ids = False


class WaitingIndex:
    """The entries that wait of one source partition."""

    def __init__(self, topic: str, partition: int, delivered_ids: DeliveredIds | None = None) -> None:
        """`delivered_ids`: what all indexes of a process share; one of its own when None."""
        self.topic = topic
        self.partition = partition
        self._delivered_ids = delivered_ids or DeliveredIds()
        self._salt = id_hash(f"{topic}:{partition}".encode())
        self._last_sequence = -1
        self.count = 0
        """How many entries wait."""
        self.position: TakenPosition | None = None
        """Up to where the source partition was taken in; None when the log does not say."""
        self._runs: dict[int, WaitingRun] = {}
        """By sequence. Of a run without an entry that waits only its sequence and done records are left, in `_gone`."""
        self._slots: list[WaitingRun | None] = [None]
        self._free_slots: list[int] = []
        self._id_columns = [_NO_IDS]
        self._bases = [0]
        """The ids and the base of the run in each slot."""
        self._ranges = [PlaceRanges() for _ in TIERS]
        self._ids = IdTable(self._ids_of, self._delivered_ids.factor)
        self._heap: list[tuple[int, int, int]] = []
        """Due time of a run's first entry, its sequence, its slot."""
        self._gone: dict[int, array[int]] = {}
        self._worn: dict[int, WaitingRun] = {}
        self._new_runs = 0
        self._done: dict[int, _DoneRecord] = {}
        self._unneeded: dict[int, None] = {}
        self._with_ids: deque[int] = deque()
        """Done records with ids that may be remembered, in the order of the log."""

    # What the log says

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Raises: IndexRecordError for what no relay wrote for this source partition."""
        parsed = parse_key(key)
        if (parsed.topic, parsed.partition) != (self.topic, self.partition):
            raise IndexRecordError(f"of another source partition: {key!r}")
        sequence = parsed.sequence
        if parsed.kind is IndexRecordKind.POSITION:
            self.position = None if value is None else parse_position(value)
            return
        if parsed.kind is IndexRecordKind.TAKEN:
            taken = None if value is None else parse_taken(value)
            self._remove_run(sequence)
            if taken is not None:
                self._add_run(sequence, taken)
        else:
            done = None if value is None else parse_done(value)
            self._unneeded.pop(sequence, None)
            if done is None:
                self._done.pop(sequence, None)
            else:
                self._finish(sequence, done)
        self._last_sequence = max(self._last_sequence, sequence)

    def _add_run(self, sequence: int, taken: TakenRun) -> None:
        slot = self._free_slots.pop() if self._free_slots else len(self._slots)
        run = WaitingRun(sequence, slot, taken)
        if slot == len(self._slots):
            self._slots.append(run)
            self._id_columns.append(_NO_IDS)
            self._bases.append(0)
        else:
            self._slots[slot] = run
        self._runs[sequence] = run
        self.count += run.count
        for tier, least, greatest in run.ranges:
            self._ranges[tier].add(run, least, greatest)
        if run.ids is not None:
            self._id_columns[slot] = run.ids
            self._ids.add(run.ids, slot << _ROW_BITS)
        heappush(self._heap, (run.first_due_ms, sequence, slot))
        self._new_runs += 1

    def _remove_run(self, sequence: int) -> None:
        """Forget a run: its key is removed or has another value, so done records before are not needed for it."""
        run = self._runs.get(sequence)
        if run is not None:
            self.count -= run.count
            self._drop_rows(run)
        for each in self._gone.pop(sequence, ()) if run is None else run.done_by:
            done = self._done.get(each)
            if done is not None:
                done.needed_by -= 1
                if not done.needed_by and not done.has_ids:
                    self._unneeded[each] = None

    def _drop_rows(self, run: WaitingRun) -> None:
        del self._runs[run.sequence]
        self._worn.pop(run.sequence, None)
        for tier, least, _ in run.ranges:
            self._ranges[tier].remove(run, least)
        self._slots[run.slot] = None
        self._id_columns[run.slot] = _NO_IDS
        self._bases[run.slot] = 0
        self._free_slots.append(run.slot)

    def _finish(self, sequence: int, done: DoneEntries) -> None:
        record = self._done.setdefault(sequence, _DoneRecord(done.now_ms))
        touched: dict[int, tuple[WaitingRun, int]] = {}
        for place in done.places:
            for run in self._ranges[tier_of(place)].runs_with(place):
                first = run.first
                row = run.row_of(place)
                if row >= 0 and run.finish(row):
                    self.count -= 1
                    touched.setdefault(run.sequence, (run, first))
        for run, first in touched.values():
            run.done_by.append(sequence)
            self._follow(run, first)
        record.needed_by += len(touched)
        delivered = done.delivered_ids()
        if delivered:
            self._delivered_ids.remember(self._salt, delivered, done.now_ms)
            record.has_ids = True
        if record.has_ids:
            self._with_ids.append(sequence)
        elif not record.needed_by:
            self._unneeded[sequence] = None

    def _follow(self, run: WaitingRun, first: int) -> None:
        """Act on rows of a run that are done. `first`: its first row before."""
        if not run.count:
            self._drop_rows(run)
            self._gone[run.sequence] = run.done_by
            return
        if run.first != first:
            heappush(self._heap, (run.first_due_ms, run.sequence, run.slot))
            if len(self._heap) > 2 * len(self._runs) + _SPARE_ON_HEAP:
                self._heap = [(each.first_due_ms, each.sequence, each.slot) for each in self._runs.values()]
                heapify(self._heap)
            if run.first * _TRIMMED_PART >= len(run):
                run.trim()
                self._bases[run.slot] = run.base
                self._id_columns[run.slot] = run.ids or _NO_IDS
        if is_worn(run):
            self._worn[run.sequence] = run

    # What waits

    def entries(self) -> Iterator[WaitingEntry]:
        """Yield what waits by due time; of one millisecond, in the order in which it was taken in. Not beside a replay."""
        return self._in_order([(run, run.first, len(run)) for run in self._runs.values()])

    def take_due(self, now_ms: int, limit: int) -> list[WaitingEntry]:
        """Return what is due, in the order of `entries`. It waits until a done record with its places is replayed."""
        self._delivered_ids.advance(now_ms)
        return self.ahead(now_ms, limit)

    def ahead(self, until_ms: int, limit: int, after: WaitingEntry | None = None) -> list[WaitingEntry]:
        """Return what is due at `until_ms` or before, in the order of `entries`.

        `after`: only what comes after this entry; from its millisecond on when it waits no longer.
        """
        runs = self._due_runs(until_ms)
        if after is None:
            parts = [(run, run.first, run.end_of(until_ms)) for run in runs]
        else:
            sequence, row = self._position(after)
            parts = [
                (run, max(run.first, _start_after(run, after.due_ms, sequence, row)), run.end_of(until_ms))
                for run in runs
            ]
        if sum(end - start for _, start, end in parts if end > start) > _MANY_TIMES * limit:
            return list(islice(self._in_order(parts), limit))
        parts.sort(key=_sequence)
        dues, places, ids = _columns([run.columns(start, end) for run, start, end in parts])
        return [
            WaitingEntry(dues[row], places[row], ids[row])
            for row in sorted(range(len(dues)), key=dues.__getitem__)[:limit]
        ]

    def count_due(self, until_ms: int) -> int:
        """Return how many entries that wait are due at `until_ms` or before, without going through them."""
        return sum(run.count_before(run.end_of(until_ms)) for run in self._due_runs(until_ms))

    def next_due_ms(self) -> int | None:
        heap = self._heap
        while heap and not self._is_on_top(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def find(self, id_hash: int) -> WaitingEntry | None:
        """Return the entry with this id that waits."""
        reference = self._ids.find(id_hash)
        if reference is None:
            return None
        run = self._slots[reference >> _ROW_BITS]
        assert run is not None
        return run.entry((reference & _ROW_MASK) - run.base)

    def at(self, place: int) -> WaitingEntry | None:
        """Return the entry at this place that waits."""
        for run in self._ranges[tier_of(place)].runs_with(place):
            row = run.row_of(place)
            if row >= 0 and run.waits(row):
                return run.entry(row)
        return None

    def delivered_ms(self, id_hash: int) -> int | None:
        """Return when the record with this id was delivered; None when that was not within the time that ids are remembered."""
        return self._delivered_ids.delivered_ms(self._salt, id_hash)

    def lowest_offsets(self) -> dict[int, int]:
        """Return the lowest offset that an entry may need, for each tier of buckets of which one does."""
        leasts = {tier: self._ranges[tier].least() for tier in TIERS if tier != SOURCE}
        return {tier: offset_of(least) for tier, least in leasts.items() if least is not None}

    def _ids_of(self, references: Iterable[int]) -> list[int]:
        """Return the ids of rows that wait; NO_ID for what is not there, does not wait, or has none."""
        columns, bases = self._id_columns, self._bases
        found = []
        for reference in references:
            slot = reference >> _ROW_BITS
            ids = columns[slot]
            row = (reference & _ROW_MASK) - bases[slot]
            found.append(ids[row] if 0 <= row < len(ids) else NO_ID)
        return found

    def _is_on_top(self, item: tuple[int, int, int]) -> bool:
        """Whether what was put on the heap is still so."""
        due_ms, sequence, slot = item
        run = self._slots[slot]
        return run is not None and run.sequence == sequence and run.first_due_ms == due_ms

    def _due_runs(self, until_ms: int) -> list[WaitingRun]:
        """Return the runs of which the first entry is due, in no order."""
        heap = self._heap
        slots: set[int] = set()
        following = [0]
        while following:
            at = following.pop()
            if at < len(heap) and heap[at][0] <= until_ms:
                if self._is_on_top(heap[at]):
                    slots.add(heap[at][2])
                following += (2 * at + 1, 2 * at + 2)
        return [run for slot in slots if (run := self._slots[slot]) is not None]

    @staticmethod
    def _in_order(parts: list[tuple[WaitingRun, int, int]]) -> Iterator[WaitingEntry]:
        """Yield the entries of parts of runs: of each its rows from the second number on, and before the third."""
        return (run.entry(row) for _, _, row, run in merge(*(_keys(*part) for part in parts)))

    def _position(self, entry: WaitingEntry) -> tuple[int, int]:
        """Return sequence and row of an entry that waits; what comes before all others when it does not."""
        for run in self._ranges[tier_of(entry.place)].runs_with(entry.place):
            row = run.row_of(entry.place)
            if row >= 0 and run.waits(row) and run.dues[row] == entry.due_ms:
                return run.sequence, row
        return -1, -1

    # What to write

    def next_sequence(self) -> int:
        """Return the sequence of the next taken record and of the next done record; those after it are free, too."""
        return self._last_sequence + 1

    def merge(self, now_ms: int) -> list[tuple[bytes, bytes | None]]:
        """Return keys and values to write next, as the first records of the index in a transaction, and to replay after it.

        Nothing when all is well. A call writes a bounded part of what there is to do. What it says holds until the next replay.
        """
        self._delivered_ids.advance(now_ms)
        self._forget_ids()
        written: list[tuple[bytes, bytes | None]] = []
        merged = self._runs_to_merge(now_ms)
        if merged:
            dues, places, ids = _columns([run.columns(0, len(run)) for run in merged])
            order = sorted(range(len(dues)), key=dues.__getitem__)
            value = taken_value(*([column[row] for row in order] for column in (dues, places, ids)))
            written.append((self._key(IndexRecordKind.TAKEN, merged[0].sequence), value))
        removed = [*(run.sequence for run in merged[1:]), *islice(self._gone, _MOST_REMOVED)]
        written += [(self._key(IndexRecordKind.TAKEN, sequence), None) for sequence in removed]
        written += [
            (self._key(IndexRecordKind.DONE, sequence), None) for sequence in islice(self._unneeded, _MOST_REMOVED)
        ]
        return written

    def _runs_to_merge(self, now_ms: int) -> Sequence[WaitingRun]:
        if not self._worn and self._new_runs < _NEW_RUNS:
            return ()
        worn = next(iter(self._worn.values()), None)
        merged = runs_to_merge([self._runs[sequence] for sequence in sorted(self._runs)], worn, now_ms)
        if not merged:
            self._new_runs = 0
        return merged

    def _forget_ids(self) -> None:
        with_ids = self._with_ids
        while with_ids:
            record = self._done.get(with_ids[0])
            if record is not None:
                if self._delivered_ids.has_ids_of(record.time_ms):
                    return
                record.has_ids = False
                if not record.needed_by:
                    self._unneeded[with_ids[0]] = None
            with_ids.popleft()

    def _key(self, kind: IndexRecordKind, sequence: int) -> bytes:
        return IndexKey(self.topic, self.partition, kind, sequence).to_bytes()


def _sequence(part: tuple[WaitingRun, int, int]) -> int:
    return part[0].sequence


def _columns(parts: list[tuple[list[int], list[int], list[int]]]) -> tuple[list[int], list[int], list[int]]:
    """Return the columns of parts, one after the other."""
    dues, places, ids = (list(chain.from_iterable(part[at] for part in parts)) for at in range(3))
    return dues, places, ids


def _keys(run: WaitingRun, start: int, end: int) -> Iterator[tuple[int, int, int, WaitingRun]]:
    """Yield rows that wait, with what they are ordered by in front. The sequence tells any two runs apart."""
    dues = run.dues
    sequence = run.sequence
    return ((dues[row], sequence, row, run) for row in run.waiting_rows(start, end))


def _start_after(run: WaitingRun, due_ms: int, sequence: int, row: int) -> int:
    """Return the first row of a run that comes after the given row of the run with the given sequence."""
    if run.sequence == sequence:
        return row + 1
    return run.end_of(due_ms) if run.sequence < sequence else run.start_of(due_ms)
