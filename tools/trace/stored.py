"""Records as they are stored: their place, time and producer, and the markers that end their transactions. Pure.

`PartitionScan` looks through the batches of one partition. A record is read only where the bytes of its batch have the longest
of the texts that are looked for.

Rules: contents are not kept, but the key, what the headers say, and a hash by which copies are compared. A marker
belongs to the records of its producer before it that have none; whether it is the one of their transaction is decided by
`fates`: compaction removes markers.
Source: KIP-98; Kafka DefaultRecordBatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Final, NamedTuple

from client.letters.headers import Letter, read
from protocol.records.any_format import iter_any_records
from protocol.records.batch import MAGIC_V2, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, advance_sequence
from protocol.records.control import ControlType, read_marker
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, plain_records, read_record, record_spans
from tools.records.record_filter import RecordFilter
from tools.records.record_view import RecordView

MAX_HEADER_BYTES: Final = 4 << 10
MAX_DECOMPRESSED_BYTES: Final = 128 << 20
_HASH_BYTES: Final = 8

Key = tuple[str, int]
Place = tuple[str, int, int]
"""Topic, partition, offset."""


class Fate(Enum):
    """What became of the transaction of a record."""

    NONE = "none"
    """It is in none."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"
    """The leader did not tell."""


class Marker(NamedTuple):
    """The control record that ended a transaction in a partition."""

    is_commit: bool
    offset: int
    timestamp_ms: int
    producer_epoch: int


@dataclass(slots=True)
class StoredRecord:
    """One record. What it does not have is None. `is_followed`: it was not found by what was looked for, but a found one is a
    copy of it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    is_append_time: bool
    key: bytes | None
    value_bytes: int | None
    letter: Letter
    content: bytes
    leader_epoch: int | None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    fate: Fate = Fate.NONE
    marker: Marker | None = None
    is_followed: bool = False
    is_hidden: bool = False
    """Whether readers of committed records do not see it yet, because it, or one before it, is of an open transaction."""

    @property
    def source(self) -> Place | None:
        """The record of which it is a copy, as its headers say; None if they do not say it whole."""
        letter = self.letter
        if letter.source_topic is None or letter.source_partition is None or letter.source_offset is None:
            return None
        return letter.source_topic, letter.source_partition, letter.source_offset

    @property
    def key_of_partition(self) -> Key:
        return self.topic, self.partition

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.offset


def stored(key: Key, record: Record, header: BatchHeader) -> StoredRecord:
    """Return a record of a batch. The fate of a transactional one is not known yet."""
    found = StoredRecord(
        topic=key[0],
        partition=key[1],
        offset=record.offset,
        timestamp_ms=None if record.timestamp == NO_TIMESTAMP else record.timestamp,
        is_append_time=header.is_log_append_time,
        key=record.key,
        value_bytes=None if record.value is None else len(record.value),
        letter=read([header for header in record.headers if len(header[1] or b"") <= MAX_HEADER_BYTES]),
        content=content_hash(record),
        leader_epoch=header.partition_leader_epoch if header.partition_leader_epoch >= 0 else None,
    )
    if header.magic >= MAGIC_V2 and header.producer_id != NO_PRODUCER_ID:
        found.producer_id, found.producer_epoch = header.producer_id, header.producer_epoch
        if header.base_sequence != NO_SEQUENCE:
            found.sequence = advance_sequence(header.base_sequence, record.offset - header.base_offset)
    if header.is_transactional:
        found.fate = Fate.UNKNOWN
    return found


def content_hash(record: Record) -> bytes:
    """Return a hash of key and value: copies have the same."""
    made = blake2b(digest_size=_HASH_BYTES)
    for part in (record.key, record.value):
        made.update(b"-" if part is None else b"%d:" % len(part))
        made.update(part or b"")
    return made.digest()


@dataclass(slots=True)
class PartitionScan:
    """What is found in one partition, whose batches come in the order of their offsets."""

    key: Key
    wanted: RecordFilter
    end: int
    found: Callable[[StoredRecord], None]
    records: int = 0
    unreadable: list[int] = field(default_factory=list)
    """The offsets of batches that cannot be read."""
    _open: dict[int, list[StoredRecord]] = field(default_factory=dict)

    def take(self, buffer: bytes, batches: list[tuple[int, BatchHeader]], start: int) -> None:
        """Look through batches; records before `start` were looked at before."""
        for position, header in batches:
            try:
                if header.is_control:
                    self._end_transaction(buffer, position, header)
                    continue
                self.records += max(header.records_count, 1)
                for record in _matching(buffer, position, header, self.key, self.wanted):
                    if start <= record.offset < self.end:
                        self._add(stored(self.key, record, header))
            except InvalidBatch:
                self.unreadable.append(header.base_offset)

    def _add(self, record: StoredRecord) -> None:
        self.found(record)
        if record.fate is not Fate.NONE and record.producer_id is not None:
            self._open.setdefault(record.producer_id, []).append(record)

    def _end_transaction(self, buffer: bytes, position: int, header: BatchHeader) -> None:
        if header.producer_id not in self._open:
            return
        marker = read_marker(buffer, position, header)
        if marker is None:
            return
        found = Marker(marker.type is ControlType.COMMIT, header.base_offset, marker.timestamp, header.producer_epoch)
        for record in self._open.pop(header.producer_id):
            record.marker = found


def _matching(buffer: bytes, position: int, header: BatchHeader, key: Key, wanted: RecordFilter) -> Iterator[Record]:
    """Iterate over the records of a batch that are wanted. Raises InvalidBatch."""
    since_ms = wanted.since_ms
    if since_ms is not None and header.max_timestamp < since_ms:
        return
    for record in _possible(buffer, position, header, _literal(wanted)):
        view = RecordView(*key, record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        if wanted.takes(view):
            yield record


def _possible(buffer: bytes, position: int, header: BatchHeader, literal: bytes) -> Iterator[Record]:
    """Iterate over the records whose bytes have `literal`. Raises InvalidBatch."""
    if header.magic < MAGIC_V2:
        yield from iter_any_records(buffer, position, header, MAX_DECOMPRESSED_BYTES)
        return
    block = bytes(plain_records(buffer, position, header, MAX_DECOMPRESSED_BYTES))
    at = block.find(literal)
    if at < 0:
        return
    for begin, behind in record_spans(block, 0, len(block), header.records_count):
        if at + len(literal) > behind:
            continue
        if at >= begin or block.find(literal, begin, behind) >= 0:
            yield read_record(block, begin, behind, header)
        at = block.find(literal, behind)
        if at < 0:
            return


def _literal(wanted: RecordFilter) -> bytes:
    """Return the longest of what a record has somewhere in its bytes."""
    return max((wanted.key or b"", *(value for _, value in wanted.headers)), key=len)
