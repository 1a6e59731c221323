"""What a partition knows of its producers: sequence numbers already seen, epochs, open transactions. Pure.

    producer 7, epoch 2: batches [40..44] [45..45] [46..51] (sequences), last offset 1203, transaction open since 1180

A producer's batches must follow each other without a gap; one of the last five sent again is a duplicate, and is
answered with the offsets of the first time. A producer that is not known (its records are gone, or it has been idle for
too long) may begin anywhere; a new epoch begins at sequence 0. After 2**31 - 1 comes 0.

Rules: pure. `check` changes nothing; `apply` follows once the batch has its offsets. Recovery, loading and followers
`replay` what a leader has accepted, without checks.
Invariants: at most five batches a producer; an open transaction keeps its producer from expiring;
`first_unstable_offset` never falls, except by truncation (which loads the state anew).
Source: KIP-98, KIP-360 (unknown producers), KIP-854 (expiry), KIP-890 (late markers); Kafka ProducerStateManager,
ProducerAppendInfo, ProducerStateEntry. The snapshot is Kafka's file format, version 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from protocol.crc32c import crc32c
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import Buffer
from protocol.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    advance_sequence,
    rewind_sequence,
)
from protocol.records.control import ControlType, EndTxnMarker, read_marker
from storage.segments.txn_index import AbortedTxn

BATCHES_KEPT = 5
NO_OFFSET = -1
NO_LIMIT = 2**31 - 1
NO_COORDINATOR_EPOCH = -1
EPOCH_MAX = 2**15 - 1
LATE_TRANSACTION_BUFFER_MS = 5 * 60 * 1000

_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = Struct(">hIi")  # version, CRC-32C of everything behind it, entries
_CRC_END = 6
# producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, current_txn_first_offset
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")


class CorruptSnapshot(ValueError):
    """The snapshot file is damaged, or of a version that is not known."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A batch as it was appended the first time; `timestamp` is its largest."""

    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    is_aborted: bool


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """One row of DescribeProducers. -1 for unknown values."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class ProducerStateEntry:
    """The state of one producer. `batches` is flat to be small: last sequence, last offset, offset delta, timestamp of each."""

    __slots__ = ("batches", "coordinator_epoch", "current_txn_first_offset", "epoch", "last_timestamp")

    def __init__(self, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.epoch = epoch
        self.batches: tuple[int, ...] = ()
        self.last_timestamp = NO_TIMESTAMP
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.current_txn_first_offset = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-4] if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the last batch's last record; NO_OFFSET without one."""
        return self.batches[-3] if self.batches else NO_OFFSET

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.current_txn_first_offset == NO_OFFSET and now_ms - self.last_timestamp >= expiration_ms

    def find(self, first_sequence: int, last_sequence: int) -> Duplicate | None:
        batches = self.batches
        for at in range(0, len(batches), 4):
            last, last_offset, offset_delta, timestamp = batches[at : at + 4]
            if last == last_sequence and rewind_sequence(last, offset_delta) == first_sequence:
                return Duplicate(last_offset - offset_delta, last_offset, timestamp)
        return None

    def move_to_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches = ()
            self.epoch = epoch

    def remember(self, before: ProducerStateEntry) -> None:
        """Prepend the batches of `before`, a later state of the same log, that precede our first one."""
        batches, known = self.batches, before.batches
        if self.epoch != before.epoch:
            return
        for at in range(0, len(known), 4):
            if known[at : at + 3] == batches[:3]:  # the timestamp may be missing in a snapshot
                self.batches = (*known[:at], *batches)[-4 * BATCHES_KEPT :]
                return

    def recall(self, known: ProducerStateEntry) -> None:
        """Take over the newest timestamp and coordinator epoch of `known`, up to the newest marker that both may have."""
        self.epoch, self.batches = known.epoch, known.batches
        self.last_timestamp = max(self.last_timestamp, known.last_timestamp)
        self.coordinator_epoch = max(self.coordinator_epoch, known.coordinator_epoch)

    def add_batch(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        kept = self.batches if len(self.batches) < 4 * BATCHES_KEPT else self.batches[4:]
        self.batches = (*kept, last_sequence, last_offset, offset_delta, timestamp)
        self.last_timestamp = timestamp


class ProducerStates:
    """The producers of one partition. Owner: its log. Beyond `keep_at_most` those are forgotten that have appended nothing for
    the longest, an eighth at a time, but for those with open transactions: clients may have any number of producer ids."""

    __slots__ = ("_ongoing", "_states", "_unreplicated", "keep_at_most")

    def __init__(self, keep_at_most: int = NO_LIMIT) -> None:
        self.keep_at_most = keep_at_most
        self._states: dict[int, ProducerStateEntry] = {}
        # First offset of each open transaction -> its producer: grows at the end, so the first key is the smallest.
        self._ongoing: dict[int, int] = {}
        # First offset of each ended transaction whose marker is not replicated yet -> the marker's offset.
        self._unreplicated: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._states

    def describe(self) -> Iterator[ProducerDescription]:
        """Yield the producers known at the call, each in its state when it is yielded: there may be many."""
        for producer_id, state in list(self._states.items()):
            yield ProducerDescription(
                producer_id, state.epoch, state.last_sequence, state.last_timestamp, state.coordinator_epoch,
                state.current_txn_first_offset,
            )  # fmt: skip

    def last_records(self) -> Iterator[tuple[int, int | None, int]]:
        """Yield (producer, offset of the last record of its last batch, None without one, epoch) of each."""
        for producer_id, state in self._states.items():
            yield producer_id, state.last_offset if state.batches else None, state.epoch

    # --- appending as leader ---

    def check(self, header: BatchHeader, *, is_client: bool = True) -> Duplicate | None:
        """Check whether a batch may be appended now. Returns None when it may, or how the same batch was appended before.

        Only the epoch of a coordinator's batch is checked. Raises OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
        INVALID_TXN_STATE.
        """
        if not header.has_producer_id:
            return None
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        if is_client and header.producer_epoch == state.epoch:
            duplicate = state.find(header.base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
        if header.producer_epoch < state.epoch:
            raise _old_epoch(header.producer_id, header.producer_epoch, state.epoch)
        if is_client:
            _check_sequence(state, header)
        if state.current_txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"Expected transactional write from producer {header.producer_id}"
            )
        return None

    def check_marker(self, header: BatchHeader, marker: EndTxnMarker) -> None:
        """Check whether the transaction coordinator may write this marker.

        Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        state = self._states.get(header.producer_id)
        if state is None:
            return
        if header.producer_epoch < state.epoch:
            raise _old_epoch(header.producer_id, header.producer_epoch, state.epoch)
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {header.producer_id}: {marker.coordinator_epoch} (zombie), "
                f"{state.coordinator_epoch} (current)",
            )

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Check that the producer has not gone on to a later epoch. Raises INVALID_PRODUCER_EPOCH."""
        state = self._states.get(producer_id)
        if state is not None and producer_epoch < state.epoch:
            raise _old_epoch(producer_id, producer_epoch, state.epoch)

    def check_marker_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Check that a marker whose transaction raises the epoch ends no later transaction: its epoch is above that of the
        records which it ends. The same marker may come again as long as nothing was written since. The last epoch of all
        is no producer's, so that its marker ends the transaction of the epoch before in any case.
        Raises INVALID_PRODUCER_EPOCH."""
        state = self._states.get(producer_id)
        if state is None or producer_epoch > state.epoch:
            return
        is_repeated = state.current_txn_first_offset == NO_OFFSET or producer_epoch == EPOCH_MAX
        if producer_epoch < state.epoch or not is_repeated:
            raise _old_epoch(producer_id, producer_epoch, state.epoch)

    def apply(self, header: BatchHeader, base_offset: int) -> None:
        """Note a data batch at its place in the log: [base_offset, base_offset + last_offset_delta]."""
        if not header.has_producer_id:
            return
        state = self._state(header.producer_id)
        state.move_to_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        state.add_batch(header.last_sequence, base_offset + delta, delta, header.max_timestamp)
        if header.is_transactional and state.current_txn_first_offset == NO_OFFSET:
            state.current_txn_first_offset = base_offset
            self._ongoing[base_offset] = header.producer_id

    def apply_marker(self, header: BatchHeader, marker: EndTxnMarker, offset: int) -> CompletedTransaction | None:
        """Note a marker at `offset`. Returns the transaction that it ends, None when that has no records."""
        state = self._state(header.producer_id)
        first_offset = state.current_txn_first_offset
        state.move_to_epoch(header.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = marker.timestamp
        state.current_txn_first_offset = NO_OFFSET
        if first_offset == NO_OFFSET:
            return None
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = offset
        return CompletedTransaction(header.producer_id, first_offset, offset, marker.type is ControlType.ABORT)

    def replay(self, buffer: Buffer, position: int, header: BatchHeader) -> CompletedTransaction | None:
        """Note a batch of a log, data or control, without checks. Raises InvalidBatch."""
        if not header.has_producer_id:
            return None
        if not header.is_control:
            self.apply(header, header.base_offset)
            return None
        marker = read_marker(buffer, position, header)
        return None if marker is None else self.apply_marker(header, marker, header.base_offset)

    def _state(self, producer_id: int) -> ProducerStateEntry:
        state = self._states.get(producer_id)
        if state is None:
            if len(self._states) >= self.keep_at_most:
                self._forget_longest_silent()
            state = self._states[producer_id] = ProducerStateEntry()
        return state

    def _forget_longest_silent(self) -> None:
        silent = [
            (state.last_offset, producer_id)
            for producer_id, state in self._states.items()
            if state.current_txn_first_offset == NO_OFFSET
        ]
        excess = len(self._states) - self.keep_at_most
        for _, producer_id in sorted(silent)[: excess + max(self.keep_at_most // 8, 1)]:
            del self._states[producer_id]

    # --- transactions ---

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has written in a transaction of this epoch that no marker has ended."""
        state = self._states.get(producer_id)
        return state is not None and state.current_txn_first_offset != NO_OFFSET and producer_epoch <= state.epoch

    def find_duplicate(self, header: BatchHeader) -> Duplicate | None:
        """How the same batch was appended before."""
        state = self._states.get(header.producer_id)
        if state is None or header.producer_epoch != state.epoch:
            return None
        return state.find(header.base_sequence, header.last_sequence)

    def has_late_transaction(self, now_ms: int, max_timeout_ms: int) -> bool:
        """Whether the earliest open transaction hangs: its coordinator should have ended it long ago, and read_committed
        consumers wait behind it. `max_timeout_ms` is `transaction.max.timeout.ms`."""
        producer_id = next(iter(self._ongoing.values()), None)
        if producer_id is None:
            return False
        last_ms = self._states[producer_id].last_timestamp
        return last_ms > 0 and now_ms - last_ms > max_timeout_ms + LATE_TRANSACTION_BUFFER_MS

    @property
    def has_transactions(self) -> bool:
        """Whether any transaction is open, or ended by a marker that is not replicated yet."""
        return bool(self._ongoing or self._unreplicated)

    @property
    def first_undecided_offset(self) -> int | None:
        """The start of the earliest transaction without a marker."""
        return next(iter(self._ongoing), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the earliest transaction whose marker is missing or not replicated yet; None without any."""
        ongoing, unreplicated = next(iter(self._ongoing), None), min(self._unreplicated, default=None)
        if ongoing is None or unreplicated is None:
            return unreplicated if ongoing is None else ongoing
        return min(ongoing, unreplicated)

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """Return the offset below which everything was decided when `completed` ended."""
        return next(iter(self._ongoing), completed.last_offset + 1)

    def aborted(self, completed: CompletedTransaction) -> AbortedTxn:
        """Return the entry of the transaction index for a transaction that was aborted just now."""
        assert completed.is_aborted
        return AbortedTxn(
            completed.producer_id, completed.first_offset, completed.last_offset, self.last_stable_offset(completed)
        )

    def on_high_watermark(self, high_watermark: int) -> None:
        """Note that markers below `high_watermark` are replicated."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}

    # --- forgetting ---

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been idle for `producer.id.expiration.ms`; returns how many."""
        expired = [key for key, state in self._states.items() if state.is_expired(now_ms, expiration_ms)]
        for producer_id in expired:
            del self._states[producer_id]
        return len(expired)

    # --- snapshots ---

    def remember(self, before: ProducerStates) -> None:
        """Add what snapshots lack to these states, which were rebuilt from the files after a truncation. `before` are the
        states until then: they have, of each producer, the batches before the last one, which may still be retried."""
        for producer_id, state in self._states.items():
            known = before._states.get(producer_id)
            if known is not None:
                state.remember(known)

    def recall(self, before: ProducerStates, end_offset: int) -> bool:
        """Take over producers from `before`, of a log with the same records up to `end_offset`, whose last batches were
        compacted away there: only snapshots have them, though a marker or an older batch may remain. Returns whether there were
        any. What `before` knows of records behind the end is ignored."""
        has_recalled = False
        for producer_id, known in before._states.items():
            own = self._states.get(producer_id)
            if own is not None and (own.epoch > known.epoch or own.last_offset >= known.last_offset):
                continue
            if 0 <= known.last_offset < end_offset:
                self._state(producer_id).recall(known)
                has_recalled = True
        return has_recalled

    def to_snapshot(self) -> bytes:
        """Encode the content of a `.snapshot` file, with the last batch of each producer."""
        entries = [_SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, 0, len(self._states))]
        for producer_id, state in self._states.items():
            last_sequence, last_offset, offset_delta, _ = state.batches[-4:] or (NO_SEQUENCE, NO_OFFSET, 0, 0)
            entries.append(
                _SNAPSHOT_ENTRY.pack(
                    producer_id, state.epoch, last_sequence, last_offset, offset_delta, state.last_timestamp,
                    state.coordinator_epoch, state.current_txn_first_offset,
                )
            )  # fmt: skip
        content = bytearray(b"".join(entries))
        content[2:_CRC_END] = crc32c(memoryview(content)[_CRC_END:]).to_bytes(4, "big")
        return bytes(content)

    @classmethod
    def from_snapshot(
        cls, content: bytes, *, now_ms: int | None = None, expiration_ms: int | None = None
    ) -> ProducerStates:
        """Decode a `.snapshot` file. Expired producers are dropped when both times are given. Raises CorruptSnapshot."""
        states = cls()
        ongoing: dict[int, int] = {}
        for row in snapshot_rows(content):
            producer_id, epoch, *last_batch, timestamp, coordinator_epoch, first_offset = row
            last_sequence, last_offset, offset_delta = last_batch
            state = ProducerStateEntry(epoch)
            if last_offset >= 0:
                state.add_batch(last_sequence, last_offset, offset_delta, timestamp)
            state.last_timestamp = timestamp
            state.coordinator_epoch = coordinator_epoch
            state.current_txn_first_offset = first_offset if first_offset >= 0 else NO_OFFSET
            if now_ms is not None and expiration_ms is not None and state.is_expired(now_ms, expiration_ms):
                continue
            states._states[producer_id] = state
            if first_offset >= 0:
                ongoing[first_offset] = producer_id
        states._ongoing = dict(sorted(ongoing.items()))
        return states


class _NoProducers(ProducerStates):
    """The type of `NO_PRODUCERS`, which refuses changes."""

    __slots__ = ()

    def _state(self, producer_id: int) -> ProducerStateEntry:
        raise AssertionError(f"producer {producer_id} is to be noted in a log of its own")


NO_PRODUCERS: ProducerStates = _NoProducers()
"""Shared by all logs without producers, which most logs are. It cannot be changed."""


def snapshot_rows(content: bytes) -> list[tuple[int, ...]]:
    """Decode the producers of a `.snapshot` file, with the columns of `_SNAPSHOT_ENTRY`. Raises CorruptSnapshot."""
    try:
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
    except StructError as error:
        raise CorruptSnapshot(f"{len(content)} bytes are no snapshot") from error
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"snapshot version {version} is not known")
    if crc32c(memoryview(content)[_CRC_END:]) != crc:
        raise CorruptSnapshot(f"its CRC is not {crc}")
    if len(content) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{len(content)} bytes do not hold {count} producers")
    return list(_SNAPSHOT_ENTRY.iter_unpack(memoryview(content)[_SNAPSHOT_HEAD.size :]))


def _old_epoch(producer_id: int, producer_epoch: int, last_epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Epoch of producer {producer_id} is {producer_epoch}, "
        f"which is {'the' if producer_epoch == last_epoch else 'smaller than the'} last seen epoch {last_epoch}",
    )


def _check_sequence(state: ProducerStateEntry, header: BatchHeader) -> None:
    if state.epoch == NO_PRODUCER_EPOCH:
        return
    first = header.base_sequence
    if header.producer_epoch != state.epoch:
        if first != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {header.producer_id}: {header.producer_epoch} "
                f"(request epoch), {first} (seq. number), {state.epoch} (current producer epoch)",
            )
    elif first != (advance_sequence(state.last_sequence, 1) if state.batches else 0):
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {header.producer_id}: {first} (incoming seq. number), "
            f"{state.last_sequence} (current end sequence number)",
        )
