"""Checkers are themselves checked: each must speak up at what it is there for, and only then."""

from __future__ import annotations

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.commits import CommitChecker, text_of
from tests.simulation.checkers.groups import GroupChecker
from tests.simulation.checkers.liveness import SETTLE_S, LivenessChecker
from tests.simulation.checkers.logs import LogChecker
from tests.simulation.disk_survey import FoundBatch
from tests.simulation.machine import End, Ended, LogState, Started

KEY: TopicPartition = ("orders", 0)
COMMIT = ("g", "orders", 0)


class Reports(list[str]):
    def __call__(self, what: str) -> None:
        self.append(what)


def log_checker(*, flushes_each: bool = False) -> tuple[LogChecker, Reports]:
    reports = Reports()
    checker = LogChecker(reports, ["orders"] if flushes_each else [])
    checker.watch(KEY)
    checker.sending(KEY, ["p.1#0 ", "p.1#1 ", "p.1#2 ", "p.1#3 "], 0)
    return checker, reports


def ended(how: End, *, written: int, durable: int, recovery_point: int = 0, start: int = 0) -> Ended:
    def batches(end: int) -> list[FoundBatch]:
        return [FoundBatch(start, end, 0, b"")] if end else []

    state = LogState(0, written, written, recovery_point, 0)
    return Ended(how, "", {KEY: batches(written)}, {KEY: batches(durable)}, {KEY: state})


def started(*after: Ended, end: int, start: int = 0, epoch: int = 1) -> Started:
    return Started(list(after), {KEY: LogState(start, end, end, 0, epoch)})


def test_a_value_that_was_not_sent_is_garbage() -> None:
    checker, reports = log_checker()
    checker.acknowledged(KEY, 0, ["p.1#0 "], 1)
    assert not reports
    checker.acknowledged(KEY, 1, ["x.1#0 "], 1)
    assert "never sent" in reports[0]


def test_two_values_at_one_offset_and_one_value_at_two_are_told() -> None:
    checker, reports = log_checker()
    checker.acknowledged(KEY, 0, ["p.1#0 "], 1)
    checker.acknowledged(KEY, 0, ["p.1#1 "], 1)
    checker.acknowledged(KEY, 5, ["p.1#0 "], 1)
    assert "was there" in reports[0]
    assert "duplicate" in reports[1]


def test_a_gap_in_a_fetch_is_told() -> None:
    checker, reports = log_checker()
    checker.fetched(KEY, checker.view(KEY), 1, [(0, "p.1#0 "), (1, "p.1#1 "), (2, "p.1#2 ")], 3)
    assert not reports
    checker.fetched(KEY, checker.view(KEY), 1, [(2, "p.1#2 ")], 3)
    assert "gap" in reports[0]


def test_records_above_the_high_watermark_are_told() -> None:
    checker, reports = log_checker()
    checker.fetched(KEY, checker.view(KEY), 0, [(0, "p.1#0 "), (1, "p.1#1 ")], 1)
    assert "the high watermark is 1" in reports[0]


def test_a_high_watermark_that_falls_is_told_unless_power_was_lost() -> None:
    checker, reports = log_checker()
    checker.watermark(KEY, checker.view(KEY), 5, 5)
    view = checker.view(KEY)
    checker.on_started(started(ended(End.POWER_CRASH, written=5, durable=3), end=3))
    checker.watermark(KEY, view, 3, 3)
    checker.watermark(KEY, checker.view(KEY), 3, 3)
    assert not reports
    checker.watermark(KEY, checker.view(KEY), 2, 2)
    assert "fell" in reports[0]


def test_acknowledged_records_must_outlive_the_process() -> None:
    checker, reports = log_checker()
    checker.acknowledged(KEY, 0, ["p.1#0 ", "p.1#1 "], 1)
    checker.on_started(started(ended(End.PROCESS_CRASH, written=2, durable=0), end=1))
    assert len(reports) == 2  # the file held them, and the producer knows of them


def test_flushed_records_must_outlive_a_loss_of_power_and_the_others_need_not() -> None:
    checker, reports = log_checker()
    checker.acknowledged(KEY, 0, ["p.1#0 ", "p.1#1 "], 1)
    checker.on_started(started(ended(End.POWER_CRASH, written=2, durable=1), end=1))
    assert not reports
    assert checker.partitions[KEY].known == {0: "p.1#0 "}
    checker.on_started(started(ended(End.POWER_CRASH, written=1, durable=1), end=0, epoch=2))
    assert "the files held 1" in reports[0]


def test_a_crash_after_the_loss_of_power_does_not_hide_it() -> None:
    checker, reports = log_checker()
    checker.acknowledged(KEY, 0, ["p.1#0 ", "p.1#1 "], 1)
    lives = ended(End.POWER_CRASH, written=2, durable=1), ended(End.PROCESS_CRASH, written=1, durable=1)
    checker.on_started(started(*lives, end=1))
    assert not reports


def test_the_recovery_point_must_not_be_ahead_of_the_disk() -> None:
    checker, reports = log_checker()
    checker.on_ended(ended(End.PROCESS_CRASH, written=9, durable=4, recovery_point=4))
    assert not reports
    checker.on_ended(ended(End.PROCESS_CRASH, written=9, durable=4, recovery_point=5))
    assert "recovery point 5" in reports[0]


def test_a_recovery_point_below_where_the_log_has_begun_anew_says_nothing() -> None:
    checker, reports = log_checker()
    checker.on_ended(ended(End.PROCESS_CRASH, written=20, durable=0, recovery_point=9, start=15))
    assert not reports
    checker.on_ended(ended(End.PROCESS_CRASH, written=20, durable=0, recovery_point=16, start=15))
    assert "recovery point 16" in reports[0]


def test_a_clean_stop_leaves_everything_on_the_disk() -> None:
    checker, reports = log_checker()
    checker.on_ended(ended(End.STOPPED, written=9, durable=8))
    assert "clean stop" in reports[0]


def test_flushed_topics_are_on_the_disk_when_they_are_acknowledged() -> None:
    checker, reports = log_checker(flushes_each=True)
    checker.acknowledged(KEY, 0, ["p.1#0 "], 1)
    checker.on_ended(ended(End.PROCESS_CRASH, written=1, durable=0))
    assert "flushed to 0" in reports[0]


def test_leader_epochs_never_fall() -> None:
    checker, reports = log_checker()
    checker.on_started(started(ended(End.STOPPED, written=0, durable=0), end=0, epoch=3))
    checker.on_started(started(ended(End.STOPPED, written=0, durable=0), end=0, epoch=3))
    assert not reports, "whoever leads on after a restart leads in the same epoch"
    checker.on_started(started(ended(End.STOPPED, written=0, durable=0), end=0, epoch=2))
    assert "leader epoch 2 after 3" in reports[0]


def test_out_of_range_needs_a_reason() -> None:
    checker, reports = log_checker()
    checker.acknowledged(KEY, 0, ["p.1#0 ", "p.1#1 "], 1)
    checker.out_of_range(KEY, checker.view(KEY), 7)
    checker.deleting(KEY, 1)
    checker.out_of_range(KEY, checker.view(KEY), 0)
    assert not reports
    checker.out_of_range(KEY, checker.view(KEY), 1)
    assert "out of range" in reports[0]


def test_what_is_missing_or_changed_at_the_end_is_told() -> None:
    checker, reports = log_checker()
    checker.acknowledged(KEY, 0, ["p.1#0 ", "p.1#1 "], 1)
    checker.at_rest(KEY, 0, [(0, "p.1#0 "), (1, "p.1#1 ")], 2)
    assert not reports
    checker.at_rest(KEY, 0, [(0, "p.1#0 ")], 2)
    assert "1 cannot be read" in reports[0]
    checker.at_rest(KEY, 0, [(0, "p.1#0 ")], 1)
    assert "now 'nothing'" in reports[1]


def test_the_order_of_a_producer_is_kept() -> None:
    checker, reports = log_checker()
    checker.at_rest(KEY, 0, [(0, "p.1#1 "), (1, "p.1#0 ")], 2)
    assert "stands behind" in reports[0]


def test_a_deletion_that_was_acknowledged_stays_over_a_clean_stop() -> None:
    checker, reports = log_checker()
    checker.deleting(KEY, 2)
    checker.deleted(KEY, 2, 2, is_cut=False)
    checker.on_started(started(ended(End.STOPPED, written=4, durable=4), end=4, start=1))
    assert "starts at 1 after a clean stop" in reports[0]


def test_commits_do_not_go_back() -> None:
    reports = Reports()
    checker = CommitChecker(reports)
    for offset in (1, 2):
        checker.sending(COMMIT, offset)
        checker.refused(COMMIT, offset)
    checker.acknowledged(COMMIT, 2, 0)
    checker.fetched(COMMIT, 2, 0, 2, text_of(2))
    assert not reports
    checker.fetched(COMMIT, 2, 0, 1, text_of(1))
    checker.fetched(COMMIT, 2, 0, -1, "")
    checker.fetched(COMMIT, 2, 0, 9, text_of(9))
    checker.fetched(COMMIT, 2, 0, 2, "another")
    assert all(word in report for word, report in zip(("back", "gone", "never", "metadata"), reports, strict=True))


def test_a_commit_in_doubt_may_come_late() -> None:
    reports = Reports()
    checker = CommitChecker(reports)
    checker.sending(COMMIT, 1)
    checker.acknowledged(COMMIT, 2, 0)
    checker.fetched(COMMIT, 2, 0, 1, text_of(1))
    assert not reports


def test_a_generation_has_one_leader_and_one_assignment() -> None:
    reports = Reports()
    checker = GroupChecker(reports)
    one, two = "one-" + "0" * 36, "two-" + "1" * 36
    checker.joined("g", 1, 5, one, "range", [one, two])
    checker.joined("g", 1, 5, one, "range", [])
    checker.assigning("g", 1, 5, {one: b"a", two: b"b"})
    checker.synced("g", 1, 5, two, None, b"b")
    assert not reports
    checker.synced("g", 1, 5, one, None, b"b")
    checker.joined("g", 1, 5, two, "range", [])
    checker.joined("g", 1, 4, two, "range", [])
    checker.committed("g", 1, 4, 5)
    assert len(reports) == 4


def test_liveness_is_asked_of_calm_times_alone() -> None:
    reports, now_s = Reports(), [0.0]
    checker = LivenessChecker(reports, lambda: now_s[0])
    checker.fault_begins()
    checker.timed_out("c", "Fetch", 0.0)
    now_s[0] = 10.0
    checker.fault_ends()
    checker.timed_out("c", "Fetch", 10.0 + SETTLE_S - 1)
    assert not reports
    checker.timed_out("c", "Fetch", 10.0 + SETTLE_S)
    now_s[0] = 30.0
    checker.woken("c", 20.0)
    assert len(reports) == 2
