"""What waits, as a list: the model that the index is compared with, and a log that both are made of."""

from __future__ import annotations

from collections.abc import Iterable

from relay.waiting.delivered_ids import DeliveredIds
from relay.waiting.entries import NO_ID, WaitingEntry
from relay.waiting.index import WaitingIndex
from relay.waiting.index_records import EntryOutcome, done_record, taken_record

TOPIC, PARTITION = "orders-later", 3


class PlainIndex:
    """Entries in the order in which they were taken in."""

    def __init__(self) -> None:
        self.waiting: list[WaitingEntry] = []
        self.delivered: dict[int, int] = {}

    def done(self, entries: Iterable[WaitingEntry], outcome: EntryOutcome, now_ms: int) -> None:
        for entry in entries:
            self.waiting.remove(entry)
            if outcome is EntryOutcome.DELIVERED and entry.id_hash != NO_ID:
                self.delivered[entry.id_hash] = now_ms

    def due(self, until_ms: int) -> list[WaitingEntry]:
        return sorted((entry for entry in self.waiting if entry.due_ms <= until_ms), key=lambda entry: entry.due_ms)


class IndexLog:
    """An index with the log of its records, which is compacted at will."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.index = WaitingIndex(TOPIC, PARTITION)

    def write(self, *records: tuple[bytes, bytes | None]) -> None:
        for key, value in records:
            self.records.append((key, value))
            self.index.replay(key, value)

    def take_in(self, *entries: WaitingEntry) -> None:
        self.write(taken_record(TOPIC, PARTITION, self.index.next_sequence(), entries))

    def done(
        self, entries: Iterable[WaitingEntry], outcome: EntryOutcome = EntryOutcome.DELIVERED, now_ms: int = 0
    ) -> None:
        rows = [(entry.place, outcome, entry.id_hash) for entry in entries]
        self.write(done_record(TOPIC, PARTITION, self.index.next_sequence(), rows, now_ms))

    def merge(self, now_ms: int) -> int:
        """Return how many records were written until nothing was left to do."""
        written = 0
        while records := self.index.merge(now_ms):
            written += len(records)
            self.write(*records)
        return written

    def compact(self, share: float = 1.0, *, tombstones: bool = True) -> None:
        """Keep the last record of each key in the first part of the log. `tombstones`: keep those that are null."""
        end = int(len(self.records) * share)
        last = {key: at for at, (key, _) in enumerate(self.records[:end])}
        self.records = [
            (key, value)
            for at, (key, value) in enumerate(self.records)
            if at >= end or (last[key] == at and (tombstones or value is not None))
        ]

    def restart(self, delivered_ids: DeliveredIds | None = None) -> None:
        self.index = WaitingIndex(TOPIC, PARTITION, delivered_ids)
        for key, value in self.records:
            self.index.replay(key, value)
