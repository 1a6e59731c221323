"""What one share group has in flight of one partition: who may read which records, and what was said of them. Pure.

              acquire               ACCEPT, or REJECT, GAP, the last delivery
    available -------> acquired --------------------------------------------> acknowledged, archived
        ^                 |
        +- RELEASE, lock expired, session closed -+

    start offset       end offset
         v                 v
    done | done, acquired, available (runs.py) | not yet read

Rules: a change that a member asks for is pending until it is stored: its records can neither be acquired nor acknowledged, and
`ShareChange.failed` takes it back. That a lock expired holds at once, whether it is stored or not. What was only acquired, or
archived since the log begins later, is not stored. A record that was delivered as often as the limit says is archived instead
of made available. The start offset moves behind records that are done and stored.
Records close to the limit are acquired by fewer at a time, in the end one by one, so that a record at which clients break does
not take its neighbours along.
After a load there may be gaps between stored batches: they were acquired, and are read again ("gap window"), until something
behind the last stored batch is acquired.
Invariants: nothing in flight is before the start offset. The offsets in flight are at most `max_record_locks` and the rest of
one record batch. `delivery_complete_count` is the number of records in flight that are done, pending ones included.
The caller looks at `next_deadline_ms` and `next_fetch_offset` after each operation, also after the outcome of a change.
Source: KIP-932, KIP-1206, KIP-1222, KIP-1226; Kafka SharePartition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.share_states import AcknowledgeType, DeliveryState, ShareAcquireMode, StateBatch
from replication.sharing.acknowledgements import STATE_OF_TYPE, AckBatch, ranges_of_types
from replication.sharing.runs import InFlight, InFlightBatch, OffsetRun

_last = attrgetter("last")

MIN_THROTTLED_DELIVERIES = 2
# So many batches of acknowledgements are looked at, whatever they say.
FEW_BATCHES = 1_000

NOT_ACQUIRED = "The batch cannot be acknowledged. The batch is not in the acquired state."
OFFSET_NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."
NOT_OWNER = "Member is not the owner of batch record"
NOT_OWNER_OF_OFFSET = "Member is not the owner of offset"
NOT_FOUND = "Batch record not found. The request batch offsets are not found in the cache."
FIRST_PAST = "Batch record not found. The first offset in request is past acquired records."
LAST_PAST = "Batch record not found. The last offset in request is past acquired records."
TOO_MANY = "There are more batches than can be acquired."
NO_RENEWAL = "Renewing acquisition locks is not enabled for the group."


@dataclass(frozen=True, slots=True)
class StoredShare:
    """A share partition as the share coordinator keeps it. `start_offset` is an offset of the log: where the coordinator has
    none, the reader has resolved it."""

    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """What a group's settings allow in one partition."""

    delivery_count_limit: int
    max_record_locks: int
    can_renew: bool = True

    @property
    def throttled_deliveries(self) -> int:
        """The number of deliveries from which on fewer records are acquired at a time."""
        return max(MIN_THROTTLED_DELIVERIES, (self.delivery_count_limit + 1) // 2)


class AcquiredRange(NamedTuple):
    """A row of the answer to a fetch: offsets `first` to `last`, both included."""

    first: int
    last: int
    delivery_count: int


class ShareChange:
    """A change of states: what is to be stored of it, as it was when the change began. The caller stores `batches`, unless
    `is_empty`, and then calls `succeeded` or `failed`, once."""

    __slots__ = (
        "_is_settled",
        "_partition",
        "batches",
        "delivery_complete_count",
        "is_pending",
        "start_offset",
        "touched",
    )

    def __init__(self, partition: SharePartition, *, is_pending: bool) -> None:
        self._partition = partition
        self._is_settled = False
        self.is_pending = is_pending
        self.touched: list[InFlightBatch] = []
        self.batches: list[StateBatch] = []
        self.start_offset = partition.start_offset
        self.delivery_complete_count = partition.delivery_complete_count

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store, as when locks were only renewed."""
        return not self.batches

    def add(self, batch: InFlightBatch, run: OffsetRun) -> None:
        """Note that the state of `run`, a run of `batch`, has changed."""
        self.touch(batch)
        rows = self.batches
        if rows:
            first, last, state, delivery_count = rows[-1]
            if last + 1 == run.first and state is run.state and delivery_count == run.delivery_count:
                rows[-1] = StateBatch(first, run.last, state, delivery_count)
                return
        rows.append(StateBatch(run.first, run.last, run.state, run.delivery_count))

    def touch(self, batch: InFlightBatch) -> None:
        """Note that runs of `batch` have changed, perhaps in nothing that is stored."""
        if not self.touched or self.touched[-1] is not batch:
            self.touched.append(batch)

    def seal(self) -> ShareChange:
        """Note what is to be stored beside the batches; returns itself."""
        self.start_offset = self._partition.start_offset
        self.delivery_complete_count = self._partition.delivery_complete_count
        return self

    def succeeded(self) -> None:
        """Note that the change is stored."""
        self._settle()
        self._partition.commit(self)

    def failed(self) -> None:
        """Note that the change could not be stored: pending ones are taken back."""
        self._settle()
        if self.is_pending:
            self._partition.take_back(self)
        else:
            self._partition.commit(self)

    def _settle(self) -> None:
        if self._is_settled:
            raise AssertionError("a change has one outcome")
        self._is_settled = True


@dataclass(slots=True)
class _Acquisition:
    """One call of `acquire`: what is asked for, and what was found so far."""

    member_id: str
    fetched: Sequence[tuple[int, int]]
    last_offset: int
    max_records: int
    batch_size: int
    is_record_limit: bool
    lock_until_ms: int
    rows: list[AcquiredRange]
    count: int = 0

    @property
    def first_offset(self) -> int:
        return self.fetched[0][0]

    @property
    def missing(self) -> int:
        return self.max_records - self.count


@dataclass(slots=True)
class _GapWindow:
    """Between `start` and `end`, the last offset that was stored, there may be records that no stored batch has."""

    start: int
    end: int


class SharePartition:
    """The records in flight of one partition and share group. Owner: the partition's leader. `limits` may be replaced at any
    time, and hold from then on."""

    def __init__(self, stored: StoredShare, limits: ShareLimits) -> None:
        self.limits = limits
        self.state_epoch = stored.state_epoch
        self.start_offset = stored.start_offset
        """The first offset that may be delivered, or is in flight."""
        self.end_offset = stored.start_offset
        """The last offset in flight; the next to read if none is."""
        self.delivery_complete_count = 0
        self.acquired_count = 0
        self.given_up_count = 0
        """Records that were delivered as often as the limit says, and not accepted."""
        self._in_flight = InFlight()
        self._gaps: _GapWindow | None = None
        # Whether some may be available before the end offset: False saves the search.
        self._may_have_available = False
        # No lock ends before.
        self._deadline_ms: int | None = None
        self._expired_until_ms = -1
        self._load(stored.batches)

    def _load(self, stored: Sequence[StateBatch]) -> None:
        next_offset = self.start_offset
        gap_start: int | None = None
        for first, last, state, delivery_count in sorted(stored):
            begin = max(first, next_offset)
            if begin > last:
                continue
            if begin > next_offset and gap_start is None:
                gap_start = next_offset
            # Nobody has what was acquired from another leader.
            kept = DeliveryState.AVAILABLE if state == DeliveryState.ACQUIRED else DeliveryState(state)
            run = OffsetRun(begin, last, kept, delivery_count)
            self._in_flight.add(InFlightBatch(begin, last, [run]))
            if run.is_done:
                self.delivery_complete_count += run.count
            next_offset = last + 1
        if self._in_flight:
            self._may_have_available = True
            self.end_offset = self._in_flight.last_offset
            if gap_start is not None:
                self._gaps = _GapWindow(gap_start, self.end_offset)
            self._advance_start()

    # --- what there is ---

    @property
    def in_flight_count(self) -> int:
        """The number of offsets from the start offset to the end offset, done or not."""
        return self.end_offset - self.start_offset + 1 if self._in_flight else 0

    @property
    def in_flight_batch_count(self) -> int:
        return len(self._in_flight)

    @property
    def has_gap_window(self) -> bool:
        return self._gaps is not None and self._gaps.end == self.end_offset

    def next_fetch_offset(self) -> int:
        """Return the offset from which to read: the first available one in flight, or the one after the end offset."""
        if not self._in_flight:
            self._may_have_available = False
            return self.end_offset
        if self._may_have_available:
            gaps = self._gaps if self.has_gap_window else None
            gap_start = gaps.start if gaps is not None else -1
            for batch in self._in_flight.batches:
                if gaps is not None:
                    if batch.first > gap_start:
                        return gap_start
                    gap_start = max(batch.last + 1, gap_start)
                for run in batch.runs:
                    if run.is_available:
                        return run.first
            self._may_have_available = False
        return self.end_offset + 1

    def may_acquire(self) -> bool:
        """Return whether an acquisition can find something: there is something available in flight, or the limit of locks is
        not reached."""
        return self.next_fetch_offset() != self.end_offset + 1 or self.in_flight_count < self.limits.max_record_locks

    def wanted_end(self, fetch_offset: int, max_records: int) -> int:
        """Return the offset behind what an acquisition of `max_records` can take that reads from `fetch_offset`: what is
        available in flight, by whole batches, then what is new."""
        count = 0
        if not self.has_gap_window:
            for batch in self._in_flight.from_floor(fetch_offset, self.end_offset):
                for run in batch.runs:
                    if run.is_available and run.first >= fetch_offset:
                        count += run.last - run.first + 1
                if count >= max_records:
                    return batch.last + 1
        behind = self.end_offset + 1 if self._in_flight else self.end_offset
        return (max(fetch_offset, behind) if count else fetch_offset) + max_records - count

    def next_deadline_ms(self) -> int | None:
        """Return when `expire` is to be called, in the clock of `lock_until_ms`: no lock ends before. None: there is none."""
        return self._deadline_ms if self.acquired_count else None

    # --- acquisition ---

    def acquire(
        self,
        member_id: str,
        batches: Sequence[tuple[int, int]],
        *,
        fetch_offset: int,
        max_records: int,
        batch_size: int,
        mode: ShareAcquireMode,
        lock_until_ms: int,
    ) -> list[AcquiredRange]:
        """Acquire records for a member, of those that were read from `fetch_offset`: `batches` are the first and last offsets
        of the record batches that were read. Returns the rows of the answer.

        Without a record limit, whole record batches are acquired, although they are more than `max_records`; what is new is
        divided into rows of about `batch_size`, at the bounds of record batches."""
        if max_records <= 0 or not batches:
            return []
        self._skip_missing(fetch_offset, batches[0][0])
        last_offset, max_records = self._room(fetch_offset, max_records, batches[-1][1])
        if max_records <= 0:
            return []
        asked = _Acquisition(
            member_id, batches, last_offset, max_records, batch_size,
            mode == ShareAcquireMode.RECORD_LIMIT, lock_until_ms, [],
        )  # fmt: skip
        base = max(batches[0][0], self.start_offset)
        floor = self._in_flight.floor(base)
        if floor is not None and floor.last >= base:
            base = floor.first
        if base > last_offset:
            return []
        overlapping = self._in_flight.beginning_within(base, last_offset)
        if not overlapping:
            self._acquire_new(asked, base, last_offset)
            return asked.rows
        self._acquire_again(asked, base, overlapping)
        after = overlapping[-1].last + 1
        if asked.missing > 0 and after <= last_offset:
            self._acquire_new(asked, after, last_offset)
        if asked.rows:
            self._close_gaps_before(asked.rows[-1].last + 1)
        return asked.rows

    def _room(self, fetch_offset: int, max_records: int, last_offset: int) -> tuple[int, int]:
        """Return up to which offset records may be acquired, and how many."""
        room = self.limits.max_record_locks - self.in_flight_count
        if room > 0:
            return last_offset, min(max_records, room)
        if fetch_offset > self.end_offset:
            return last_offset, 0
        # Of what is in flight already, some may be available.
        return min(last_offset, self.end_offset), min(max_records, self.end_offset - fetch_offset + 1)

    def _skip_missing(self, fetch_offset: int, base: int) -> None:
        """Archive what is available from `fetch_offset` up to `base`, at which the log goes on: it was compacted away."""
        if fetch_offset >= base or not self._in_flight:
            return
        if self._gaps is not None and fetch_offset <= self._gaps.start < base:
            self._close_gaps_before(base)
        archived = [
            run for batch in self._in_flight.from_floor(fetch_offset, base - 1)
            for run in self._archive_within(batch, fetch_offset, base - 1, DeliveryState.AVAILABLE)
        ]  # fmt: skip
        if archived:
            self._may_have_available = True
        first = self._in_flight.batches[0].first
        if fetch_offset <= self.start_offset < first:
            self.start_offset = min(base, first)
        self._advance_start()

    def _acquire_again(self, asked: _Acquisition, base: int, batches: Sequence[InFlightBatch]) -> None:
        """Acquire what is available in batches that are in flight, and in gaps between stored ones."""
        gap_start = base
        limit = self.limits.throttled_deliveries
        for batch in batches:
            if asked.missing <= 0:
                return
            if self.has_gap_window:
                if gap_start < batch.first:
                    self._acquire_new(asked, gap_start, batch.first - 1)
                gap_start = batch.last + 1
                if asked.missing <= 0:
                    return
            available = [run for run in batch.overlapping(asked.first_offset, asked.last_offset) if run.is_available]
            is_throttled = any(run.delivery_count >= limit for run in available)
            if is_throttled and asked.count > 0:
                asked.max_records = 0
                return
            if (
                not batch.is_split
                and not self._is_cut(batch)
                and not is_throttled
                and batch.is_within(asked.first_offset, asked.last_offset)
                and not (asked.is_record_limit and batch.count > asked.missing)
            ):
                if available:
                    self._acquire_whole(asked, batch, available[0])
                continue
            if available:
                batch.is_split = True
                if self._acquire_part(asked, batch, available) and is_throttled:
                    asked.max_records = 0
                    return

    def _acquire_whole(self, asked: _Acquisition, batch: InFlightBatch, run: OffsetRun) -> None:
        run.delivery_count += 1
        self._lock(run, asked)
        asked.rows.append(AcquiredRange(batch.first, batch.last, run.delivery_count))
        asked.count += batch.count

    def _acquire_part(self, asked: _Acquisition, batch: InFlightBatch, available: list[OffsetRun]) -> int:
        """Acquire some records of a batch; returns how many."""
        limit = self.limits.delivery_count_limit
        throttled = self.limits.throttled_deliveries
        throttled_max: int | None = None
        rows, missing = asked.rows, asked.missing
        count = 0
        for run in available:
            is_last_delivery = limit > MIN_THROTTLED_DELIVERIES and run.delivery_count == limit - 1
            if is_last_delivery and count > 0:
                break
            if throttled_max is None and run.delivery_count >= throttled:
                throttled_max = max(1, batch.count >> (run.delivery_count - throttled + 1))
            first = max(run.first, asked.first_offset)
            last = min(run.last, asked.last_offset)
            if is_last_delivery:
                last = first
            if asked.is_record_limit:
                last = min(last, first + missing - count - 1)
            if throttled_max is not None and throttled_max > count:
                last = min(last, first + throttled_max - count - 1)
            (taken,) = batch.cut(first, last)
            taken.delivery_count += 1
            self._lock(taken, asked)
            delivery_count = taken.delivery_count
            if count and rows[-1].last + 1 == first and rows[-1].delivery_count == delivery_count:
                rows[-1] = AcquiredRange(rows[-1].first, last, delivery_count)
            else:
                rows.append(AcquiredRange(first, last, delivery_count))
            count += last - first + 1
            if (
                is_last_delivery
                or (asked.is_record_limit and count == missing)
                or (throttled_max is not None and count == throttled_max)
            ):
                break
        batch.join()
        asked.count += count
        return count

    def _acquire_new(self, asked: _Acquisition, first: int, last_offset: int) -> None:
        """Acquire offsets that are in no batch in flight."""
        if not self._in_flight:
            first = max(first, self.end_offset)
        if first > last_offset:
            return
        last = last_offset
        missing = asked.missing
        if missing < last - first + 1:
            last = _end_of_batch(asked.fetched, first + missing - 1)
            if self.has_gap_window:
                last = min(last, last_offset)
        rows = self._new_rows(asked, first, last)
        if self._in_flight.batches[0].first == first:
            self.start_offset = first
        self.end_offset = max(self.end_offset, last)
        asked.rows += rows
        asked.count += rows[-1].last - first + 1
        self._close_gaps_before(rows[-1].last + 1)

    def _new_rows(self, asked: _Acquisition, first: int, last: int) -> list[AcquiredRange]:
        if asked.is_record_limit:
            if last - first + 1 <= asked.missing:
                return [self._new_batch(asked, first, last)]
            # The rest of the record batch belongs to the batch in flight, and is available.
            taken = OffsetRun(first, first + asked.missing - 1, DeliveryState.ACQUIRED, 1)
            self._lock(taken, asked)
            rest = OffsetRun(taken.last + 1, last, DeliveryState.AVAILABLE, 0)
            self._in_flight.add(InFlightBatch(first, last, [taken, rest], is_split=True))
            self._may_have_available = True
            return [AcquiredRange(taken.first, taken.last, 1)]
        rows = []
        if last - first + 1 > asked.batch_size:
            for base, _ in asked.fetched:
                if base > last:
                    break
                if base - first >= asked.batch_size:
                    rows.append(self._new_batch(asked, first, base - 1))
                    first = base
        rows.append(self._new_batch(asked, first, last))
        return rows

    def _new_batch(self, asked: _Acquisition, first: int, last: int) -> AcquiredRange:
        run = OffsetRun(first, last, DeliveryState.ACQUIRED, 1)
        self._lock(run, asked)
        self._in_flight.add(InFlightBatch(first, last, [run]))
        return AcquiredRange(first, last, 1)

    def _lock(self, run: OffsetRun, asked: _Acquisition) -> None:
        run.state = DeliveryState.ACQUIRED
        run.member = asked.member_id
        self.acquired_count += run.last - run.first + 1
        self._set_deadline(run, asked.lock_until_ms)

    def _set_deadline(self, run: OffsetRun, lock_until_ms: int) -> None:
        run.lock_until_ms = lock_until_ms
        if self._deadline_ms is None or lock_until_ms < self._deadline_ms:
            self._deadline_ms = lock_until_ms

    def _close_gaps_before(self, offset: int) -> None:
        """Note that no record before `offset` is unknown; none at all, once one behind the stored batches was acquired."""
        gaps = self._gaps
        if gaps is None:
            return
        gaps.start = max(gaps.start, offset)
        for batch in self._in_flight.from_floor(gaps.start, gaps.end):
            if batch.first > gaps.start:
                break
            gaps.start = max(gaps.start, batch.last + 1)
        if not self.has_gap_window or gaps.start > gaps.end:
            self._gaps = None

    # --- acknowledgement, release, expiry ---

    def acknowledge(self, member_id: str, batches: Sequence[AckBatch], *, lock_until_ms: int) -> ShareChange:
        """Change the state of records that a member has acquired, pending until the change is stored; RENEW moves the end of
        their locks to `lock_until_ms`. What is before the start offset is passed over.

        The batches ascend, and meet in one offset at most (`check_form`). So there cannot be many more than offsets in flight,
        unless one is repeated: that bounds the work.

        Raises: KafkaError INVALID_RECORD_STATE, INVALID_REQUEST; then no state has changed.
        """
        change = ShareChange(self, is_pending=True)
        begin = bisect_left(batches, self.start_offset, key=_last)
        if len(batches) - begin > max(2 * self.in_flight_count, FEW_BATCHES):
            raise KafkaError(ErrorCode.INVALID_REQUEST, TOO_MANY)
        try:
            for index in range(begin, len(batches)):
                self._acknowledge_batch(change, member_id, batches[index], lock_until_ms)
        except KafkaError:
            self.take_back(change)
            raise
        for touched in change.touched:
            touched.join()
        return change.seal()

    def _acknowledge_batch(self, change: ShareChange, member_id: str, asked: AckBatch, lock_until_ms: int) -> None:
        found = self._find(asked)
        ranges = list(ranges_of_types(asked))
        is_each = len(asked.types) > 1
        position = 0
        for batch in found:
            if not batch.is_split:
                run = batch.runs[0]
                if run.state is not DeliveryState.ACQUIRED:
                    raise KafkaError(ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED)
                if run.member != member_id:
                    raise KafkaError(ErrorCode.INVALID_RECORD_STATE, NOT_OWNER)
                if is_each or not batch.is_within(asked.first, asked.last) or self._is_cut(batch):
                    batch.is_split = True
            while position < len(ranges):
                first, last, kind = ranges[position]
                if first > batch.last:
                    break
                for run in batch.cut(max(first, batch.runs[0].first), min(last, batch.last)):
                    self._acknowledge_run(change, member_id, batch, run, kind, lock_until_ms)
                if last > batch.last:
                    break
                position += 1

    def _acknowledge_run(
        self,
        change: ShareChange,
        member_id: str,
        batch: InFlightBatch,
        run: OffsetRun,
        kind: AcknowledgeType,
        lock_until_ms: int,
    ) -> None:
        if run.state is not DeliveryState.ACQUIRED:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, OFFSET_NOT_ACQUIRED)
        if run.member != member_id:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, NOT_OWNER_OF_OFFSET)
        if kind is AcknowledgeType.RENEW:
            if not self.limits.can_renew:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, NO_RENEWAL)
            self._set_deadline(run, lock_until_ms)
            change.touch(batch)
            return
        released = kind is AcknowledgeType.RELEASE
        self._begin(change, batch, run, self._state_after_delivery(run) if released else STATE_OF_TYPE[kind])

    def _state_after_delivery(self, run: OffsetRun) -> DeliveryState:
        """Return the state of an acquired record that nobody accepted or rejected."""
        is_over = run.delivery_count >= self.limits.delivery_count_limit
        if is_over:
            self.given_up_count += run.last - run.first + 1
        return DeliveryState.ARCHIVED if is_over else DeliveryState.AVAILABLE

    def _begin(self, change: ShareChange, batch: InFlightBatch, run: OffsetRun, state: DeliveryState) -> None:
        """Let an acquired run take another state, pending until the change is stored."""
        run.state = state
        run.pending = change
        count = run.last - run.first + 1
        self.acquired_count -= count
        if state is not DeliveryState.AVAILABLE:
            self.delivery_complete_count += count
        change.add(batch, run)

    def _find(self, asked: AckBatch) -> Sequence[InFlightBatch]:
        """Return the batches in flight that an acknowledgement is about."""
        first = asked.first
        if self._in_flight.floor(first) is None:
            if not first < self.start_offset <= asked.last or self._in_flight.floor(self.start_offset) is None:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, NOT_FOUND)
            first = self.start_offset
        found = self._in_flight.from_floor(first, asked.last)
        if found[-1].last < asked.first:
            raise KafkaError(ErrorCode.INVALID_REQUEST, FIRST_PAST)
        if found[-1].last < asked.last:
            raise KafkaError(ErrorCode.INVALID_REQUEST, LAST_PAST)
        return found

    def release(self, member_id: str) -> ShareChange | None:
        """Make available what a member has acquired, whose session has closed, pending until the change is stored. None: it has
        nothing."""
        change = ShareChange(self, is_pending=True)
        for batch in self._in_flight.batches:
            for run in batch.runs:
                if run.state is DeliveryState.ACQUIRED and run.member == member_id:
                    batch.is_split = batch.is_split or self._is_cut(batch)
                    self._begin(change, batch, run, self._state_after_delivery(run))
        return change.seal() if change.batches else None

    def expire(self, now_ms: int) -> ShareChange | None:
        """Take back the locks that have ended. This holds at once; the change is to be stored. None: none has ended."""
        self._expired_until_ms = max(now_ms, self._expired_until_ms)
        if self._deadline_ms is None or now_ms < self._deadline_ms:
            return None
        change = ShareChange(self, is_pending=False)
        deadline_ms: int | None = None
        for batch in self._in_flight.batches:
            for run in batch.runs:
                if run.state is not DeliveryState.ACQUIRED:
                    continue
                if run.lock_until_ms > now_ms:
                    if deadline_ms is None or run.lock_until_ms < deadline_ms:
                        deadline_ms = run.lock_until_ms
                    continue
                batch.is_split = batch.is_split or self._is_cut(batch)
                self.acquired_count -= run.count
                self._become_after_delivery(run)
                change.add(batch, run)
        self._deadline_ms = deadline_ms
        for batch in change.touched:
            batch.join()
        return change.seal() if change.batches else None

    def _become_after_delivery(self, run: OffsetRun) -> None:
        run.become(self._state_after_delivery(run))
        if run.is_done:
            self.delivery_complete_count += run.count
        else:
            self._may_have_available = True

    def _is_cut(self, batch: InFlightBatch) -> bool:
        """Whether the start offset lies within the batch, so that its records differ."""
        return batch.first < self.start_offset <= batch.last

    # --- archiving ---

    def archive(self, ranges: Iterable[tuple[int, int]]) -> ShareChange | None:
        """Archive acquired records between first and last offsets, both included: those of aborted transactions, which nobody
        gets. This holds at once; the change is to be stored. None: there are none."""
        change = ShareChange(self, is_pending=False)
        for first, last in ranges:
            for batch in self._in_flight.from_floor(first, last):
                for run in self._archive_within(batch, first, last, DeliveryState.ACQUIRED):
                    change.add(batch, run)
        for batch in change.touched:
            batch.join()
        return change.seal() if change.batches else None

    def _archive_within(self, batch: InFlightBatch, first: int, last: int, state: DeliveryState) -> list[OffsetRun]:
        """Archive the runs of a batch that are in `state` between two offsets; returns them."""
        if not any(run.state is state for run in batch.overlapping(first, last)):
            return []
        if not batch.is_within(first, last):
            batch.is_split = True
        archived = [run for run in batch.cut(first, last) if run.state is state]
        for run in archived:
            if state is DeliveryState.ACQUIRED:
                self.acquired_count -= run.count
            run.become(DeliveryState.ARCHIVED)
            self.delivery_complete_count += run.count
        return archived

    def advance_log_start(self, offset: int) -> None:
        """Note that the log begins at `offset` now: what is in flight before is gone. The next change that is stored stores the
        start offset, too."""
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self._close_gaps_before(offset)
        self._drop_before_start()
        if not self._in_flight:
            self.end_offset = offset
            self._gaps = None
        else:
            first = self._in_flight.batches[0]
            if self._is_cut(first) and any(run.state is DeliveryState.AVAILABLE for run in first.runs):
                first.is_split = True
        self._may_have_available = True
        self._advance_start()

    def _drop_before_start(self) -> None:
        """Forget what is in flight before the start offset."""
        start = self.start_offset
        batches = self._in_flight.batches
        count = 0
        while count < len(batches) and batches[count].last < start:
            count += 1
        dropped = [run for batch in self._in_flight.drop_first(count) for run in batch.runs]
        if batches and batches[0].runs[0].first < start:
            dropped += batches[0].drop_before(start)
        for run in dropped:
            if run.state is DeliveryState.ACQUIRED:
                self.acquired_count -= run.count
            elif run.is_done:
                self.delivery_complete_count -= run.count
            run.pending = None

    # --- outcomes ---

    def commit(self, change: ShareChange) -> None:
        """Only for `ShareChange`: the change is stored, or holds anyway."""
        for batch in change.touched:
            for run in batch.runs:
                if run.pending is change:
                    if run.state is DeliveryState.AVAILABLE:
                        self._may_have_available = True
                    run.become(run.state)
            batch.join()
        self._advance_start()

    def take_back(self, change: ShareChange) -> None:
        """Only for `ShareChange`: what was acquired is acquired again, unless its lock has ended meanwhile."""
        has_expired = False
        for batch in change.touched:
            for run in batch.runs:
                if run.pending is not change:
                    continue
                if run.is_done:
                    self.delivery_complete_count -= run.count
                if run.lock_until_ms <= self._expired_until_ms:
                    has_expired = True
                    self._become_after_delivery(run)
                    continue
                run.state = DeliveryState.ACQUIRED
                run.pending = None
                self.acquired_count += run.count
                self._set_deadline(run, run.lock_until_ms)
            batch.join()
        if has_expired:
            self._advance_start()

    def _advance_start(self) -> None:
        """Move the start offset behind what is done, and forget that."""
        batches = self._in_flight.batches
        if not batches:
            return
        gap_start = self._gaps.start if self._gaps is not None and self.has_gap_window else None
        start = self.start_offset
        if batches[0].first > start:
            if gap_start is not None and gap_start < batches[0].first:
                return
            start = batches[0].first
        done = 0  # batches
        for batch in batches:
            if gap_start is not None and batch.last >= gap_start:
                break
            waiting = next((run for run in batch.runs if not run.is_done or run.pending is not None), None)
            if waiting is not None:
                start = max(start, waiting.first)
                break
            done += 1
            start = batch.last + 1
        if done == len(batches):
            self.end_offset = start
            self._gaps = None
        elif done and start == batches[done - 1].last + 1:
            # Offsets between two batches do not exist, apart from those that nobody has read after a load.
            start = batches[done].first if gap_start is None else min(batches[done].first, gap_start)
        self.start_offset = max(self.start_offset, start)
        self._drop_before_start()


def _end_of_batch(batches: Sequence[tuple[int, int]], offset: int) -> int:
    """Return the last offset of the record batch that has `offset`; `offset` itself if it is in none."""
    for base, last in batches:
        if base <= offset <= last:
            return last
        if base > offset:
            break
    return offset
