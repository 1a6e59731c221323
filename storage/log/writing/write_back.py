"""Writes to the disk early, beside the appends: dirty pages of the active segment, full pages of index entries.

After every 16 MiB a reader thread flushes the segment, so that a later `write` or fsync seldom meets the kernel's limit of
dirty pages. An index keeps two pages of entries in memory; the older one goes to its file when both are full.

Rules: runs on the event loop, its work in reader threads, beside the directory's queue: nobody else writes the same bytes
meanwhile, or writes them to the same place. An error fails the log.
Source: Kafka leaves this to the kernel (memory-mapped indexes, vm.dirty_background_ratio).
"""

from __future__ import annotations

from functools import partial

from runtime.disk.filesystem import File
from storage.log.log_environment import LogEnvironment
from storage.log.writing.pending_writes import PendingWrites
from storage.log.writing.write_refusals import WriteRefusals
from storage.segments.index import PAGE_ENTRIES, SparseIndex
from storage.segments.segment import Segment
from storage.segments.segment_files import LOG_SUFFIX, write_page
from storage.segments.segment_list import Segments

WRITE_BACK_BYTES = 16 * 1024 * 1024


class WriteBack:
    """Starts the writes. `is_flushing`: a flush is in progress, and no other one begins."""

    __slots__ = ("_environment", "_pending", "_refusals", "_segments", "is_flushing")

    def __init__(
        self, segments: Segments, environment: LogEnvironment, pending: PendingWrites, refusals: WriteRefusals
    ) -> None:
        self._segments = segments
        self._environment = environment
        self._pending = pending
        self._refusals = refusals
        self.is_flushing = False

    def flush(self, segment: Segment) -> None:
        """Flush what was written to the segment, which may be closed meanwhile."""
        file = segment.file
        if file is None or self._environment.tasks.is_closed:
            return
        self.is_flushing = True
        self._environment.tasks.spawn(self._flush(segment, file), name=f"write back {segment.path(LOG_SUFFIX)}")

    async def _flush(self, segment: Segment, file: File) -> None:
        try:
            await self._environment.open_segments.run_pinned(segment, file.sync)
        except OSError as error:
            self._refusals.fail(error)  # the kernel reports a lost page once, so no other flush may report it
        finally:
            self.is_flushing = False

    def spill_full_pages(self, segment: Segment) -> None:
        """Move the older of two full pages of index entries from memory to the file."""
        for index in (segment.offset_index, segment.time_index):
            if index.has_full_page and not self._environment.tasks.is_closed:
                index.is_spilling = True
                self._pending.job_begun()
                self._environment.tasks.spawn(self._spill(segment, index), name=f"spill {segment.path(index.suffix)}")

    async def _spill(self, segment: Segment, index: SparseIndex) -> None:
        """Nobody reads the page from the file before it is reported, and a roll or a close meanwhile writes the same
        bytes to the same place."""
        content, position = index.unwritten(PAGE_ENTRIES)
        try:
            await self._environment.readers.run(
                partial(write_page, self._environment.filesystem, segment.path(index.suffix), content, position)
            )
        except OSError as error:
            self._refusals.on_refused(error)
        else:
            if segment is self._segments.active and not segment.is_awaited:
                index.written(PAGE_ENTRIES)
        finally:
            index.is_spilling = False
            self._pending.job_ended()
