from __future__ import annotations

from relay.waiting.delivered_ids import DeliveredIds
from relay.waiting.entries import WaitingEntry, id_hash
from relay.waiting.index import WaitingIndex
from relay.waiting.index_records import EntryOutcome, done_record


def test_an_id_is_remembered_for_its_time_by_the_clock_of_the_relay() -> None:
    ids = DeliveredIds(remembered_ms=1000)
    ids.advance(5000)
    ids.remember(0, [7], 5000)
    for now_ms, delivered_ms in [(5000, 5000), (6000, 5000), (6001, None), (5500, 5000), (3999, None)]:
        ids.advance(now_ms)
        assert ids.delivered_ms(0, 7) == delivered_ms
        assert ids.has_ids_of(5000) == (delivered_ms is not None)


def test_of_too_many_ids_the_first_go_first() -> None:
    ids = DeliveredIds(limit=1000)
    for each in range(1, 100_001):
        ids.remember(0, [id_hash(b"%d" % each)], each)
    known = [each for each in range(1, 100_001) if ids.delivered_ms(0, id_hash(b"%d" % each)) is not None]
    assert known == list(range(99_001, 100_001))
    assert not ids.has_ids_of(99_000)
    assert ids.has_ids_of(99_001)


def test_with_a_limit_of_none_no_id_is_remembered() -> None:
    ids = DeliveredIds(limit=0)
    ids.remember(0, [7], 1)
    assert ids.delivered_ms(0, 7) is None


def test_an_id_that_is_delivered_again_has_its_last_time() -> None:
    ids = DeliveredIds()
    for delivered_ms in (5, 9, 8):
        ids.remember(1, [7], delivered_ms)
    assert ids.delivered_ms(1, 7) == 9


def test_the_same_id_of_two_source_partitions_is_two_ids() -> None:
    ids = DeliveredIds()
    indexes = [WaitingIndex(topic, partition, ids) for topic, partition in [("a", 0), ("a", 1), ("b", 0)]]
    indexes[1].replay(*done_record("a", 1, 0, [(3, EntryOutcome.DELIVERED, 7)], 60))
    assert [index.delivered_ms(7) for index in indexes] == [None, 60, None]
    assert [index.find(7) for index in indexes] == [None] * 3


def test_an_id_is_remembered_only_when_it_was_delivered() -> None:
    index = WaitingIndex("a", 0)
    entries = [WaitingEntry(1, each, each) for each in range(1, 7)]
    index.replay(
        *done_record("a", 0, 0, [(entry.place, EntryOutcome(entry.place), entry.id_hash) for entry in entries], 60)
    )
    assert [entry.id_hash for entry in entries if index.delivered_ms(entry.id_hash)] == [EntryOutcome.DELIVERED]
