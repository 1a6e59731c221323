"""Moves the recovery point of one log: flushes its segments, and knows what of them is on the disk.

    written --fsync of the active segment (flush.messages, flush.ms, a stop)--> on the disk --> recovery point
    rolled  --`FinishedSegments`--------------------------------------------> on the disk --> recovery point

Rules: methods run on the event loop; files are synced in the directory's queue, finished segments in reader threads.
Invariants: everything below `recovery_point` is on the disk, with its leader epochs, transaction index and the names of its
files.
Source: Kafka UnifiedLog.flush, LocalLog.markFlushed, LogSegment.flush.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from storage.disk_use import TimedJob
from storage.folder_files import parent_of
from storage.log.leader_epoch_file import LeaderEpochFile
from storage.log.log_environment import LogEnvironment
from storage.log.log_offsets import LogOffsets
from storage.log.writing.finished_segments import FinishedSegments
from storage.log.writing.log_jobs import LogJobs
from storage.log.writing.write_refusals import WriteRefusals
from storage.segments.segment import Segment
from storage.segments.segment_files import TXN_INDEX_SUFFIX, sync_data, sync_file, sync_segment
from storage.segments.segment_list import Segments


class LogDurability:
    """What of one log is on the disk."""

    __slots__ = (
        "_directory",
        "_environment",
        "_epochs",
        "_finished",
        "_folder_is_durable",
        "_jobs",
        "_offsets",
        "_refusals",
        "_segments",
        "_unsynced_index",
        "flushed_ms",
    )

    def __init__(
        self,
        directory: str,
        offsets: LogOffsets,
        segments: Segments,
        epochs: LeaderEpochFile,
        environment: LogEnvironment,
        jobs: LogJobs,
        refusals: WriteRefusals,
    ) -> None:
        self._directory = directory
        self._offsets = offsets
        self._segments = segments
        self._epochs = epochs
        self._environment = environment
        self._jobs = jobs
        self._refusals = refusals
        # Monotonic time of the last flush.
        self.flushed_ms = environment.clock.monotonic_ms()
        self._finished = FinishedSegments(offsets, segments, environment, refusals)
        # The segment with aborted transactions that no `flush.messages` has flushed yet.
        self._unsynced_index: Segment | None = None
        # Whether the log directory is known to list this log's folder even after a loss of power.
        self._folder_is_durable = False

    # --- each append, as flush.messages asks for it ---

    def note_index_grown(self, segment: Segment) -> None:
        """Note that the transaction index of the active segment gets entries."""
        self._unsynced_index = segment

    def sync_append(self, segment: Segment, next_offset: int, done: Callable[[OSError | None], None]) -> None:
        """Flush the active segment behind the write that was queued last and ends before `next_offset`; then call `done`."""
        self._epochs.keep()
        has_index = segment is self._unsynced_index
        self._unsynced_index = None
        self._jobs.run(partial(self._sync_active, segment, has_index), partial(self._on_synced, next_offset, done))

    def _sync_active(self, segment: Segment, has_index: bool) -> None:
        """A job: flush the segment. `has_index`: its transaction index has grown, which a recovery point at the segment's end
        needs on the disk."""
        assert segment.file is not None
        sync_data(segment.file)
        if has_index:
            sync_file(self._environment.filesystem, segment.path(TXN_INDEX_SUFFIX))
        if has_index or not segment.name_is_durable:  # the folder may not list the index yet, or the segment
            self._environment.filesystem.sync_directory(segment.directory)
        if not segment.name_is_durable:
            self._environment.filesystem.sync_directory(parent_of(segment.directory))
            segment.name_is_durable = True

    def _on_synced(self, next_offset: int, done: Callable[[OSError | None], None], error: OSError | None) -> None:
        offsets = self._offsets
        if error is None and self._segments.at_or_before(offsets.recovery_point) is self._segments.active:
            offsets.recovery_point = max(offsets.recovery_point, next_offset)
        done(error)

    # --- everything, and finished segments ---

    async def flush(self, end_offset: int) -> None:
        """Flush everything placed so far, which ends at `end_offset`."""
        if self._segments.active.is_removed:
            return  # closed, and its folder may be set aside
        offsets = self._offsets
        segments = self._segments.starting_from(offsets.recovery_point)
        self._epochs.keep()

        truncations_count = offsets.truncations_count
        parent = None if self._folder_is_durable else parent_of(self._directory)

        was_begun = False

        def job() -> None:
            nonlocal was_begun
            was_begun = True
            if parent is not None:
                self._environment.filesystem.sync_directory(parent)
            for segment in segments:
                sync_segment(self._environment.filesystem, segment.directory, segment.base_offset, segment.file)

        def done(error: OSError | None) -> None:
            self._environment.open_segments.unpin(segments)
            if error is None:
                self._environment.disk_use.flushes.add(timed.took_ns)
            elif was_begun:  # otherwise a write before it was refused, and has reported that
                self._refusals.fail(error)  # whatever an fsync says, what it was to keep may be lost

        self._environment.open_segments.pin(segments)
        timed = TimedJob(job, self._environment.clock)
        await self._jobs.run_and_wait(timed, done)
        if self._refusals.may_use_disk and truncations_count == offsets.truncations_count:
            self._folder_is_durable = True
            offsets.recovery_point = max(offsets.recovery_point, end_offset)

    def flush_finished(self, rolled: Segment, end_offset: int) -> None:
        """Flush `rolled`, which was finished at `end_offset`, in a reader thread."""
        self._finished.flush(rolled, end_offset)

    # --- changed ends ---

    def drop_truncated(self, offset: int) -> None:
        """Note that the log was truncated to `offset`: earlier flushes of the shortened segment say nothing about its next
        content."""
        self._finished.drop_truncated(lambda end_offset: end_offset > offset)

    def forget_finished(self) -> None:
        """Note that none of the former segments is left."""
        self._finished.drop_truncated(lambda _: True)
