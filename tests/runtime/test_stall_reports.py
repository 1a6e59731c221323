from __future__ import annotations

from runtime.stall_reports import REPORT_PAUSE_MS, WARNING_MS, StallReport, StallReports


def test_there_is_one_report_a_minute_with_count_and_longest() -> None:
    reports, told = StallReports(), []
    for now_ms in range(0, 4 * REPORT_PAUSE_MS, 100):  # a beat
        if now_ms % 1_000 == 0 and now_ms < 2 * REPORT_PAUSE_MS:
            reports.add(500 if now_ms == 90_000 else 104)
        if (report := reports.due(now_ms)) is not None:
            told.append((now_ms, report))
    assert told == [
        (0, StallReport(1, 104)),
        (REPORT_PAUSE_MS, StallReport(60, 104)),
        (2 * REPORT_PAUSE_MS, StallReport(59, 500)),
    ]
    assert reports.rest() is None


def test_a_stall_after_a_quiet_minute_is_told_at_once() -> None:
    reports = StallReports()
    reports.add(200)
    assert reports.due(0) == StallReport(1, 200)
    assert reports.due(REPORT_PAUSE_MS) is None
    reports.add(300)
    assert reports.due(REPORT_PAUSE_MS + 100) == StallReport(1, 300)


def test_what_was_not_told_is_there_at_the_end() -> None:
    reports = StallReports()
    reports.add(200)
    reports.due(0)
    reports.add(300)
    assert reports.due(100) is None
    assert reports.rest() == StallReport(1, 300)


def test_only_a_stall_above_a_second_is_a_warning() -> None:
    assert not StallReport(50, WARNING_MS).is_warning
    assert StallReport(1, WARNING_MS + 1).is_warning
