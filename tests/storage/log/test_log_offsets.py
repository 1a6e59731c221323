from __future__ import annotations

import pytest

from storage.log.log_offsets import LogOffsets


def offsets(first_dirty_offset: int | None = None) -> LogOffsets:
    """A log from 10 to 50, committed to 40, on the disk to 30."""
    made = LogOffsets(10, 50, recovery_point=30)
    made.next_offset, made.high_watermark, made.first_dirty_offset = 60, 40, first_dirty_offset
    return made


@pytest.mark.parametrize(
    ("offset", "first_dirty_offset", "start", "high_watermark", "recovery_point", "first_dirty", "needs_checkpoint"),
    [
        (45, None, 10, 40, 30, None, False),
        (35, 20, 10, 35, 30, 20, False),
        (30, 31, 10, 30, 30, 30, True),  # only the first dirty offset falls
        (29, None, 10, 29, 29, None, True),  # only the recovery point
        (15, 20, 10, 15, 15, 15, True),
        (5, 20, 5, 5, 5, 5, True),  # among deleted records
    ],
)
def test_a_truncation_lowers_what_lies_behind_it(
    offset: int,
    first_dirty_offset: int | None,
    start: int,
    high_watermark: int,
    recovery_point: int,
    first_dirty: int | None,
    *,
    needs_checkpoint: bool,
) -> None:
    log = offsets(first_dirty_offset)
    log.end_at(offset)
    assert (log.log_end_offset, log.next_offset, log.is_end_checked, log.truncations_count) == (offset, offset, True, 1)
    assert (log.log_start_offset, log.high_watermark) == (start, high_watermark)
    assert (log.recovery_point, log.first_dirty_offset, log.needs_checkpoint) == (
        recovery_point,
        first_dirty,
        needs_checkpoint,
    )


@pytest.mark.parametrize(("offset", "recovery_point"), [(5, 5), (100, 30)])
def test_a_log_that_begins_again_has_no_records(offset: int, recovery_point: int) -> None:
    log = offsets()
    log.begin_again_at(offset)
    assert {log.log_start_offset, log.high_watermark, log.log_end_offset, log.next_offset} == {offset}
    assert (log.recovery_point, log.needs_checkpoint) == (recovery_point, recovery_point == offset)


def test_what_was_accepted_and_not_written_is_dropped() -> None:
    log = offsets()
    log.end_at_written()
    assert (log.next_offset, log.log_end_offset, log.truncations_count) == (50, 50, 0)
