"""What a relay's log says to people who ask: what waits, how entries ended, and what no relay wrote."""

from __future__ import annotations

from relay.inspection.figures import WaitingFigures
from relay.inspection.log_view import LogView
from relay.waiting.entries import HOUR, SOURCE, WaitingEntry, place_of
from relay.waiting.index_records import EntryOutcome, done_record, taken_record

NEAR, FAR = WaitingEntry(1_000, place_of(SOURCE, 3), 7), WaitingEntry(90_000_000, place_of(HOUR, 5), 8)


def test_what_waits_is_told_for_each_source_and_how_wanted_entries_ended() -> None:
    view = LogView(None, lambda place, id_hash: place == NEAR.place or id_hash == FAR.id_hash)
    for source in (("a", 0), ("b", 1)):
        view.replay(*taken_record(*source, 0, [FAR, NEAR]))
    view.replay(*done_record("a", 0, 1, [(NEAR.place, EntryOutcome.EXPIRED, 7)], 50))
    view.replay(*done_record("b", 1, 1, [(FAR.place, EntryOutcome.CANCELLED, 8)], 60))
    assert {key: list(index.entries()) for key, index in view.indexes.items()} == {("a", 0): [FAR], ("b", 1): [NEAR]}
    assert [(each.source, each.outcome, each.time_ms) for each in view.endings] == [
        (("a", 0), EntryOutcome.EXPIRED, 50), (("b", 1), EntryOutcome.CANCELLED, 60)
    ]  # fmt: skip
    figures = [WaitingFigures.of(view.indexes[key], 1_000) for key in (("a", 0), ("b", 1))]
    assert [(each.count, each.next_due_ms) for each in figures] == [(1, 90_000_000), (1, 1_000)]
    assert figures[1].by_time == {"due": 1, "in_1m": 0, "in_1h": 0, "in_1d": 0, "later": 0}
    assert figures[0].by_time["later"] == 1


def test_only_the_sources_that_are_asked_for_are_kept_and_rubbish_is_counted() -> None:
    view = LogView([("a", 0)])
    key, value = taken_record("a", 0, 0, [NEAR])
    view.replay(key, value)
    view.replay(*taken_record("b", 0, 0, [NEAR]))
    for wrong in ((None, value), (b"", None), (b"a:0:taken:x", value), (b"a:0:taken:1", value[:-1]), (b"\xff", b"")):
        view.replay(*wrong)
    assert (list(view.indexes), view.indexes["a", 0].count, view.unreadable) == ([("a", 0)], 1, 5)
    view.replay(key, None)
    assert view.indexes["a", 0].count == 0
