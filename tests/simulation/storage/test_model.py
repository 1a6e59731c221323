"""The checks of the crash cases, each shown what it must complain about and what it must let pass."""

from __future__ import annotations

from dataclasses import replace

from storage.segments.txn_index import AbortedTxn
from tests.simulation.storage.model import Expected, Found, Kind, Written, compare, latest
from tests.simulation.storage.transactions import misjudged


def record(offset: int, value: str | None = "v", key: bytes = b"k") -> Written:
    return Written(offset, offset, key, None if value is None else f"{value}{offset}".encode(), 0)


HISTORY = tuple(record(offset) for offset in range(5))
EXPECTED = Expected((HISTORY,), start=1, written_end=5, durable_end=3)


def found(start: int, end: int) -> Found:
    return Found(start, end, HISTORY[start:end])


def problem(expected: Expected, what: Found | None) -> str | None:
    return compare(expected, what)[0]


def test_a_process_keeps_what_is_written_and_a_loss_of_power_what_is_on_the_disk() -> None:
    assert problem(EXPECTED, found(1, 5)) is None
    assert "ends at 4" in str(problem(EXPECTED, found(1, 4)))
    without_power = EXPECTED.after_power_loss()
    assert problem(without_power, found(1, 3)) is None
    assert problem(without_power, found(0, 4)) is None
    assert "ends at 2" in str(problem(without_power, found(1, 2)))
    assert "ends at 0" in str(problem(without_power, None))


def test_a_log_may_begin_earlier_than_it_did_and_not_later() -> None:
    assert problem(EXPECTED, found(0, 5)) is None
    assert "starts at 2" in str(problem(EXPECTED, found(2, 5)))


def test_records_that_nobody_wrote_and_holes_are_told() -> None:
    other = replace(found(1, 5), records=(record(1, "x"), *HISTORY[2:]))
    assert "holds" in str(problem(EXPECTED, other))
    hole = replace(found(1, 5), records=HISTORY[1:4])
    assert "has 3 records" in str(problem(EXPECTED, hole))
    assert "only 4 records" in str(problem(EXPECTED, Found(1, 6, HISTORY[1:])))


def test_both_sides_of_a_cut_that_was_under_way_will_do() -> None:
    cutting = Expected((HISTORY[:2], HISTORY), start=0, written_end=2, durable_end=2)
    assert problem(cutting, found(0, 2)) is None
    assert compare(cutting, found(0, 5)) == (None, HISTORY)
    assert problem(cutting, found(0, 1)) is not None


def test_a_log_that_is_being_deleted_may_be_gone() -> None:
    assert problem(replace(EXPECTED, may_be_gone=True), None) is None
    assert problem(Expected(((),), 7, 7, 7), None) is None  # nothing was in it


def test_compaction_keeps_the_last_value_of_each_key() -> None:
    history = (
        record(0, key=b"a"),
        record(1, key=b"b"),
        record(2, key=b"a"),
        record(3, None, key=b"b"),
        record(4, key=b"c"),
    )
    compacted = Expected((history,), start=0, written_end=5, durable_end=5, is_compacted=True)
    assert problem(compacted, Found(0, 5, (history[2], history[3], history[4]))) is None
    assert problem(compacted, Found(0, 5, (history[2], history[4]))) is None
    assert "latest value" in str(problem(compacted, Found(0, 5, (history[0], history[4]))))
    assert "latest value" in str(problem(compacted, Found(0, 5, (history[1], history[2], history[4]))))
    assert "holds" in str(problem(compacted, Found(0, 5, (record(2, "x", key=b"a"), history[4]))))
    assert latest(history, 0) == {b"a": b"v2", b"c": b"v4"}


def test_behind_its_promise_a_compacted_log_may_have_holes() -> None:
    compacted = Expected((HISTORY,), start=0, written_end=5, durable_end=3, is_compacted=True)
    torn = Found(0, 5, (*HISTORY[:3], HISTORY[4]))
    assert problem(compacted.after_power_loss(), torn) is None
    history = compare(compacted.after_power_loss(), torn)[1]
    assert [record.offset for record in history if record.is_lost] == [3]
    assert compare(replace(compacted, histories=(history,)), torn) == (None, history)
    assert problem(compacted, torn) is None  # the later value of its key is there
    other_key = (*HISTORY[:3], record(3, key=b"a"), HISTORY[4])
    assert "latest value" in str(problem(replace(compacted, histories=(other_key,)), torn))
    assert problem(replace(compacted, is_compacted=False).after_power_loss(), torn) is not None


def known(sequence: int, producer: int = 7) -> dict[int, int]:
    return {producer: sequence}


def produced(offset: int, sequence: int, kind: Kind = Kind.PLAIN, key: bytes = b"k") -> Written:
    return Written(offset, offset, key, b"%d" % offset, 0, sequence, 7, kind)


def test_producers_are_known_as_far_as_the_log_goes() -> None:
    history = (produced(0, 0), produced(1, 1))
    expected = Expected((history,), start=0, written_end=2, durable_end=0)
    assert problem(expected, Found(0, 2, history, known(1))) is None
    assert "sequence 0" in str(problem(expected, Found(0, 2, history, known(0))))
    assert "sequence -1" in str(problem(expected, Found(0, 2, history, known(1, producer=8))))
    assert problem(expected.after_power_loss(), Found(0, 1, history[:1], known(0))) is None


def test_a_lost_record_may_have_left_its_trace() -> None:
    history = (produced(0, 0), produced(1, 1), record(2))
    lossy = Expected((history,), start=0, written_end=0, durable_end=0, is_compacted=True)
    for sequence in (0, 1):
        assert problem(lossy, Found(0, 3, (history[0], history[2]), known(sequence))) is None
    assert "sequence 2" in str(problem(lossy, Found(0, 3, (history[0], history[2]), known(2))))


def test_a_producer_is_known_by_what_was_deleted_when_the_rest_is_lost() -> None:
    history = (produced(0, 0), produced(1, 1), record(2))
    lossy = Expected((history,), start=1, written_end=0, durable_end=0, is_compacted=True)
    for known_by in (known(0), known(1), {}):
        assert problem(lossy, Found(1, 3, history[2:], known_by)) is None
    assert "sequence 2" in str(problem(lossy, Found(1, 3, history[2:], known(2))))
    assert "sequence 0" in str(problem(lossy, Found(1, 3, history[1:], known(0))))
    assert "sequence -1" in str(problem(lossy, Found(1, 3, history[1:])))


def test_what_was_deleted_may_be_lost_like_the_rest() -> None:
    history = (produced(0, 0), produced(1, 1), produced(2, 2), record(3))
    lossy = Expected((history,), start=2, written_end=1, durable_end=1, is_compacted=True)
    for sequence in (0, 1, 2):
        assert problem(lossy, Found(2, 4, history[3:], known(sequence))) is None


def test_nobody_is_known_who_has_written_nothing() -> None:
    assert "knows producer 8" in str(problem(EXPECTED, replace(found(1, 5), last_sequences=known(0, producer=8))))
    assert problem(EXPECTED, replace(found(1, 5), last_sequences=known(-1, producer=8))) is None  # by a marker alone


def test_a_log_without_a_record_is_the_one_that_its_producers_tell() -> None:
    history = (produced(0, 0, Kind.TRANSACTIONAL), produced(1, 1, Kind.TRANSACTIONAL))
    restarting = Expected(((), history), start=2, written_end=0, durable_end=0)
    before, after = Found(2, 2, (), known(1), first_unstable=0), Found(2, 2, ())
    assert compare(restarting, before, misjudged) == (None, history)
    assert compare(restarting, after, misjudged) == (None, ())
    restarted = replace(restarting, histories=((),))
    assert "knows producer 7" in str(compare(restarted, before, misjudged)[0])
    assert "none was begun" in str(compare(restarted, replace(after, first_unstable=1), misjudged)[0])


OPEN, COMMIT, ABORT = Kind.TRANSACTIONAL, Kind.COMMIT, Kind.ABORT
TRANSACTIONS = (
    produced(0, 0, OPEN), produced(1, -1, ABORT), produced(2, 1, OPEN), produced(3, -1, COMMIT), produced(4, 2, OPEN),
)  # fmt: skip
ABORTED = AbortedTxn(7, 0, 1, 2)


def judged(*aborted: AbortedTxn, end: int = 5, first_unstable: int | None = 4) -> str | None:
    return misjudged(TRANSACTIONS, Found(0, end, TRANSACTIONS[:end], {}, aborted, first_unstable))


def test_the_index_tells_the_aborted_transactions_and_no_others() -> None:
    assert judged(ABORTED) is None
    assert "not aborted in its index" in str(judged())
    assert " aborted in its index" in str(judged(replace(ABORTED, last_offset=3)))
    assert "no such marker" in str(judged(ABORTED, AbortedTxn(8, 2, 3, 3)))
    assert judged(end=1, first_unstable=0) is None  # its marker is gone


def test_readers_of_committed_records_wait_at_the_first_open_transaction() -> None:
    assert "earliest open transaction at None" in str(judged(ABORTED, first_unstable=None))
    assert "none was begun" in str(judged(ABORTED, end=4))


def test_a_record_of_an_aborted_transaction_is_no_latest_value() -> None:
    history = (record(0), *(replace(each, offset=each.offset + 1, batch=each.offset + 1) for each in TRANSACTIONS[:2]))
    expected = Expected((history,), start=0, written_end=3, durable_end=3, is_compacted=True)
    assert problem(expected, Found(0, 3, (history[0], history[2]), known(0))) is None
    assert "latest value" in str(problem(expected, Found(0, 3, history[1:], known(0))))
