"""The checkers of transactions, each shown what it must complain about and what it must let pass."""

from __future__ import annotations

from protocol.records.control import ControlType
from protocol.topic_partition import TopicPartition
from tests.simulation.transactions.checkers.aborted_reads import AbortedReadChecker
from tests.simulation.transactions.checkers.duplicates import duplicates
from tests.simulation.transactions.checkers.fencing import FencingChecker
from tests.simulation.transactions.checkers.hanging import hanging, wrong_markers
from tests.simulation.transactions.checkers.late_markers import late_markers
from tests.simulation.transactions.checkers.lost_writes import lost_writes
from tests.simulation.transactions.checkers.offsets import OffsetChecker
from tests.simulation.transactions.checkers.polls import PollChecker
from tests.simulation.transactions.checkers.stable_offset import StableOffsetChecker
from tests.simulation.transactions.checkers.torn_transactions import torn_transactions
from tests.simulation.transactions.clients.processor import input_of, made_of
from tests.simulation.transactions.final_logs import FinalLogs
from tests.simulation.transactions.ledger import Ledger, OffsetKey, Transaction
from tests.simulation.transactions.records import ReadRecord

ONE: TopicPartition = ("t", 0)
OTHER: TopicPartition = ("t", 1)
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
OFFSET_KEY: OffsetKey = ("g", ONE)


class Past:
    """A ledger with one transaction of two records in two partitions, and what can be read in the end."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.logs = FinalLogs()
        self.reports: list[str] = []
        self.transaction = self.begin(ONE, "a#0 x")
        self.ledger.sending(self.transaction, OTHER, ["a#1 x"])

    def begin(self, key: TopicPartition, *values: str) -> Transaction:
        transaction = self.ledger.begin("tx.1:1", "tx", 7, 0)
        self.ledger.sending(transaction, key, values)
        return transaction

    def log(
        self, key: TopicPartition, *records: str | ControlType, committed: str = "", stable_end: int | None = None
    ) -> None:
        """All of producer 7; `committed` are those values that read_committed returns."""
        found = [
            ReadRecord(offset, 7, marker=each) if isinstance(each, ControlType) else ReadRecord(offset, 7, each)
            for offset, each in enumerate(records)
        ]
        visible = [(each.offset, each.value) for each in found if each.value and each.value in committed.split(",")]
        end = len(records)
        self.logs.add(key, found, visible, end, end if stable_end is None else stable_end)

    def both(self, one: str = "", other: str = "") -> None:
        self.log(ONE, "a#0 x", COMMIT, committed=one)
        self.log(OTHER, "a#1 x", COMMIT, committed=other)


# --- aborted reads ---


def test_a_record_may_be_read_once_its_commit_was_sent() -> None:
    past = Past()
    checker = AbortedReadChecker(past.reports.append, past.ledger)
    past.ledger.commit_sent(past.transaction)
    checker.on_read("r", ONE, 0, "a#0 x")
    past.ledger.ended(past.transaction)  # the client gives up, and never learns its fate
    checker.on_read("r", ONE, 0, "a#0 x")
    assert not past.reports


def test_a_record_of_a_transaction_that_is_open_aborted_or_refused_is_reported() -> None:
    past = Past()
    checker = AbortedReadChecker(past.reports.append, past.ledger)
    checker.on_read("r", ONE, 0, "a#0 x")
    past.ledger.ended(past.transaction)
    checker.on_read("r", ONE, 0, "a#0 x")
    refused = past.begin(ONE, "a#2 x")
    past.ledger.commit_sent(refused)
    past.ledger.refused(refused)
    checker.on_read("r", ONE, 0, "a#2 x")
    assert len(past.reports) == 3
    assert all("aborted read" in each for each in past.reports)


def test_a_record_that_nobody_sent_or_that_went_elsewhere_is_reported() -> None:
    past = Past()
    checker = AbortedReadChecker(past.reports.append, past.ledger)
    past.ledger.commit_sent(past.transaction)
    checker.on_read("r", ONE, 0, "z#0 x")
    checker.on_read("r", OTHER, 0, "a#0 x")
    assert len(past.reports) == 2


# --- lost, torn, twice ---


def test_an_acknowledged_commit_must_be_visible_in_all_partitions() -> None:
    past = Past()
    past.both("a#0 x")
    assert not list(lost_writes(past.ledger, past.logs))
    past.ledger.commit_sent(past.transaction)
    past.ledger.committed(past.transaction)
    [lost] = lost_writes(past.ledger, past.logs)
    assert "1 of 2 records" in lost
    past.both("a#0 x", "a#1 x")
    assert not list(lost_writes(past.ledger, past.logs))


def test_a_commit_in_doubt_is_visible_as_a_whole_or_not_at_all() -> None:
    past = Past()
    past.ledger.commit_sent(past.transaction)
    for one, other, expected in (("", "", 0), ("a#0 x", "a#1 x", 0), ("a#0 x", "", 1)):
        past.both(one, other)
        assert len(list(torn_transactions(past.ledger, past.logs))) == expected


def test_what_was_never_committed_must_not_be_visible() -> None:
    past = Past()
    past.both("a#0 x", "a#1 x")
    assert "aborted write" in next(torn_transactions(past.ledger, past.logs))


def test_records_that_are_there_twice_or_out_of_order_are_reported() -> None:
    past = Past()
    past.log(ONE, "a#0 x", "b#0 x", "a#1 x", COMMIT, "a#2 x")
    assert not list(duplicates(past.logs))
    past.log(ONE, "a#0 x", COMMIT, "a#0 x")
    assert "duplicate" in next(duplicates(past.logs))
    past.log(ONE, "a#1 x", "a#0 x")
    assert "behind" in next(duplicates(past.logs))


# --- markers ---


def test_a_record_without_a_marker_behind_it_hangs() -> None:
    past = Past()
    past.log(ONE, "a#0 x", COMMIT, COMMIT)
    assert not list(hanging(past.logs))
    past.log(ONE, "a#0 x", COMMIT, "a#1 x", stable_end=2)
    assert len(list(hanging(past.logs))) == 2


def test_a_marker_of_the_other_kind_is_reported_unless_the_commit_is_in_doubt() -> None:
    past = Past()
    past.log(ONE, "a#0 x", ABORT)
    past.log(OTHER, "a#1 x", ABORT)
    assert not list(wrong_markers(past.ledger, past.logs))
    past.ledger.commit_sent(past.transaction)
    assert not list(wrong_markers(past.ledger, past.logs))
    past.ledger.committed(past.transaction)
    assert len(list(wrong_markers(past.ledger, past.logs))) == 2


# --- polls ---


def test_polls_in_order_that_skip_nothing_pass() -> None:
    past = Past()
    checker = PollChecker(past.reports.append)
    past.log(ONE, "a#0 x", COMMIT, "a#1 x", ABORT, "a#2 x", COMMIT, committed="a#0 x,a#2 x")
    checker.begins("r", ONE, 0)
    checker.on_poll("r", ONE, [(0, "a#0 x")], 2)
    checker.on_poll("r", ONE, [], 4)
    checker.on_poll("r", ONE, [(4, "a#2 x")], 6)
    assert not past.reports
    assert not list(checker.differences(past.logs))


def test_polls_that_go_back_are_reported() -> None:
    past = Past()
    checker = PollChecker(past.reports.append)
    checker.begins("r", ONE, 3)
    checker.on_poll("r", ONE, [(2, "a#0 x")], 4)
    checker.on_poll("r", ONE, [], 3)
    assert len(past.reports) == 2


def test_polls_that_skip_or_make_up_records_are_reported() -> None:
    past = Past()
    checker = PollChecker(past.reports.append)
    past.log(ONE, "a#0 x", COMMIT, "a#1 x", COMMIT, committed="a#0 x,a#1 x")
    checker.begins("r", ONE, 0)
    checker.on_poll("r", ONE, [(0, "a#0 x")], 4)
    [skipped] = checker.differences(past.logs)
    assert "skipped 1 committed records" in skipped
    past.log(ONE, "a#0 x", ABORT)
    assert "that are not there" in next(iter(checker.differences(past.logs)))


# --- the last stable offset ---


def test_the_last_stable_offset_may_rise_and_start_anew_in_another_term() -> None:
    reports: list[str] = []
    checker = StableOffsetChecker(reports.append)
    checker.on_offset(ONE, checker.known(ONE, (1, 1)), 5, 6, (1, 1))
    checker.on_offset(ONE, 3, 4, 6, (1, 1))  # the response to an older request
    checker.on_offset(ONE, checker.known(ONE, (2, 1)), 2, 2, (2, 1))
    checker.on_records("r", ONE, 5, 5)
    assert not reports


def test_a_last_stable_offset_that_falls_or_is_too_high_is_reported() -> None:
    reports: list[str] = []
    checker = StableOffsetChecker(reports.append)
    checker.on_offset(ONE, 0, 5, 6)
    checker.on_offset(ONE, checker.known(ONE), 4, 6)
    checker.on_offset(ONE, 0, 7, 6)
    checker.on_records("r", ONE, 6, 5)
    assert ["went back" in reports[0], "above" in reports[1], "stable are 5" in reports[2]] == [True] * 3


# --- zombies ---


def test_an_instance_that_was_superseded_may_be_fenced_and_may_not_be_accepted() -> None:
    reports: list[str] = []
    checker = FencingChecker(reports.append)
    first = checker.begins("tx")
    checker.initialized("tx", first, 7, 0)
    checker.accepted("tx", first, "EndTxn", checker.newest("tx"))
    second = checker.begins("tx")
    checker.fenced("tx", first, "EndTxn", is_excused=False)
    checker.accepted("tx", first, "EndTxn", checker.newest("tx"))  # the second has no epoch yet
    newest_before = checker.newest("tx")
    checker.initialized("tx", second, 7, 1)
    checker.accepted("tx", first, "EndTxn", newest_before)
    assert not reports
    checker.accepted("tx", first, "EndTxn", checker.newest("tx"))
    assert "zombie" in reports[0]


def test_one_that_is_fenced_without_a_reason_is_reported() -> None:
    reports: list[str] = []
    checker = FencingChecker(reports.append)
    first = checker.begins("tx")
    checker.fenced("tx", first, "EndTxn", is_excused=True)
    assert not reports
    checker.fenced("tx", first, "EndTxn", is_excused=False)
    assert "without a reason" in reports[0]


def test_two_instances_with_one_epoch_are_reported() -> None:
    reports: list[str] = []
    checker = FencingChecker(reports.append)
    checker.initialized("tx", checker.begins("tx"), 7, 0)
    checker.initialized("tx", 1, 7, 0)  # the same one, which has repeated its request
    assert not reports
    checker.initialized("tx", checker.begins("tx"), 7, 0)
    assert reports


# --- offsets ---


class Offsets(Past):
    """Two transactions that commit 3 and then 5 for one partition of a group."""

    def __init__(self) -> None:
        super().__init__()
        self.is_excused = False
        self.checker = OffsetChecker(self.reports.append, self.ledger, lambda: self.is_excused)
        self.ledger.sending_offset(self.transaction, OFFSET_KEY, 3)
        self.second = self.begin(ONE, "a#2 x")
        self.ledger.sending_offset(self.second, OFFSET_KEY, 5)

    def fetched(self, offset: int) -> list[str]:
        self.checker.on_stable("p", OFFSET_KEY, self.checker.floor(OFFSET_KEY), offset)
        return self.reports


def test_an_offset_follows_the_fate_of_its_transaction() -> None:
    past = Offsets()
    assert not past.fetched(-1)
    assert "aborted offset" in past.fetched(3)[0]
    past.reports.clear()
    past.ledger.commit_sent(past.transaction)
    assert not past.fetched(-1)
    assert not past.fetched(3)
    past.ledger.committed(past.transaction)
    past.ledger.commit_sent(past.second)
    assert not past.fetched(3)
    assert not past.fetched(5)
    assert "3 was acknowledged" in past.fetched(-1)[0]
    assert "no transaction" in past.fetched(4)[1]
    past.reports.clear()
    past.is_excused = True
    assert not past.fetched(-1)


def test_records_and_offsets_of_a_transaction_agree() -> None:
    past = Offsets()
    past.ledger.commit_sent(past.transaction)
    past.ledger.commit_sent(past.second)
    past.both("a#0 x", "a#1 x")
    past.fetched(3)
    assert not list(past.checker.disagreements(past.logs))
    past.log(ONE, "a#0 x", "a#2 x", COMMIT, committed="a#0 x,a#2 x")
    assert "not 5" in next(past.checker.disagreements(past.logs))
    past.both()
    assert "no record is visible" in next(past.checker.disagreements(past.logs))


def test_each_input_below_the_committed_offset_is_processed_once() -> None:
    past = Offsets()
    past.ledger.commit_sent(past.transaction)
    past.log(ONE, "in#0 x", "in#1 x", COMMIT, "in#2 x", COMMIT, committed="in#0 x,in#1 x,in#2 x")
    outputs = [f"p#{offset} {made_of(OFFSET_KEY, offset)}" for offset in (0, 1, 3)]
    past.fetched(3)
    for written, expected in ((outputs[:2], []), (outputs[:1], ["1 0 times"]), (outputs, ["3 1 times"])):
        past.log(OTHER, *written, committed=",".join(written))
        found = list(past.checker.not_exactly_once(OFFSET_KEY, past.logs, input_of))
        assert [text in each for text, each in zip(expected, found, strict=True)] == [True] * len(expected), found
    assert input_of("tx.1#0 xxx") is None


# --- late markers ---


def test_a_marker_of_an_earlier_epoch_is_late() -> None:
    def found(*records: tuple[int, ControlType | None], ends_raise_epoch: bool = False) -> list[str]:
        logs = FinalLogs()
        rows = [ReadRecord(n, 7, "", marker, epoch) for n, (epoch, marker) in enumerate(records)]
        logs.add(ONE, rows, [], len(rows), len(rows))
        return list(late_markers(logs, ends_raise_epoch=ends_raise_epoch))

    assert not found((1, None), (2, COMMIT), (2, None), (2, ABORT), (2, COMMIT))
    assert "late marker" in found((1, None), (2, COMMIT), (3, None), (2, COMMIT))[0]
    assert "in a transaction of epoch 1" in found((1, None), (2, None), (3, COMMIT))[0]
    assert not found((1, None), (2, COMMIT), (2, COMMIT), (2, None), (3, COMMIT), ends_raise_epoch=True)
    assert "late marker" in found((1, None), (2, COMMIT), (2, None), (2, COMMIT), ends_raise_epoch=True)[0]
