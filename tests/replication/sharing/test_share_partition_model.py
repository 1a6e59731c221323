"""A share partition beside a model with one state an offset: failed writes, reloads, compaction, a log that begins later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.errors import KafkaError
from protocol.share_states import AcknowledgeType, DeliveryState, ShareAcquireMode, StateBatch
from replication.sharing.acknowledgements import STATE_OF_TYPE, AckBatch
from replication.sharing.share_partition import AcquiredRange, ShareChange, ShareLimits, SharePartition, StoredShare

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState
MEMBERS = st.sampled_from(["m", "n"])
LOG_END = 120
LOCK_MS = 100
BATCH = 8


@dataclass
class Record:
    """The state of one offset. `before` is what it was until a change that is not stored yet."""

    state: DeliveryState
    count: int
    member: str = ""
    deadline_ms: int = 0
    before: Record | None = None

    @property
    def is_acquired(self) -> bool:
        return self.state is ACQUIRED

    @property
    def is_done(self) -> bool:
        return self.state in (ACKNOWLEDGED, ARCHIVED)


@dataclass
class Coordinator:
    """What is stored of the share partition."""

    start_offset: int = 0
    states: dict[int, tuple[DeliveryState, int]] = field(default_factory=dict)

    def store(self, change: ShareChange) -> None:
        self.start_offset = max(self.start_offset, change.start_offset)
        for first, last, state, count in change.batches:
            self.states.update(dict.fromkeys(range(first, last + 1), (state, count)))

    def read(self) -> StoredShare:
        kept = {offset: row for offset, row in self.states.items() if offset >= self.start_offset}
        return StoredShare(0, self.start_offset, 0, [StateBatch(offset, offset, *row) for offset, row in kept.items()])


class Shares(RuleBasedStateMachine):
    """What is acquired was available, and is what the model says; nothing that was accepted and stored comes again."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = ShareLimits(3, 40)
        self.log = [(first, first + BATCH - 1) for first in range(0, LOG_END, BATCH)]
        self.log_start = 0
        self.now_ms = 0
        self.stored = Coordinator()
        self.accepted: set[int] = set()
        self.load()

    def load(self) -> None:
        self.share = SharePartition(self.stored.read(), self.limits)
        self.records = {
            offset: Record(state, count)
            for offset, (state, count) in self.stored.states.items()
            if offset >= self.share.start_offset
        }
        self.pending: list[tuple[ShareChange, list[int]]] = []
        self.share.advance_log_start(self.log_start)

    def in_flight(self) -> Iterator[tuple[int, Record]]:
        return ((offset, record) for offset, record in self.records.items() if offset >= self.share.start_offset)

    # --- acquisition ---

    @rule(
        member=MEMBERS, count=st.integers(1, 5), max_records=st.sampled_from([1, 3, BATCH, 500]),
        batch_size=st.sampled_from([1, 500]), mode=st.sampled_from(ShareAcquireMode),
    )  # fmt: skip
    def acquire(self, member: str, count: int, max_records: int, batch_size: int, mode: ShareAcquireMode) -> None:
        offset = self.share.next_fetch_offset()
        fetched = [batch for batch in self.log if batch[1] >= offset][:count]
        was_available = self.share.may_acquire()
        rows = self.share.acquire(
            member, fetched, fetch_offset=offset, max_records=max_records, batch_size=batch_size, mode=mode,
            lock_until_ms=self.now_ms + LOCK_MS,
        )  # fmt: skip
        if fetched and fetched[0][0] > offset:  # compacted away
            for missing in range(offset, fetched[0][0]):
                if missing in self.records and self.records[missing].state is AVAILABLE:
                    self.records[missing] = Record(ARCHIVED, self.records[missing].count)
        elif fetched and offset in self.records:
            assert was_available
            assert rows[0].first == offset
        self._check_rows(rows, fetched, member)
        if mode is ShareAcquireMode.RECORD_LIMIT and rows:
            assert sum(row.last - row.first + 1 for row in rows) <= max_records
            self._note_rest(rows[-1].last, fetched)

    def _note_rest(self, acquired: int, fetched: list[tuple[int, int]]) -> None:
        """What is left of the record batch of the last record that was acquired is in flight, too, and available."""
        (last,) = [last for first, last in fetched if first <= acquired <= last] or [acquired]
        for rest in range(acquired + 1, min(last, self.share.end_offset) + 1):
            if rest in self.records:
                break
            self.records[rest] = Record(AVAILABLE, 0)

    def _check_rows(self, rows: list[AcquiredRange], fetched: list[tuple[int, int]], member: str) -> None:
        last_before = -1
        for first, last, count in rows:
            assert self.log_start <= self.share.start_offset <= first <= last <= fetched[-1][1]
            assert last_before < first
            last_before = last
            for offset in range(first, last + 1):
                known = self.records.get(offset, Record(AVAILABLE, 0))
                assert (known.state, known.count + 1, known.before) == (AVAILABLE, count, None)
                assert offset not in self.accepted
                self.records[offset] = Record(ACQUIRED, count, member, self.now_ms + LOCK_MS)

    # --- acknowledgement and outcomes ---

    @rule(member=MEMBERS, data=st.data())
    def acknowledge_what_is_held(self, member: str, data: st.DataObject) -> None:
        held = sorted(offset for offset, record in self.in_flight() if record.is_acquired and record.member == member)
        if not held:
            return
        first = data.draw(st.sampled_from(held))
        last = first
        while last + 1 in held and data.draw(st.booleans()):
            last += 1
        change = self._acknowledge(member, [self._batch(data, first, last, list(AcknowledgeType))])
        assert change is not None

    @rule(member=MEMBERS, first=st.integers(0, LOG_END), size=st.integers(1, 30), data=st.data())
    def acknowledge_anything(self, member: str, first: int, size: int, data: st.DataObject) -> None:
        second = first + size - 1 + data.draw(st.integers(0, 20))
        kinds = list(STATE_OF_TYPE)
        batches = [self._batch(data, first, first + size - 1, kinds), self._batch(data, second, second + 3, kinds)]
        self._acknowledge(member, batches[: data.draw(st.integers(1, 2))])

    def _batch(self, data: st.DataObject, first: int, last: int, kinds: list[AcknowledgeType]) -> AckBatch:
        size = data.draw(st.sampled_from([1, last - first + 1]))
        return AckBatch(first, last, data.draw(st.lists(st.sampled_from(kinds), min_size=size, max_size=size)))

    def _acknowledge(self, member: str, batches: list[AckBatch]) -> ShareChange | None:
        try:
            change = self.share.acknowledge(member, batches, lock_until_ms=self.now_ms + 2 * LOCK_MS)
        except KafkaError:
            return None
        touched: list[int] = []
        for first, last, types in batches:
            for offset in range(max(first, self.share.start_offset), last + 1):
                if offset not in self.records:
                    continue
                record, kind = self.records[offset], types[offset - first] if len(types) > 1 else types[0]
                assert (record.state, record.member, record.before) == (ACQUIRED, member, None)
                if kind is AcknowledgeType.RENEW:
                    record.deadline_ms = self.now_ms + 2 * LOCK_MS
                    continue
                state = STATE_OF_TYPE[AcknowledgeType(kind)]
                self._begin(offset, self._after_delivery(record) if state is AVAILABLE else state)
                touched.append(offset)
        self._expect_written(change, touched)
        return change

    def _after_delivery(self, record: Record) -> DeliveryState:
        return ARCHIVED if record.count >= self.limits.delivery_count_limit else AVAILABLE

    def _begin(self, offset: int, state: DeliveryState) -> None:
        record = self.records[offset]
        self.records[offset] = Record(state, record.count, before=record)

    def _expect_written(self, change: ShareChange, touched: list[int]) -> None:
        written = {
            offset: batch[2:] for batch in change.batches for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        assert written == {offset: (self.records[offset].state, self.records[offset].count) for offset in touched}
        assert change.start_offset == self.share.start_offset
        assert change.delivery_complete_count == self.share.delivery_complete_count
        if touched:
            self.pending.append((change, touched))

    @rule(member=MEMBERS)
    def release(self, member: str) -> None:
        change = self.share.release(member)
        touched = [offset for offset, record in self.in_flight() if record.is_acquired and record.member == member]
        for offset in touched:
            self._begin(offset, self._after_delivery(self.records[offset]))
        assert (change is None) == (not touched)
        if change is not None:
            self._expect_written(change, touched)

    @rule(data=st.data(), is_stored=st.booleans())
    def outcome(self, data: st.DataObject, is_stored: bool) -> None:
        if not self.pending:
            return
        change, touched = self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1)))
        if is_stored:
            self.stored.store(change)
            self.accepted |= {offset for offset in touched if self.stored.states[offset][0] is ACKNOWLEDGED}
        for offset in touched:
            record = self.records.get(offset)
            if record is None or record.before is None:  # the log begins behind it, or it was compacted away
                continue
            if is_stored:
                self.records[offset] = replace(record, before=None)
            elif record.before.deadline_ms <= self.now_ms:
                self.records[offset] = Record(self._after_delivery(record), record.count)
            else:
                self.records[offset] = record.before
        change.succeeded() if is_stored else change.failed()

    @rule(passed_ms=st.sampled_from([1, LOCK_MS, 2 * LOCK_MS]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        change = self.share.expire(self.now_ms)
        written = {}
        for offset, record in self.in_flight():
            if record.is_acquired and record.deadline_ms <= self.now_ms:
                self.records[offset] = Record(self._after_delivery(record), record.count)
                written[offset] = (self.records[offset].state, record.count)
        batches = [] if change is None else change.batches
        assert written == {
            offset: batch[2:] for batch in batches for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        if change is not None:
            self.stored.store(change)
            change.succeeded()

    # --- the log, the leader, the settings ---

    @rule(data=st.data())
    def transactions_are_aborted(self, data: st.DataObject) -> None:
        first, last = data.draw(st.sampled_from(self.log))
        change = self.share.archive([(first, last)])
        for offset in range(first, last + 1):
            if offset in self.records and self.records[offset].is_acquired:
                self.records[offset] = Record(ARCHIVED, self.records[offset].count)
        if change is not None:
            self.stored.store(change)
            change.succeeded()

    @rule(step=st.integers(0, 10))
    def the_log_begins_later(self, step: int) -> None:
        self.log_start = min(max(self.log_start, self.share.start_offset - 5) + step, LOG_END - BATCH)
        self.share.advance_log_start(self.log_start)

    @rule(data=st.data())
    def a_batch_is_compacted_away(self, data: st.DataObject) -> None:
        if len(self.log) > 3:
            self.log.remove(data.draw(st.sampled_from(self.log[:-1])))

    @rule(last_write_is_stored=st.booleans())
    def another_leader(self, last_write_is_stored: bool) -> None:
        if last_write_is_stored and self.pending:
            change, touched = self.pending[0]
            self.stored.store(change)
            self.accepted |= {offset for offset in touched if self.stored.states[offset][0] is ACKNOWLEDGED}
        self.load()

    @rule(deliveries=st.sampled_from([2, 3, 5]), locks=st.sampled_from([10, 40]))
    def limits_change(self, deliveries: int, locks: int) -> None:
        self.limits = self.share.limits = ShareLimits(deliveries, locks)

    # --- what always holds ---

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        self.records = dict(self.in_flight())
        assert self.share.acquired_count == sum(record.is_acquired for record in self.records.values())
        assert self.share.delivery_complete_count == sum(record.is_done for record in self.records.values())
        assert (self.share.next_deadline_ms() is None) == (self.share.acquired_count == 0)

    @invariant()
    def what_is_available_is_read_next(self) -> None:
        available = [
            offset for offset, record in self.records.items() if record.state is AVAILABLE and record.before is None
        ]
        offset = self.share.next_fetch_offset()
        assert offset >= self.share.start_offset
        if available:
            assert offset <= min(available)
        elif not self.share.has_gap_window:
            assert offset == self.share.end_offset + bool(self.share.in_flight_count)

    @invariant()
    def the_start_offset_waits_for_what_is_not_done(self) -> None:
        assert self.share.start_offset >= self.log_start
        if self.records and not self.pending and not self.share.has_gap_window:
            assert not self.records[min(self.records)].is_done


TestShares = Shares.TestCase
TestShares.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
