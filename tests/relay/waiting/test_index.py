from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from relay.waiting.entries import WaitingEntry, offset_of, place_of
from relay.waiting.index import WaitingIndex
from relay.waiting.index_records import EntryOutcome, IndexRecordError, position_record, taken_record
from tests.relay.waiting.plain_index import PARTITION, TOPIC, IndexLog, PlainIndex

EVER = 1 << 62
DUE_TIMES = st.integers(0, 20) | st.integers(0, 10**6) | st.integers(0, 1 << 61)


class IndexBesideAList(RuleBasedStateMachine):
    """What an index answers is what a list of entries says, through merges, compactions and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.log = IndexLog()
        self.plain = PlainIndex()
        self.now_ms = 0
        self.offsets = [0] * 5

    @rule(
        taken=st.lists(
            st.tuples(DUE_TIMES, st.sampled_from([0, 0, 1, 2, 4]), st.booleans(), st.integers(1, 3)), min_size=1
        )
    )
    def take_in(self, taken: list[tuple[int, int, bool, int]]) -> None:
        entries = []
        for due_ms, tier, has_id, step in taken:
            self.offsets[tier] += step
            id_hash = (tier + 1) << 60 | self.offsets[tier] if has_id else 0
            entries.append(WaitingEntry(due_ms, place_of(tier, self.offsets[tier]), id_hash))
        self.plain.waiting += entries
        self.log.take_in(*entries)

    @rule(data=st.data(), outcome=st.sampled_from(EntryOutcome))
    def some_are_done(self, data: st.DataObject, outcome: EntryOutcome) -> None:
        if self.plain.waiting:
            entries = data.draw(st.lists(st.sampled_from(self.plain.waiting), min_size=1, unique=True))
            self.log.done(entries, outcome, self.now_ms)
            self.plain.done(entries, outcome, self.now_ms)

    @rule(limit=st.integers(1, 100))
    def the_first_are_delivered(self, limit: int) -> None:
        entries = self.log.index.ahead(EVER, limit)
        assert entries == self.plain.due(EVER)[:limit]
        if entries:
            self.log.done(entries, EntryOutcome.DELIVERED, self.now_ms)
            self.plain.done(entries, EntryOutcome.DELIVERED, self.now_ms)

    @rule(passed_ms=st.sampled_from([1, 60_000, 1_800_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def merge(self) -> None:
        self.log.merge(self.now_ms)

    @rule(share=st.floats(0, 1))
    def compact(self, share: float) -> None:
        self.log.compact(share)

    @rule(tombstones=st.booleans())
    def restart(self, tombstones: bool) -> None:
        self.log.compact(tombstones=tombstones)
        self.log.restart()

    @rule(until_ms=DUE_TIMES, limit=st.integers(1, 50))
    def read_ahead(self, until_ms: int, limit: int) -> None:
        read: list[WaitingEntry] = []
        while entries := self.log.index.ahead(until_ms, limit, read[-1] if read else None):
            read += entries
        assert read == self.plain.due(until_ms)

    @invariant()
    def the_answers_are_those_of_the_list(self) -> None:
        index, plain = self.log.index, self.plain
        assert index.count == len(plain.waiting)
        assert index.next_due_ms() == min((entry.due_ms for entry in plain.waiting), default=None)
        assert list(index.entries()) == plain.due(EVER)
        assert [index.count_due(until_ms) for until_ms in (-1, 10, EVER)] == [0, len(plain.due(10)), index.count]
        for entry in plain.waiting[:20]:
            assert index.at(entry.place) == entry
            assert index.find(entry.id_hash) == (entry if entry.id_hash else None)
        for id_hash, delivered_ms in list(plain.delivered.items())[-20:]:
            assert index.find(id_hash) is None
            if self.now_ms - delivered_ms <= 3_600_000:
                assert index.delivered_ms(id_hash) == delivered_ms


TestIndexBesideAList = IndexBesideAList.TestCase
TestIndexBesideAList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_lowest_offsets_are_those_of_what_waits_in_buckets() -> None:
    log = IndexLog()
    places = [place_of(tier, offset) for tier, offset in [(0, 3), (1, 7), (1, 5), (4, 9)]]
    log.take_in(*(WaitingEntry(8 - at, place, 0) for at, place in enumerate(places)))
    assert log.index.lowest_offsets() == {1: 5, 4: 9}
    log.done(log.index.entries())
    log.merge(0)
    assert log.index.lowest_offsets() == {}


def test_places_that_a_bucket_gave_twice_are_done_in_all_runs() -> None:
    """A bucket topic that was deleted and made again gives its offsets again."""
    log = IndexLog()
    runs = [range(10, 20), range(30, 40), range(12, 14), range(50)]
    for due_ms, offsets in enumerate(runs):
        log.take_in(*(WaitingEntry(due_ms, place_of(1, offset), 0) for offset in offsets))
    log.done([WaitingEntry(0, place_of(1, offset), 0) for offset in (12, 13, 35, 49)])
    left = [
        (due_ms, offset) for due_ms, offsets in enumerate(runs) for offset in offsets if offset not in (12, 13, 35, 49)
    ]
    assert [(entry.due_ms, offset_of(entry.place)) for entry in log.index.entries()] == left
    assert log.index.count == len(left)


def test_the_position_is_the_last_that_was_written() -> None:
    index = WaitingIndex(TOPIC, PARTITION)
    positions = [index.position]
    records = [position_record(TOPIC, PARTITION, offset, 3) for offset in (7, 9)]
    for key, value in [*records, (records[0][0], None)]:
        index.replay(key, value)
        positions.append(index.position)
    assert [each and each[:2] for each in positions] == [None, (7, 3), (9, 3), None]
    assert index.next_sequence() == 0


def test_many_are_due_at_once_in_the_order_in_which_they_were_taken_in() -> None:
    log = IndexLog()
    entries = [WaitingEntry(5, place_of(0, at), 0) for at in range(5_000)]
    for at in range(0, 5_000, 100):
        log.take_in(*entries[at : at + 100])
    assert log.index.take_due(4, 10) == []
    assert log.index.take_due(5, 10) == entries[:10]
    log.merge(10**9)
    assert log.index.take_due(5, 4_000) == entries[:4_000]
    log.done(entries[:1_000])
    assert log.index.take_due(5, 150) == entries[1_000:1_150]


def test_what_is_done_at_the_beginning_of_a_run_takes_no_memory() -> None:
    log = IndexLog()
    entries = [WaitingEntry(at, place_of(1 + at % 3, at), at + 1) for at in range(1_000)]
    log.take_in(*entries)
    for at in range(0, 900, 50):
        log.done(entries[at : at + 50])
        left = entries[at + 50 :]
        assert [log.index.find(entry.id_hash) for entry in entries] == [None] * (at + 50) + left
        assert [log.index.at(entry.place) for entry in entries] == [None] * (at + 50) + left
    assert sum(len(run) for run in log.index._runs.values()) <= 133
    log.done([entries[-1]], EntryOutcome.CANCELLED)
    assert list(log.index.entries()) == entries[900:-1]


def test_ids_that_are_replaced_are_found_where_they_wait_now() -> None:
    log = IndexLog()
    for at in range(200):
        entry = WaitingEntry(10**9 - at, place_of(2, at), 77)
        waiting = log.index.find(77)
        log.take_in(entry)
        if waiting is not None:
            log.done([waiting], EntryOutcome.REPLACED)
        assert log.index.find(77) == entry
        assert log.index.next_due_ms() == entry.due_ms
        log.merge(0)
    assert log.index.count == 1


def test_records_of_another_source_partition_are_refused() -> None:
    index = WaitingIndex(TOPIC, PARTITION)
    key, value = taken_record(TOPIC, PARTITION + 1, 0, [WaitingEntry(1, 1, 0)])
    with pytest.raises(IndexRecordError, match="another source partition"):
        index.replay(key, value)
    assert index.count == 0
