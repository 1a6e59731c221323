"""The records on the log of the index, and their bytes. No IO.

    taken      entries that were taken in together: a run. It waits until done records name its places
    done       places that wait no longer, why, and when
    position   up to where the source partition was taken in; its sequence is 0

Rules: a key is text, `source topic:partition:kind:sequence`; a value of null removes what the key meant. A run has its entries
in the order of their due times, those of one millisecond in the order in which they were taken in. What cannot be read raises
IndexRecordError: nothing is guessed of an index.

Values, all numbers little-endian; columns are those of `relay.waiting.columns`:
    taken      version u8 (0), flags u8, count u32, due column, place column, ids (u64 each, when flag 1 is set)
    done       version u8 (0), flags u8, count u32, time i64 (ms since the epoch), place column, outcomes (u8 each), ids
    position   version u8 (0), offset i64, leader epoch i32, id of the topic (16 bytes, zero if it is not known)
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from enum import IntEnum, StrEnum
from operator import itemgetter
from typing import NamedTuple

from protocol.primitives import ZERO_UUID
from relay.waiting.columns import ColumnError, DueColumn, PlaceColumn, bytes_of, numbers_of
from relay.waiting.entries import NO_ID, WaitingEntry

# A value stays far below the least `max.message.bytes` that clusters have: 20 bytes an entry.
MAX_ENTRIES = 32_768
_SEQUENCES_END = 1 << 62
_VERSION = 0
_HAS_IDS = 1
_HEADER = struct.Struct("<BBI")
_TIME = struct.Struct("<q")
_POSITION = struct.Struct("<Bqi16s")
_ID_TYPE = "Q"


class IndexRecordError(ValueError):
    """A record that no relay has written."""


class IndexRecordKind(StrEnum):
    TAKEN = "taken"
    DONE = "done"
    POSITION = "position"


class EntryOutcome(IntEnum):
    """Why an entry waits no longer."""

    DELIVERED = 1
    CANCELLED = 2
    REPLACED = 3
    EXPIRED = 4
    DEAD_LETTERED = 5
    GONE = 6
    """Its content was not there any more."""


class IndexKey(NamedTuple):
    topic: str
    partition: int
    kind: IndexRecordKind
    sequence: int

    def to_bytes(self) -> bytes:
        return f"{self.topic}:{self.partition}:{self.kind.value}:{self.sequence}".encode()


class TakenRun(NamedTuple):
    """The value of a taken record, in order of due times. `ids` is None when no entry has an id."""

    dues: DueColumn
    places: PlaceColumn
    ids: array[int] | None

    def entries(self) -> Iterator[WaitingEntry]:
        ids = self.ids or [NO_ID] * len(self.dues)
        return map(WaitingEntry, self.dues, self.places, ids)


class TakenPosition(NamedTuple):
    """Up to where a source partition was taken in. `topic_id` is that of the topic, zero where brokers do not tell it: a topic
    with the same name and another id is another one."""

    offset: int
    leader_epoch: int
    topic_id: bytes


class DoneEntries(NamedTuple):
    """The value of a done record. `ids` is None when no entry has an id."""

    now_ms: int
    places: PlaceColumn
    outcomes: bytes
    ids: array[int] | None

    def delivered_ids(self) -> list[int]:
        """Return the hashes of the ids of those that were delivered and have one."""
        if self.ids is None:
            return []
        return [
            each for each, how in zip(self.ids, self.outcomes, strict=True) if each and how == EntryOutcome.DELIVERED
        ]

    def rows(self) -> Iterator[tuple[int, EntryOutcome, int]]:
        """Yield place, outcome and hash of the id of each."""
        ids = self.ids or [NO_ID] * len(self.outcomes)
        return zip(self.places, map(EntryOutcome, self.outcomes), ids, strict=True)


def taken_record(topic: str, partition: int, sequence: int, entries: Sequence[WaitingEntry]) -> tuple[bytes, bytes]:
    """Return key and value. `entries`, 1 to MAX_ENTRIES, are in the order in which they were taken in."""
    assert 0 < len(entries) <= MAX_ENTRIES
    value = taken_value(*zip(*sorted(entries, key=itemgetter(0)), strict=True))
    return IndexKey(topic, partition, IndexRecordKind.TAKEN, sequence).to_bytes(), value


def taken_value(dues: Sequence[int], places: Sequence[int], ids: Sequence[int]) -> bytes:
    """Return the value of a taken record. The columns have the order of due times."""
    header = _HEADER.pack(_VERSION, _HAS_IDS if any(ids) else 0, len(dues))
    return header + DueColumn.of(dues).to_bytes() + PlaceColumn.of(places).to_bytes() + _id_bytes(ids)


def done_record(
    topic: str, partition: int, sequence: int, rows: Sequence[tuple[int, EntryOutcome, int]], now_ms: int
) -> tuple[bytes, bytes]:
    """Return key and value. `rows`: place, outcome and hash of the id of 1 to MAX_ENTRIES entries."""
    assert 0 < len(rows) <= MAX_ENTRIES
    places, outcomes, ids = zip(*rows, strict=True)
    value = b"".join(
        (
            _HEADER.pack(_VERSION, _HAS_IDS if any(ids) else 0, len(rows)),
            _TIME.pack(now_ms),
            PlaceColumn.of(places).to_bytes(),
            bytes(outcomes),
            _id_bytes(ids),
        )
    )
    return IndexKey(topic, partition, IndexRecordKind.DONE, sequence).to_bytes(), value


def position_record(
    topic: str, partition: int, offset: int, leader_epoch: int, topic_id: bytes = ZERO_UUID
) -> tuple[bytes, bytes]:
    """Return key and value. `offset`: the next one that is taken in; `leader_epoch`: of the last one, -1 if it is not known."""
    value = _POSITION.pack(_VERSION, offset, leader_epoch, topic_id)
    return IndexKey(topic, partition, IndexRecordKind.POSITION, 0).to_bytes(), value


def parse_key(key: bytes) -> IndexKey:
    """Raises: IndexRecordError."""
    try:
        topic, partition, kind, sequence = key.decode().split(":")
        parsed = IndexKey(topic, int(partition), IndexRecordKind(kind), int(sequence))
    except ValueError as error:
        raise IndexRecordError(f"not a key of the index: {key[:100]!r}") from error
    if parsed.partition < 0 or not 0 <= parsed.sequence < _SEQUENCES_END or parsed.to_bytes() != key:
        raise IndexRecordError(f"not a key of the index: {key[:100]!r}")
    return parsed


def parse_taken(value: bytes) -> TakenRun:
    """Raises: IndexRecordError."""
    try:
        count, has_ids = _parse_header(value)
        dues, at = DueColumn.parse(value, _HEADER.size, count)
        places, at = PlaceColumn.parse(value, at, count)
        ids = _parse_ids(value, at, count, has_ids=has_ids)
        if len(set(places.codes)) != count:
            raise ColumnError("two entries have one place")
    except ColumnError as error:
        raise IndexRecordError(f"not a run of entries: {error}") from error
    return TakenRun(dues, places, ids)


def parse_done(value: bytes) -> DoneEntries:
    """Raises: IndexRecordError."""
    try:
        count, has_ids = _parse_header(value)
        at = _HEADER.size + _TIME.size
        if len(value) < at:
            raise ColumnError("the time is missing")
        (now_ms,) = _TIME.unpack_from(value, _HEADER.size)
        places, at = PlaceColumn.parse(value, at, count)
        outcomes = value[at : at + count]
        if len(outcomes) != count or not set(outcomes) <= set(EntryOutcome):
            raise ColumnError("unknown outcomes")
        ids = _parse_ids(value, at + count, count, has_ids=has_ids)
    except ColumnError as error:
        raise IndexRecordError(f"not a list of done entries: {error}") from error
    return DoneEntries(now_ms, places, outcomes, ids)


def parse_position(value: bytes) -> TakenPosition:
    """Return offset and leader epoch. Raises: IndexRecordError."""
    if len(value) != _POSITION.size:
        raise IndexRecordError(f"not a position: {len(value)} bytes")
    version, offset, leader_epoch, topic_id = _POSITION.unpack(value)
    if version != _VERSION or offset < 0 or leader_epoch < -1:
        raise IndexRecordError(f"not a position: version {version}, offset {offset}, leader epoch {leader_epoch}")
    return TakenPosition(offset, leader_epoch, topic_id)


def _parse_header(value: bytes) -> tuple[int, bool]:
    if len(value) < _HEADER.size:
        raise ColumnError(f"{len(value)} bytes")
    version, flags, count = _HEADER.unpack_from(value)
    if version != _VERSION or flags & ~_HAS_IDS:
        raise ColumnError(f"version {version}, flags {flags}")
    if not 0 < count <= MAX_ENTRIES:
        raise ColumnError(f"{count} entries")
    return count, bool(flags)


def _parse_ids(value: bytes, at: int, count: int, *, has_ids: bool) -> array[int] | None:
    ids = numbers_of(_ID_TYPE, value, at, count) if has_ids else None
    end = at + (len(ids) * ids.itemsize if ids is not None else 0)
    if end != len(value):
        raise ColumnError(f"{len(value) - end} bytes too many")
    return ids


def _id_bytes(ids: Sequence[int]) -> bytes:
    return bytes_of(array(_ID_TYPE, ids)) if any(ids) else b""
