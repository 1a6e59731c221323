"""Closes the file of a log's active segment when nothing uses it: thousands of logs may be open.

Rules: runs on the event loop. The next append or read opens the file again.
Source: ours: Kafka keeps the files of all segments open.
"""

from __future__ import annotations

from storage.log.partition_log import PartitionLog


async def close_unused_file(log: PartitionLog) -> None:
    """Close the file of the active segment, if nothing uses it."""
    if not log.may_lose_segments:
        return
    active = log.segments.active
    if log.is_at_rest:
        is_unused = not active.pins  # a file that is closed at the end of a read may be used by an append by then
    else:
        is_unused = await log.writer.write_indexes() and log.may_lose_segments
    if is_unused:
        log.environment.open_segments.close(active)
