"""What waits of one source partition, derived from the records of its index alone. No IO.

Rules: it changes by `replay` alone, with the records of the log in the log's order: all that are there when the partition is
taken over, then what a transaction wrote, after its commit. What waits is what taken records hold and no later done record
names. A record that is replayed for a key replaces what that key meant; null removes it. After an aborted transaction all
questions have the same answers as before.

`merge` says what to write so that the index stays in proportion to what waits: runs of which most entries are done are written
again, many small runs as one; done records go when no run needs them and their ids are forgotten. A run that is written again
makes its entries wait: in a transaction it stands before the done records, or alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from relay.waiting.delivered_ids import DeliveredIds
from relay.waiting.entries import NO_ID, SOURCE, WaitingEntry, offset_of, tier_of
from relay.waiting.index_records import (
    MAX_ENTRIES,
    EntryOutcome,
    IndexKey,
    IndexRecordError,
    IndexRecordKind,
    parse_done,
    parse_key,
    parse_taken,
    taken_record,
)


class WaitingIndex:
    """The entries that wait of one source partition."""

    def __init__(self, topic: str, partition: int, delivered_ids: DeliveredIds | None = None) -> None:
        """`delivered_ids`: what all indexes of a process share; one of its own when None."""
        self.topic = topic
        self.partition = partition
        self._delivered_ids = delivered_ids or DeliveredIds()
        self._runs: dict[int, dict[int, WaitingEntry]] = {}
        self._done: dict[int, tuple[int, set[int], set[int]]] = {}
        self._last_sequence = -1

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Raises: IndexRecordError for what no relay wrote for this source partition."""
        parsed = parse_key(key)
        if (parsed.topic, parsed.partition) != (self.topic, self.partition):
            raise IndexRecordError(f"of another source partition: {key!r}")
        self._last_sequence = max(self._last_sequence, parsed.sequence)
        if parsed.kind is IndexRecordKind.DONE:
            self._replay_done(parsed.sequence, value)
            return
        self._runs.pop(parsed.sequence, None)
        for _, runs, _ids in self._done.values():
            runs.discard(parsed.sequence)
        if value is not None:
            self._runs[parsed.sequence] = {entry.place: entry for entry in parse_taken(value).entries()}

    def _replay_done(self, sequence: int, value: bytes | None) -> None:
        self._done.pop(sequence, None)
        if value is None:
            return
        done = parse_done(value)
        runs, ids = set(), set()
        for place, outcome, id_hash in done.rows():
            if outcome is EntryOutcome.DELIVERED and id_hash != NO_ID:
                ids.add(id_hash)
                self._delivered_ids.remember(id_hash, done.now_ms)
            for of_run, entries in self._runs.items():
                if entries.pop(place, None) is not None:
                    runs.add(of_run)
        self._done[sequence] = (done.now_ms, runs, ids)

    @property
    def count(self) -> int:
        """How many entries wait."""
        return sum(map(len, self._runs.values()))

    def entries(self) -> Iterator[WaitingEntry]:
        """Yield what waits by due time; of one millisecond, in the order in which it was taken in."""
        of_runs = [entry for sequence in sorted(self._runs) for entry in self._runs[sequence].values()]
        return iter(sorted(of_runs, key=lambda entry: entry.due_ms))

    def take_due(self, now_ms: int, limit: int) -> list[WaitingEntry]:
        """Return what is due, in the order of `entries`. It waits until a done record with its places is replayed."""
        return self.ahead(now_ms, limit)

    def ahead(self, until_ms: int, limit: int, after: WaitingEntry | None = None) -> list[WaitingEntry]:
        """Return what is due at `until_ms` or before, in the order of `entries`.

        `after`: only what comes after this entry; from its millisecond on when it waits no longer.
        """
        entries = list(self.entries())
        start = 0
        if after is not None:
            start = (
                entries.index(after) + 1 if after in entries else sum(each.due_ms < after.due_ms for each in entries)
            )
        return list(islice((entry for entry in entries[start:] if entry.due_ms <= until_ms), limit))

    def next_due_ms(self) -> int | None:
        return min((entry.due_ms for run in self._runs.values() for entry in run.values()), default=None)

    def find(self, id_hash: int) -> WaitingEntry | None:
        """Return the entry with this id that waits."""
        return next(
            (each for run in self._runs.values() for each in run.values() if each.id_hash == id_hash != NO_ID), None
        )

    def delivered_ms(self, id_hash: int) -> int | None:
        """Return when the record with this id was delivered; None when that was not within the time that ids are remembered."""
        return self._delivered_ids.delivered_ms(id_hash)

    def lowest_offsets(self) -> dict[int, int]:
        """Return the lowest offset that an entry may need, for each tier of buckets of which one does."""
        lowest: dict[int, int] = {}
        for run in self._runs.values():
            for place in run:
                tier = tier_of(place)
                if tier != SOURCE:
                    lowest[tier] = min(offset_of(place), lowest.get(tier, offset_of(place)))
        return lowest

    def next_sequence(self) -> int:
        """Return the sequence of the next taken record and of the next done record; the one after it is free, too."""
        return self._last_sequence + 1

    def merge(self, now_ms: int) -> list[tuple[bytes, bytes | None]]:
        """Return keys and values to write next, as the first records of the index in a transaction, and to replay after it.

        Nothing when all is well. A call writes a bounded part of what there is to do.
        """
        removed = [
            IndexKey(self.topic, self.partition, IndexRecordKind.TAKEN, run)
            for run, left in self._runs.items()
            if not left
        ]
        removed += [
            IndexKey(self.topic, self.partition, IndexRecordKind.DONE, sequence)
            for sequence, (time_ms, runs, ids) in self._done.items()
            if not runs - {run for run, left in self._runs.items() if not left}
            and not (ids and self._delivered_ids.is_needed(time_ms, now_ms))
        ]
        written: list[tuple[bytes, bytes | None]] = []
        small = [run for run in sorted(self._runs) if 0 < len(self._runs[run]) <= MAX_ENTRIES // 8][:8]
        if len(small) == 8:
            entries = [entry for run in small for entry in self._runs[run].values()]
            written.append(taken_record(self.topic, self.partition, small[0], entries))
            removed += [IndexKey(self.topic, self.partition, IndexRecordKind.TAKEN, run) for run in small[1:]]
        return written + [(key.to_bytes(), None) for key in removed]
