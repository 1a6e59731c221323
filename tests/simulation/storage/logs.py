"""One log that is written to, and what must be left of it: the model at the side of each `PartitionLog` of a life."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from protocol.errors import KafkaError
from protocol.records.batch import BatchHeader, iter_headers
from protocol.records.control import ControlType, EndTxnMarker, decode_marker, encode_marker
from protocol.records.record import Record, encode_batch, iter_records
from protocol.topic_partition import TopicPartition
from runtime.disk.filesystem import Buffer
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_fully_and_start_at, truncate_to
from tests.simulation.storage.model import Expected, Found, History, Kind, Written

PRODUCER_ID = 9
TRANSACTIONAL_IDS = (20, 21)
KEYS = tuple(f"k{number}".encode() for number in range(5))
MAX_RECORD_BYTES = 1 << 20


@dataclass(slots=True)
class Logged:
    """A log of this life. `inherited`: what is promised until the log was opened and looked at. `before`: what it held
    before it was cut, or with what a full disk has refused, as long as a start may find that."""

    key: TopicPartition
    is_compacted: bool
    log: PartitionLog | None = None
    inherited: Expected | None = None
    records: list[Written] = field(default_factory=list)
    before: History | None = None
    is_going: bool = False
    failures: list[str] = field(default_factory=list)
    epoch: int = 0
    committed: int = 0
    topic_id: bytes = b""
    deleted_to: int = 0
    """The largest start that the log has had: a crash may take it back, and a copy in another directory may know it still."""
    in_place: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the log is cut, deleted, or gives way to its copy."""

    # --- what is promised ---

    def expected(self) -> Expected:
        log = self.log
        if log is None or self.inherited is not None:
            assert self.inherited is not None
            return self.inherited
        histories = [tuple(self.records)]
        if self.before is not None:
            histories.append(self.before)
        return Expected(
            tuple(histories),
            start=max(log.log_start_offset, self.deleted_to),
            written_end=log.log_end_offset,
            durable_end=log.offsets.recovery_point,
            is_compacted=self.is_compacted,
            may_be_gone=self.is_going,
            topic_id=self.topic_id,
            epoch=self.epoch,
        )

    def opened(self, log: PartitionLog, history: History) -> None:
        """It was found to hold what it had to: a beginning of `history`."""
        assert self.inherited is not None
        self.epoch, self.deleted_to = self.inherited.epoch + 1, self.inherited.start
        self.log, self.inherited = log, None
        self.records = [record for record in history if record.offset < log.log_end_offset]
        self.committed = log.log_end_offset

    @property
    def is_settled(self) -> bool:
        """Nothing is on its way, refused, or kept in memory."""
        log = self.log
        return log is not None and not log.is_halted and log.log_end_offset == log.offsets.next_offset

    # --- what is done ---

    def append(self, rng: Random, now_ms: int) -> None:
        """As a client does. Raises KafkaError."""
        self._append_data(rng, now_ms, PRODUCER_ID if rng.random() < 0.5 else -1, Kind.PLAIN)

    def transact(self, rng: Random, now_ms: int) -> None:
        """A piece of a transaction, or its end. Raises KafkaError."""
        assert self.log is not None
        producer = rng.choice(TRANSACTIONAL_IDS)
        if not self.log.producers.states.has_open_transaction(producer, 0) or rng.random() < 0.4:
            self._append_data(rng, now_ms, producer, Kind.TRANSACTIONAL)
            return
        is_aborted = rng.random() < 0.5
        marker = EndTxnMarker(ControlType.ABORT if is_aborted else ControlType.COMMIT, 0, now_ms)
        content = encode_marker(marker, producer_id=producer, producer_epoch=0)
        self._append(content, AppendOrigin.COORDINATOR, now_ms)

    def _append_data(self, rng: Random, now_ms: int, producer: int, kind: Kind) -> None:
        assert self.log is not None
        content = encode_batch(
            [self._record(rng, now_ms, at) for at in range(rng.randint(1, 3))],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=last_sequences(self.log).get(producer, -1) + 1 if producer >= 0 else -1,
            is_transactional=kind is Kind.TRANSACTIONAL,
        )
        self._append(content, AppendOrigin.CLIENT, now_ms)

    def copy(self, rng: Random, now_ms: int) -> None:
        """Batches as their leader has them, which has compacted its log, too. Raises KafkaError."""
        assert self.log is not None
        content, offset = b"", self.log.offsets.next_offset
        for _ in range(rng.randint(1, 4)):
            if self.is_compacted and rng.random() < 0.4:
                offset += rng.choice((1, 7))
            records = [self._record(rng, now_ms, at) for at in range(rng.randint(1, 3))]
            content += encode_batch(records, base_offset=offset, partition_leader_epoch=self.epoch)
            offset += len(records)
        # Each of them may be there before the append has returned, and the first ones when it was refused in the middle.
        before, self.records = self.records, self.records + records_in(content)
        try:
            self._append(content, AppendOrigin.REPLICA, now_ms)
        except KafkaError:
            if self.log.is_halted:
                self.before = self.before or tuple(self.records)
            self.records = before
            raise

    def _append(self, content: bytes, origin: AppendOrigin, now_ms: int) -> None:
        log = self.log
        assert log is not None
        if not log.is_halted and not self.in_place.locked():
            self.before = None  # what was refused has been cut off
        placed: list[Written] = []
        batches = bytearray(content)
        result = log.append(
            batches,
            leader_epoch=self.epoch,
            origin=origin,
            now_ms=now_ms,
            done=lambda error: None if error is None else self._on_refused(placed, error),
        )
        if result.duplicate:
            self._check_duplicate(records_in(batches)[0], result.base_offset)
            return
        placed += records_in(batches, result.base_offset)
        self.records = [record for record in self.records if record.offset < result.base_offset] + placed

    def _check_duplicate(self, first: Written, offset: int) -> None:
        """A producer that was forgotten with its records has begun anew, and an older snapshot knows its first life again."""
        known = {(each.offset, each.producer, each.sequence) for each in self.records}
        assert (offset, first.producer, first.sequence) in known, f"{first} is no duplicate of what is at {offset}"

    def _on_refused(self, placed: list[Written], error: Exception) -> None:
        """They may be there, all the same, until the log is mended."""
        self.failures.append(str(error))
        if placed:
            self.before = self.before or tuple(self.records)
            self.records = [record for record in self.records if record.offset < placed[0].offset]

    def _record(self, rng: Random, now_ms: int, at: int) -> Record:
        value = f"{self.key[0]} {len(self.records) + at} {rng.getrandbits(32)} ".encode() + b"x" * rng.choice(
            (0, 5, 60)
        )
        is_marker = self.is_compacted and rng.random() < 0.2
        return Record(at, now_ms, rng.choice(KEYS), None if is_marker else value)

    async def cut(self, offset: int) -> None:
        """Raises KafkaError: then it may be cut or not, until the log is mended."""
        log = self.log
        assert log is not None
        await log.await_appends()
        before = self._remember()
        self.records = [record for record in self.records if record.offset < offset]
        try:
            await truncate_to(log, offset)
        except KafkaError:
            self.records = [record for record in before if record.offset < log.log_end_offset]
            raise
        self.before, self.deleted_to = None, min(self.deleted_to, offset)
        assert log.log_end_offset == offset or not self.records

    def _remember(self) -> History:
        """Of a log that has halted a start may find what was refused."""
        before = tuple(self.records)
        assert self.log is not None
        if self.before is None or not self.log.is_halted:
            self.before = before
        return before

    async def restart(self, offset: int) -> None:
        """Raises KafkaError, see `cut`."""
        log = self.log
        assert log is not None
        await log.await_appends()
        before = self._remember()
        self.records = []
        try:
            await truncate_fully_and_start_at(log, offset)
        except KafkaError:
            if (log.log_start_offset, log.log_end_offset) != (offset, offset):  # which may be where it ended
                self.records = list(before)
            raise
        self.before, self.deleted_to = None, offset

    def batch_starts(self) -> list[int]:
        """Where batches begin, which is where followers cut: never below what is committed in a log whose older values
        may be gone because of it."""
        assert self.log is not None
        first = self.committed if self.is_compacted else self.log.log_start_offset
        return sorted({record.batch for record in self.records if record.batch >= first and not record.is_lost})

    def commit(self) -> None:
        """Everything that is written."""
        assert self.log is not None
        self.committed = self.log.log_end_offset
        self.log.commit(self.committed)


def last_sequences(log: PartitionLog) -> dict[int, int]:
    """By producer; -1 of one that is known by a marker alone."""
    return {state.producer_id: state.last_sequence for state in log.producers.states.describe()}


async def found_in(log: PartitionLog) -> Found:
    """Everything that can be read of it. All of it counts as committed."""
    records: list[Written] = []
    log.commit(log.log_end_offset)
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        content = await _read(log, offset)
        batches = list(iter_headers(content))
        if not batches:
            break
        records += [record for record in records_in(content) if record.offset >= offset]
        offset = batches[-1][1].next_offset
    aborted = await log.reading.aborted_transactions(log.log_start_offset, log.log_end_offset)
    start = log.log_start_offset  # which retention may have moved meanwhile
    records = [record for record in records if record.offset >= start]
    return Found(
        start,
        log.log_end_offset,
        tuple(records),
        last_sequences(log),
        aborted,
        log.producers.states.first_unstable_offset,
    )


def records_in(content: Buffer, base_offset: int | None = None) -> list[Written]:
    """Of whole batches; `base_offset`: where the first one stands, if it does not say so itself."""
    found: list[Written] = []
    for position, header in iter_headers(content):
        for record in iter_records(content, position, header, MAX_RECORD_BYTES):
            at = record.offset - header.base_offset
            found.append(
                Written(
                    record.offset,
                    header.base_offset,
                    record.key or b"",
                    record.value,
                    header.partition_leader_epoch,
                    header.base_sequence + at if header.base_sequence >= 0 else -1,
                    header.producer_id,
                    _kind(header, record),
                )
            )
    assert base_offset is None or not found or found[0].offset == base_offset
    return found


def _kind(header: BatchHeader, record: Record) -> Kind:
    if not header.is_control:
        return Kind.TRANSACTIONAL if header.is_transactional else Kind.PLAIN
    marker = decode_marker(record)
    return Kind.ABORT if marker is not None and marker.type is ControlType.ABORT else Kind.COMMIT


async def _read(log: PartitionLog, offset: int) -> bytes:
    limit_offset = log.log_end_offset
    content = log.reading.read(offset, limit_offset=limit_offset, max_bytes=4_000, at_least_one=True)
    if content is None:
        content = await log.reading.read_cold(offset, limit_offset=limit_offset, max_bytes=4_000, at_least_one=True)
    return bytes(content)
