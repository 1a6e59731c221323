"""Looks for a message in partitions of many topics, and reads single records by their place.

Rules: bounded by what is there when it begins, by a number of records and by time; what it could not look at, it says. A copy
has the headers of the record that it is one of: that one is read by its place where it was not found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from protocol.key_hashes import by_crc32, by_murmur2
from protocol.messages.metadata import MetadataResponseTopic
from protocol.records.batch import BatchHeader
from runtime.command_line.failure import Interrupted
from runtime.command_line.progress import Progress
from runtime.texts import count_text
from tools.cluster import Cluster
from tools.group_lag import Key
from tools.records.record_filter import RecordFilter
from tools.trace.reading import Batches, Range, RangeReading, ranges_of
from tools.trace.stored import PartitionScan, Place, StoredRecord

_MOST_NOTES: Final = 20
_MOST_HOPS: Final = 250
"""Twice as many as a rule for retries may have delays, and some: anybody may write longer ways."""


def partitions_of_key(topics: Iterable[MetadataResponseTopic], key: bytes) -> list[Key]:
    """Return the partition of a key in each topic, by the partitioners of Java's clients and of librdkafka."""
    return [
        (str(topic.name), index)
        for topic in topics
        if topic.partitions
        for index in sorted({choose(key, len(topic.partitions)) for choose in (by_murmur2, by_crc32)})
    ]


def all_partitions(topics: Iterable[MetadataResponseTopic]) -> list[Key]:
    return [(str(topic.name), index) for topic in topics for index in range(len(topic.partitions))]


@dataclass(slots=True)
class TraceSearch:
    """`found` are the records by their places. `problems`: why it is not whole; empty when it is. `closed`: the topics that
    this user may not read, or that were deleted meanwhile; where `has_names`, they are a problem as any other."""

    cluster: Cluster
    wanted: RecordFilter
    max_records: int
    until_ms: int
    """On the cluster's monotonic clock."""
    has_names: bool
    found: dict[Place, StoredRecord] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)
    searched: set[Key] = field(default_factory=set)
    looked: int = 0
    _has_left_out: bool = False

    def look(self, keys: Iterable[Key]) -> None:
        """Look through partitions that were not looked through before. Raises KafkaError, Interrupted."""
        new = [key for key in dict.fromkeys(keys) if key not in self.searched]
        if not new:
            return
        if self._is_over():
            self.problems.append(f"{self._why()}: {count_text(len(new), 'partition')} were not looked through")
            return
        self.searched.update(new)
        ranges, silent = self.cluster.run(ranges_of(new, self.wanted.since_ms))
        self.problems += [f"{topic}-{index}: its leader does not answer" for topic, index in silent]
        scans = {key: PartitionScan(key, self.wanted, row.end, self._add) for key, row in ranges.items()}

        def take(key: Key, buffer: bytes, batches: list[tuple[int, BatchHeader]]) -> None:
            scans[key].take(buffer, batches, ranges[key].at)

        self._read(ranges, take)
        for (topic, index), scan in scans.items():
            self.looked += scan.records
            if scan.unreadable:
                places = ", ".join(map(str, scan.unreadable[:5]))
                self.problems.append(f"{topic}-{index}: batches at offset {places} are unreadable")

    def _read(self, ranges: dict[Key, Range], take: Batches) -> None:
        reading = RangeReading(self.cluster, ranges, take)
        starts = {key: row.at for key, row in ranges.items()}
        total = sum(row.end - row.at for row in ranges.values())
        progress = Progress("records looked through", total, self.cluster.clock)
        try:
            while not reading.is_done and not self._is_over():
                reading.step()
                done = sum(row.at - starts[key] for key, row in ranges.items())
                progress.show(done, count_text(len(self.found), "hit"))
        except KeyboardInterrupt:
            raise Interrupted(
                f"the trace was interrupted with {count_text(len(self.found), 'hit')}: it is incomplete"
            ) from None
        finally:
            progress.close()
        self._note(ranges)
        left = [f"{topic}-{index} at {row.at}" for (topic, index), row in ranges.items() if not row.is_done]
        if left:
            self.problems.append(f"{self._why()}: it stopped at {_listed(left)}")

    def _note(self, ranges: dict[Key, Range]) -> None:
        for (topic, index), row in ranges.items():
            if row.is_closed and not self.has_names:
                self.closed.add(topic)
            elif row.note:
                self.problems.append(f"{topic}-{index}: {row.note}")

    def _why(self) -> str:
        return "enough were found" if self._is_full else "the time was over"

    @property
    def _is_full(self) -> bool:
        return len(self.found) >= self.max_records

    def _is_over(self) -> bool:
        return self._is_full or self.cluster.clock.monotonic_ms() >= self.until_ms

    def _add(self, record: StoredRecord) -> None:
        if not self._is_full:
            self.found[record.place] = record
        elif not self._has_left_out:
            self._has_left_out = True
            self.problems.append(f"there are more than {self.max_records} hits")


def read_places(cluster: Cluster, places: Collection[Place]) -> dict[Place, StoredRecord]:
    """Return the records that are at these places. Raises KafkaError."""
    found: dict[Place, StoredRecord] = {}
    everything = RecordFilter()
    left = sorted(places)
    while left:  # one of each partition at a time
        asked: dict[Key, int] = {}
        for topic, partition, offset in left:
            asked.setdefault((topic, partition), offset)
        left = [place for place in left if asked[place[:2]] != place[2]]
        there, _ = cluster.run(ranges_of(list(asked)))
        ranges = {
            key: Range(asked[key], asked[key] + 1) for key, row in there.items() if row.at <= asked[key] < row.end
        }

        def take(
            key: Key, buffer: bytes, batches: list[tuple[int, BatchHeader]], ranges: dict[Key, Range] = ranges
        ) -> None:
            start = ranges[key].at
            scan = PartitionScan(key, everything, start + 1, lambda record: found.update({record.place: record}))
            scan.take(buffer, batches, start)

        read_all(cluster, ranges, take)
    return found


def read_all(cluster: Cluster, ranges: dict[Key, Range], take: Batches) -> list[str]:
    """Read ranges to their ends; return what could not be read. Raises KafkaError."""
    reading = RangeReading(cluster, ranges, take)
    while not reading.is_done:
        reading.step()
    return [f"{topic}-{index}: {row.note}" for (topic, index), row in ranges.items() if row.note]


def follow(cluster: Cluster, records: dict[Place, StoredRecord]) -> None:
    """Add the records of which those are copies, and the ones of which these are, up to `_MOST_HOPS` of them; not those that
    are gone. Raises KafkaError."""
    tried: set[Place] = set()
    missing = {record.source for record in records.values() if record.source is not None} - records.keys()
    for _ in range(_MOST_HOPS):
        if not missing:
            return
        tried |= missing
        found = read_places(cluster, missing)
        for place, record in found.items():
            record.is_followed = True
            records[place] = record
        missing = {record.source for record in found.values() if record.source is not None} - records.keys() - tried


def _listed(texts: list[str]) -> str:
    more = len(texts) - _MOST_NOTES
    return ", ".join(texts[:_MOST_NOTES]) + (f" and {more} more" if more > 0 else "")
