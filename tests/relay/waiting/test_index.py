from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from relay.waiting.entries import WaitingEntry, place_of
from relay.waiting.index import WaitingIndex
from relay.waiting.index_records import EntryOutcome, IndexRecordError, taken_record
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
        for entry in plain.waiting[:20]:
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


def test_records_of_another_source_partition_are_refused() -> None:
    index = WaitingIndex(TOPIC, PARTITION)
    key, value = taken_record(TOPIC, PARTITION + 1, 0, [WaitingEntry(1, 1, 0)])
    with pytest.raises(IndexRecordError, match="another source partition"):
        index.replay(key, value)
    assert index.count == 0
