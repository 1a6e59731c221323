"""Compares the end of a log's last file with the end that its checkpoint names.

Rules: `check_end` runs on the event loop, when the last segment is opened for the first time.
Source: none in Kafka, which reads the last segment at every start.
"""

from __future__ import annotations

import logging

from storage.log.log_offsets import LogOffsets
from storage.segments.segment import OpenedSegment

logger = logging.getLogger(__name__)


def check_end(offsets: LogOffsets, directory: str, opened: OpenedSegment) -> None:
    """Log it when the log in `directory` ends before its expected end. `opened` is the last segment, to which nothing was
    appended yet."""
    if not offsets.is_end_checked:
        offsets.is_end_checked = True
        if opened.problem is None and opened.next_offset < offsets.log_end_offset:
            log_lost_end(directory, opened.next_offset, offsets.recovery_point)


def log_lost_end(directory: str, end_offset: int, recovery_point: int) -> None:
    logger.warning(
        "log ends below its recovery point, records are missing: path=%s end_offset=%d recovery_point=%d",
        directory, end_offset, recovery_point,
    )  # fmt: skip
