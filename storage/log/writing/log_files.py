"""Writes the small files beside a log's segments: indexes, snapshots of producers, transaction indexes, the folder's files.

Rules: methods run on the event loop and queue jobs, in order with the log's writes; a job copies what it writes when it is
queued.
Invariant: while appends are buffered nothing is written, because the folder is about to be removed.
Source: Kafka LogSegment (closing its indexes), ProducerStateManager.writeSnapshot, TransactionIndex.append.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from runtime.disk.filesystem import FileSystem
from storage.log.writing.log_jobs import LogJobs
from storage.log.writing.pending_writes import PendingWrites
from storage.segments.segment import Segment
from storage.segments.segment_files import (
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_path,
    sync_file,
    write_index,
    write_page,
)
from storage.segments.txn_index import AbortedTxn, TxnIndex


class LogFiles:
    """The files of one log's folder, without the records."""

    __slots__ = ("_filesystem", "_jobs", "_pending")

    def __init__(self, filesystem: FileSystem, jobs: LogJobs, pending: PendingWrites) -> None:
        self._filesystem = filesystem
        self._jobs = jobs
        self._pending = pending

    def index_job(self, segment: Segment) -> Callable[[], None]:
        """Return a job that writes what the segment's indexes have in memory now."""
        filesystem = self._filesystem
        tails = [
            (segment.path(index.suffix), *index.unwritten()) for index in (segment.offset_index, segment.time_index)
        ]

        def job() -> None:
            for path, content, position in tails:
                write_index(filesystem, path, content, position)

        return job

    def index_aborted(self, segment: Segment, aborted: Sequence[AbortedTxn]) -> None:
        """Add aborted transactions to the segment's transaction index, before the log is written."""
        if segment.txn_index is None:
            segment.txn_index = TxnIndex(0, bytearray())
        content, position = segment.txn_index.append(aborted)
        self._jobs.run_or_fail(partial(write_page, self._filesystem, segment.path(TXN_INDEX_SUFFIX), content, position))

    async def write_snapshot(self, directory: str, content: bytes, offset: int) -> None:
        """Write and flush a snapshot of the producers before `offset`."""
        if self._pending.is_buffering:
            return
        filesystem, path = self._filesystem, segment_path(directory, offset, SNAPSHOT_SUFFIX)

        def job() -> None:
            filesystem.write_bytes(path, content)
            sync_file(filesystem, path)
            filesystem.sync_directory(directory)

        await self._jobs.run_and_wait(job, self._jobs.refuse_on)

    def write_file(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace a small file of the log's folder. Unless `durable`, a loss of power may lose or tear it."""
        if self._pending.is_buffering:
            return
        filesystem = self._filesystem

        def replace() -> None:
            filesystem.write_bytes(path + ".tmp", content)
            filesystem.rename(path + ".tmp", path)

        self._jobs.run_or_fail(partial(filesystem.replace, path, content) if durable else replace)
