"""Decides which records of a batch cleaning keeps, and rebuilds the batch with them.

A record stays when it is the latest of its key, or lies behind what the offset map covers. A record without a value is a
delete marker: it stays until the delete horizon of its batch has passed, which is set when the batch is first cleaned. A
batch of which all records stay is copied as it is; one that loses some is put together anew, with its offsets; one that
loses all is dropped, or kept as an empty batch when it is the last of a producer that is still known, whose sequence
number and epoch would be lost with it.

Aborted records are removed immediately. A marker is removed when none of its transaction's records are left, and only after its
own delete horizon, so that a consumer that is reading the transaction still finds it.

Rules: pure. Batches come in the order of the log; `CleanedTransactions` is carried along from the first to the last.
Invariants: a batch keeps its base and last offset, producer and sequence; nothing stays that was not there.
Source: Kafka Cleaner.cleanInto, CleanedTransactionMetadata, MemoryRecords.filterTo; KIP-534 (delete horizon), KIP-98.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from protocol.errors import ErrorCode
from protocol.primitives import Buffer, DecodeError
from protocol.records.any_format import iter_any_records
from protocol.records.batch import HEADER_BYTES, MAGIC_V2, BatchHeader
from protocol.records.control import ControlType, read_marker
from protocol.records.invalid import InvalidBatch
from protocol.records.legacy import encode_message_set
from protocol.records.rebuild import rebuild_batch
from protocol.records.record import broken_record, empty_batch, plain_records
from protocol.varint import decode_varint
from storage.cleaner.latest_offsets import LatestOffsets
from storage.cleaner.offset_map import OffsetMap
from storage.segments.stored_batches import MAX_LOADED_BYTES


class Aborted(Protocol):
    """An entry of a transaction index (see `storage.segments.txn_index.AbortedTxn`)."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LastRecord:
    """What is known of an active producer: the offset of its last data batch's last record, None when the log has only markers
    of it."""

    last_data_offset: int | None
    producer_epoch: int


class _AbortedHere:
    """An aborted transaction that has begun. `has_batches`: some of its records were met, and their batch may stay."""

    __slots__ = ("has_batches", "transaction")

    def __init__(self, transaction: Aborted) -> None:
        self.transaction = transaction
        self.has_batches = False


class CleanedTransactions:
    """The state of the log's transactions at the present position of the walk. `kept_aborted` collects the aborted transactions
    whose marker stays, for the new segment's transaction index."""

    __slots__ = ("_aborted", "_committed", "_known", "_to_come", "kept_aborted")

    def __init__(self) -> None:
        self._to_come: list[tuple[int, int, Aborted]] = []  # a heap by first offset
        self._known: set[tuple[int, int]] = set()
        self._aborted: dict[int, _AbortedHere] = {}
        self._committed: set[int] = set()
        self.kept_aborted: list[Aborted] = []

    def expect(self, aborted: Iterable[Aborted]) -> None:
        """Add aborted transactions that overlap the next batches; one that is known already changes nothing."""
        for each in aborted:
            key = (each.producer_id, each.last_offset)
            if key not in self._known:
                self._known.add(key)
                heapq.heappush(self._to_come, (each.first_offset, each.last_offset, each))

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[0][0] <= offset:
            each = heapq.heappop(self._to_come)[2]
            self._aborted.setdefault(each.producer_id, _AbortedHere(each))

    def on_data(self, header: BatchHeader) -> bool:
        """Return whether the batch belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.has_batches = True
        return True

    def on_marker(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Return whether no batch of the marker's transaction was met, so that it may be removed. Raises InvalidBatch."""
        self._begin_up_to(header.last_offset)
        if not header.records_count:
            return True  # it was cleaned before
        marker = read_marker(buffer, position, header)
        if marker is None:
            return False
        if marker.type is ControlType.COMMIT:
            was_met = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not was_met
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or not aborted.has_batches:
            return True
        self.kept_aborted.append(aborted.transaction)
        return False


# --- keys ---


@dataclass(slots=True)
class BatchKeys:
    """What cleaning needs of the records of a batch: the key and offset delta of each, and where it ends in `block`."""

    block: bytes
    start: int
    keys: list[bytes | None] = field(default_factory=list)
    deltas: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    without_value: list[int] = field(default_factory=list)
    """Positions in the lists of the records whose value is null."""


def _records_block(buffer: Buffer, position: int, header: BatchHeader) -> tuple[bytes, int, int]:
    """Return (block, start, end): the records of a batch, decompressed, lie in the block from start to end. Raises
    InvalidBatch."""
    if header.is_compressed:
        block = bytes(plain_records(buffer, position, header, MAX_LOADED_BYTES))
        return block, 0, len(block)
    start, end = position + HEADER_BYTES, position + header.size_bytes
    if isinstance(buffer, bytes):
        return buffer, start, end
    return bytes(memoryview(buffer)[start:end]), 0, end - start


def read_keys(buffer: Buffer, position: int, header: BatchHeader) -> BatchKeys:
    """Read the keys of a batch of format v2. Raises InvalidBatch."""
    block, start, end = _records_block(buffer, position, header)
    batch = BatchKeys(block, start)
    try:
        at = _walk_keys(batch, header.records_count)
    except (DecodeError, IndexError) as error:
        raise broken_record(len(batch.ends), str(error)) from error
    if at != end:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD, f"The batch of {header.records_count} records ends {end - at} bytes elsewhere."
        )
    return batch


def _walk_keys(batch: BatchKeys, count: int) -> int:
    """Note every record; returns where the last one ends. The inner loop of all cleaning: numbers of one or two bytes are
    decoded in place."""
    block, at = batch.block, batch.start
    note_key, note_delta, note_end = batch.keys.append, batch.deltas.append, batch.ends.append
    for index in range(count):
        byte = block[at]
        if byte < 0x80:
            length = byte >> 1
            at += 1
        elif (second := block[at + 1]) < 0x80:
            length = (second << 6) | (byte & 0x7F) >> 1
            at += 2
        else:
            length, at = decode_varint(block, at)
        end = at + length
        at += 1  # attributes
        while block[at] >= 0x80:  # timestamp delta
            at += 1
        byte = block[at + 1]
        if byte < 0x80:
            note_delta(byte >> 1)
            at += 2
        elif (second := block[at + 2]) < 0x80:
            note_delta((second << 6) | (byte & 0x7F) >> 1)
            at += 3
        else:
            delta, at = decode_varint(block, at + 1)
            note_delta(delta)
        byte = block[at]
        if byte >= 0x80:
            key_length, at = decode_varint(block, at)
        else:
            key_length = byte >> 1 ^ -(byte & 1)
            at += 1
        if key_length < 0:
            note_key(None)
        else:
            note_key(block[at : at + key_length])
            at += key_length
        if at + 1 >= end:  # neither length of a value nor number of headers
            raise DecodeError(f"its key goes beyond its {length} bytes")
        if block[at] == 1:
            batch.without_value.append(index)
        at = end
        note_end(at)
    return at


# --- what stays ---


@dataclass(slots=True)
class StayingRecords:
    """The records of a batch that stay: where each lies in `block`."""

    block: bytes
    spans: list[tuple[int, int]]
    has_marker: bool
    """Whether one of them is a delete marker."""


def find_records(buffer: Buffer, position: int, header: BatchHeader, numbers: Sequence[int]) -> StayingRecords:
    """Find the records with these rising numbers, at least one, in a batch that `read_keys` has read before. Raises
    InvalidBatch."""
    block, at, _ = _records_block(buffer, position, header)
    staying = StayingRecords(block, [], has_marker=False)
    wanted = iter(numbers)
    number = next(wanted)
    try:
        for index in range(numbers[-1] + 1):
            start = at
            byte = block[at]
            if byte < 0x80:
                at += 1 + (byte >> 1)
            elif (second := block[at + 1]) < 0x80:
                at += 2 + ((second << 6) | (byte & 0x7F) >> 1)
            else:
                length, at = decode_varint(block, at)
                at += length
            if index == number:
                staying.spans.append((start, at))
                if _has_no_value(block, start):
                    staying.has_marker = True
                number = next(wanted, -1)
    except (DecodeError, IndexError) as error:
        raise broken_record(len(staying.spans), str(error)) from error
    return staying


def _has_no_value(block: bytes, start: int) -> bool:
    """Whether the record at `start` is a delete marker."""
    at = start
    while block[at] >= 0x80:  # length
        at += 1
    at += 2  # its last byte, attributes
    while block[at] >= 0x80:  # timestamp delta
        at += 1
    at += 1
    while block[at] >= 0x80:  # offset delta
        at += 1
    key_length, at = decode_varint(block, at + 1)
    return block[at + max(key_length, 0)] == 1


# --- one batch ---


class CleaningOutcome(Enum):
    """What happens to a batch."""

    COPIED = auto()
    REBUILT = auto()
    EMPTIED = auto()
    DROPPED = auto()


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result for one batch. `content` is the rebuilt batch, empty when it is copied or dropped."""

    fate: CleaningOutcome
    records_kept: int
    content: bytes = b""


class BatchCleaner:
    """Cleans the batches of one log, in order.

    `now_ms` and `delete_retention_ms` set the delete horizon of batches that have none.
    """

    __slots__ = ("_delete_retention_ms", "_map", "_now_ms", "keeps_old_markers", "latest", "transactions")

    def __init__(self, offset_map: OffsetMap, *, now_ms: int, delete_retention_ms: int) -> None:
        self._map = offset_map
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self.keeps_old_markers = True
        """Whether delete markers of formats before v2 stay; it depends on the segment that is being cleaned."""
        self.latest: LatestOffsets | None = None
        """The latest records of the dirty part; None when they are found by their keys."""
        self.transactions = CleanedTransactions()

    def clean(
        self, buffer: Buffer, position: int, header: BatchHeader, active_producers: Mapping[int, LastRecord]
    ) -> Cleaned:
        """Clean the batch at `position`, whole in `buffer`. Raises InvalidBatch."""
        if header.magic < MAGIC_V2:
            return self._clean_messages(buffer, position, header)
        is_last_of_producer = _is_last_of_producer(header, active_producers)
        if header.is_control:
            can_go = self.transactions.on_marker(buffer, position, header)
            if can_go and header.has_delete_horizon and header.base_timestamp <= self._now_ms:
                return _without_records(header, is_last_of_producer)
            if not header.records_count:
                return _without_records(header, is_last_of_producer)
            if can_go and not header.has_delete_horizon:
                batch = read_keys(buffer, position, header)
                spans = _spans(batch, range(len(batch.ends)))
                return self._rebuild(header, StayingRecords(batch.block, spans, has_marker=False))
            return Cleaned(CleaningOutcome.COPIED, header.records_count)
        if self.transactions.on_data(header) or not header.records_count:
            return _without_records(header, is_last_of_producer)
        staying = self._staying(buffer, position, header)
        if staying is None:
            return _without_records(header, is_last_of_producer)
        count = len(staying.spans)
        if staying.has_marker and not header.has_delete_horizon:
            return self._rebuild(header, staying)
        if count == header.records_count:
            return Cleaned(CleaningOutcome.COPIED, count)
        return Cleaned(CleaningOutcome.REBUILT, count, rebuild_batch(header, staying.block, staying.spans))

    def _staying(self, buffer: Buffer, position: int, header: BatchHeader) -> StayingRecords | None:
        """Find the records of a data batch that stay, by their offsets where these are known, else by their keys. None: no
        record stays. Raises InvalidBatch."""
        if self.latest is not None and self.latest.know(header) and not header.has_delete_horizon:
            numbers = self.latest.numbers_in(header)
            return find_records(buffer, position, header, numbers) if numbers else None
        batch = read_keys(buffer, position, header)
        kept = self._kept(header, batch)
        if not kept:
            return None
        has_marker = bool(batch.without_value) and not set(batch.without_value).isdisjoint(kept)
        return StayingRecords(batch.block, _spans(batch, kept), has_marker)

    def _clean_messages(self, buffer: Buffer, position: int, header: BatchHeader) -> Cleaned:
        """Clean a message, or a compressed set, of a format before v2: these have no producers and delete horizons, so the time
        of the segment decides how long delete markers stay."""
        records = list(iter_any_records(buffer, position, header, MAX_LOADED_BYTES))
        covered_offset = self._map.latest_offset
        latest = self._map.latest([record.key for record in records])
        kept = [
            record
            for record, latest_offset in zip(records, latest, strict=True)
            if record.offset > covered_offset
            or (
                record.key is not None
                and record.offset >= latest_offset
                and (record.value is not None or self.keeps_old_markers)
            )
        ]
        if not kept:
            return Cleaned(CleaningOutcome.DROPPED, 0)
        if len(kept) == len(records):
            return Cleaned(CleaningOutcome.COPIED, len(kept))
        append_time_ms = header.max_timestamp if header.is_log_append_time else None
        content = encode_message_set(
            kept, header.magic, compression=header.compression, log_append_time_ms=append_time_ms
        )
        return Cleaned(CleaningOutcome.REBUILT, len(kept), content)

    def _kept(self, header: BatchHeader, batch: BatchKeys) -> list[int]:
        """Return which records stay."""
        base_offset, covered_offset = header.base_offset, self._map.latest_offset
        if base_offset > covered_offset:
            return list(range(len(batch.ends)))
        latest = self._map.latest(batch.keys)
        kept = [
            index
            for index, (delta, key, latest_offset) in enumerate(zip(batch.deltas, batch.keys, latest, strict=True))
            if (base_offset + delta >= latest_offset and key is not None) or base_offset + delta > covered_offset
        ]
        if batch.without_value and header.has_delete_horizon and header.base_timestamp <= self._now_ms:
            expired = {index for index in batch.without_value if base_offset + batch.deltas[index] <= covered_offset}
            kept = [index for index in kept if index not in expired]
        return kept

    def _rebuild(self, header: BatchHeader, staying: StayingRecords) -> Cleaned:
        """Rebuild the batch from the records that stay, with a delete horizon that begins now."""
        horizon_ms = self._now_ms + self._delete_retention_ms
        content = rebuild_batch(header, staying.block, staying.spans, delete_horizon_ms=horizon_ms)
        return Cleaned(CleaningOutcome.REBUILT, len(staying.spans), content)


def _is_last_of_producer(header: BatchHeader, active_producers: Mapping[int, LastRecord]) -> bool:
    """Whether the batch is the only one with its producer's last sequence number, or at least its epoch."""
    last = active_producers.get(header.producer_id) if header.has_producer_id else None
    if last is None:
        return False
    if last.last_data_offset is not None:
        return header.last_offset == last.last_data_offset
    return header.is_control and header.producer_epoch == last.producer_epoch


def _without_records(header: BatchHeader, is_last_of_producer: bool) -> Cleaned:
    return (
        Cleaned(CleaningOutcome.EMPTIED, 0, empty_batch(header))
        if is_last_of_producer
        else Cleaned(CleaningOutcome.DROPPED, 0)
    )


def _spans(batch: BatchKeys, kept: Iterable[int]) -> list[tuple[int, int]]:
    """Return (start, end) in the block of each record that stays."""
    ends, start = batch.ends, batch.start
    return [(ends[index - 1] if index else start, ends[index]) for index in kept]
