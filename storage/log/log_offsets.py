"""The offsets of one log: where it starts, what of it is committed, on the disk, written and assigned.

    log_start_offset <= high_watermark <= log_end_offset <= next_offset
                          recovery_point <= log_end_offset

One object that the log and its parts share: who changes an offset changes it here.

Rules: pure. Whoever changes an offset keeps the order above; a truncation changes all at once (`end_at`, `begin_again_at`).
Invariants: `log_end_offset` is behind the last record that is written, `next_offset` behind the last one that is accepted;
everything below the recovery point is on the disk. Of a log at rest these three are equal.
Source: Kafka UnifiedLog and LocalLog (logStartOffset, highWatermarkMetadata, recoveryPoint, nextOffsetMetadata).
"""

from __future__ import annotations


class LogOffsets:
    """`first_dirty_offset`: below it the log was compacted; None when it never was, and has no gap between segments. The
    cleaner advances it and stores it in a checkpoint.

    `needs_checkpoint`: the recovery point or the first dirty offset has fallen, and its checkpoint is not updated yet.
    `truncations_count`: flushes, and records that were read, before the last one say nothing about the present content.
    `is_end_checked` is False until the end was read from the file of the last segment: after a clean stop it comes from a
    checkpoint.
    """

    __slots__ = (
        "first_dirty_offset",
        "high_watermark",
        "is_end_checked",
        "log_end_offset",
        "log_start_offset",
        "needs_checkpoint",
        "next_offset",
        "recovery_point",
        "truncations_count",
    )

    def __init__(self, log_start_offset: int, log_end_offset: int, recovery_point: int) -> None:
        """The offsets of a log that was loaded: nothing is known to be committed."""
        self.log_start_offset = self.high_watermark = log_start_offset
        self.log_end_offset = self.next_offset = log_end_offset
        self.recovery_point = recovery_point
        self.first_dirty_offset: int | None = None
        self.needs_checkpoint = self.is_end_checked = False
        self.truncations_count = 0

    def end_at(self, offset: int) -> None:
        """The log was truncated to `offset`, perhaps among deleted records, or among offsets that no batch has."""
        self.truncations_count += 1
        self.log_end_offset = self.next_offset = offset
        self.is_end_checked = True
        self.log_start_offset = min(self.log_start_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        if offset < self.recovery_point:
            self.recovery_point, self.needs_checkpoint = offset, True
        if self.first_dirty_offset is not None and offset < self.first_dirty_offset:
            # Otherwise a start would take the next records for clean.
            self.first_dirty_offset, self.needs_checkpoint = offset, True

    def begin_again_at(self, offset: int) -> None:
        """The log has no records any more, and begins at `offset`, which may be behind all that it had."""
        self.end_at(offset)
        self.log_start_offset = self.high_watermark = offset

    def end_at_written(self) -> None:
        """What was accepted and is not written yet was dropped."""
        self.next_offset = self.log_end_offset
