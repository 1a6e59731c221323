from __future__ import annotations

import pytest

from relay.waiting.entries import WaitingEntry, place_of
from relay.waiting.index_records import EntryOutcome, IndexRecordKind, parse_key
from tests.relay.waiting.plain_index import IndexLog

FAR_MS = 10**9


def keys_left(log: IndexLog) -> dict[IndexRecordKind, list[int]]:
    """The sequences of the records that are left when the log is compacted."""
    log.compact(tombstones=False)
    keys = [parse_key(key) for key, _ in log.records]
    return {kind: [key.sequence for key in keys if key.kind is kind] for kind in IndexRecordKind}


def entries_of(count: int, *, first: int = 0, due_ms: int = FAR_MS, has_ids: bool = False) -> list[WaitingEntry]:
    return [WaitingEntry(due_ms, place_of(1, at), at + 1 if has_ids else 0) for at in range(first, first + count)]


@pytest.mark.parametrize(
    ("due_ms", "size", "runs"),
    [
        (FAR_MS, 1, 1),
        (FAR_MS, 70, 2),  # of which the first was too large for the others
        (-FAR_MS, 1, 1),  # as when a target is not there
        (4_000, 1, 16),
        (30_000, 1, 1),
        (30_000, 70, 16),
    ],
)
def test_neighbours_of_like_size_become_one_unless_they_go_soon(due_ms: int, size: int, runs: int) -> None:
    log = IndexLog()
    for at in range(16):
        log.take_in(*entries_of(size, first=at * size, due_ms=due_ms))
        log.merge(0)
    assert len(keys_left(log)[IndexRecordKind.TAKEN]) == runs
    assert list(log.index.entries()) == entries_of(16 * size, due_ms=due_ms)


def test_a_run_of_which_most_is_done_is_written_again_and_its_done_records_go() -> None:
    log = IndexLog()
    log.take_in(*entries_of(100))
    for at in range(0, 51, 3):
        log.done(entries_of(3, first=at))
    assert log.merge(0) == 1 + 17
    assert keys_left(log) == {IndexRecordKind.TAKEN: [0], IndexRecordKind.DONE: [], IndexRecordKind.POSITION: []}
    log.restart()
    assert list(log.index.entries()) == entries_of(49, first=51)


def test_a_run_that_many_done_records_name_is_written_again() -> None:
    log = IndexLog()
    log.take_in(*entries_of(800))
    for at in range(164):
        log.done(entries_of(1, first=at), EntryOutcome.CANCELLED)
    assert log.merge(0) == 0
    log.done(entries_of(1, first=164))
    assert log.merge(0) == 1 + 165


def test_a_run_that_is_done_goes_and_then_its_done_records_go_when_their_ids_are_forgotten() -> None:
    log = IndexLog()
    for entry in entries_of(2, has_ids=True):
        log.take_in(entry)
        log.done([entry], now_ms=1_000)
    log.take_in(*entries_of(1, first=2))
    log.done(entries_of(1, first=2), now_ms=1_000)
    log.merge(1_000)
    assert {kind: len(left) for kind, left in keys_left(log).items()} == {"taken": 0, "done": 2, "position": 0}
    log.restart()
    log.merge(3_601_000)
    assert log.index.delivered_ms(1) == 1_000
    log.merge(3_601_001)
    assert log.index.delivered_ms(1) is None
    assert not any(keys_left(log).values())


def test_a_call_writes_a_bounded_part_and_says_the_same_after_an_aborted_transaction() -> None:
    log = IndexLog()
    for at in range(2_000):
        log.take_in(*entries_of(20, first=at * 20))
    for at in range(1_000):
        log.done(entries_of(20, first=at * 20))
    records = log.index.merge(0)
    assert records == log.index.merge(0)
    assert len(records) < 1_100
    log.merge(0)
    assert {kind: len(left) for kind, left in keys_left(log).items()} == {"taken": 5, "done": 0, "position": 0}
    log.restart()
    assert list(log.index.entries()) == entries_of(20_000, first=20_000)
