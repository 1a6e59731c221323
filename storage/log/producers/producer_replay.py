"""Rebuilds the producers of a log from its files: the newest valid snapshot, and the batches behind it.

    snapshot at 4711  -->  batches from 4711 to the offset that is asked for  -->  the producers as they were there

Rules: blocking, touches nothing but its folder. `steps_to` may go from thread to thread, one at a time:
a step is some milliseconds long, so that a log that is in use is walked beside others (`storage.log.removal.log_truncation`).
Invariant: `snapshots` are those that the folder has, of which one that cannot be read is none.
Source: Kafka UnifiedLog.rebuildProducerState, ProducerStateManager.truncateAndReload.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from protocol.records.batch import BatchHeader, InvalidBatch
from runtime.disk.filesystem import Buffer, FileSystem
from storage.log.producers.producer_state import CorruptSnapshot, ProducerStates
from storage.segments.segment import Segment
from storage.segments.segment_files import LOG_SUFFIX, SNAPSHOT_SUFFIX, segment_path
from storage.segments.segment_scan import SegmentScan, walk_in_steps
from storage.segments.txn_index import AbortedTxn

logger = logging.getLogger(__name__)


class ProducerReplay:
    """One replay: call `restore`, then pass batches to `replay_batch`."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        segments: Sequence[Segment],
        snapshots: Iterable[int],
        *,
        now_ms: int | None = None,
        expiration_ms: int | None = None,
    ) -> None:
        """`segments` may be changed by who has made this. With both times, those in a snapshot that have been idle for too
        long are left out."""
        self._filesystem = filesystem
        self._directory = directory
        self._segments = segments
        self._now_ms = now_ms
        self._expiration_ms = expiration_ms
        self._aborted: list[AbortedTxn] = []
        # Batches before this offset are in the producers' state already.
        self._replay_from = 0
        self.snapshots = list(snapshots)
        self.producers = ProducerStates()

    def _path(self, offset: int) -> str:
        return segment_path(self._directory, offset, SNAPSHOT_SUFFIX)

    # --- snapshots ---

    def restore(self, end_offset: int) -> None:
        """Load the newest valid snapshot at or below `end_offset`."""
        for offset in sorted(self.snapshots, reverse=True):
            if offset <= end_offset:
                try:
                    self.producers = ProducerStates.from_snapshot(
                        self._filesystem.read_bytes(self._path(offset)),
                        now_ms=self._now_ms,
                        expiration_ms=self._expiration_ms,
                    )
                except CorruptSnapshot as error:
                    logger.warning("producer snapshot removed: path=%s error=%s", self._path(offset), str(error))
                else:
                    self._replay_from = offset
                    return
                self._drop([offset])
        self.producers = ProducerStates()
        self._replay_from = self._segments[0].base_offset

    def keep(self, offset: int) -> None:
        """Ensure a snapshot at `offset`, the base offset of a segment, up to which the producers are known now. Without it the
        next start would have to read older batches."""
        if len(self.producers) and offset > self._replay_from and offset not in self.snapshots:
            self._filesystem.write_bytes(self._path(offset), self.producers.to_snapshot())
            self.snapshots.append(offset)

    def remove_obsolete(self, end_offset: int) -> None:
        """Remove snapshots of records that do not exist, and those of earlier ends: one a segment is kept, at its base offset,
        and the newest one behind the last of these."""
        base_offsets = {segment.base_offset for segment in self._segments}
        strays = [offset for offset in self.snapshots if offset not in base_offsets and offset <= end_offset]
        newest = max(strays, default=-1)
        if newest > self._segments[-1].base_offset:
            strays.remove(newest)
        lost = [offset for offset in self.snapshots if offset > end_offset]
        self._drop(strays + lost)
        if lost:
            self._filesystem.sync_directory(self._directory)  # a snapshot that came back would describe other records

    def drop_all(self) -> None:
        """Remove all snapshots, because there are no records any more."""
        self._drop(list(self.snapshots))

    def _drop(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._filesystem.unlink(self._path(offset))
            self.snapshots.remove(offset)

    # --- batches ---

    def replay_to(self, end_offset: int) -> None:
        """Advance the producers from their snapshot to `end_offset` by reading the batches between."""
        for _ in self.steps_to(end_offset):
            pass

    def steps_to(self, end_offset: int) -> Iterator[None]:
        """Like `replay_to`, step by step."""
        if self._replay_from >= end_offset:
            return  # as after a clean stop: the active segment, which no other follows, has nothing behind it
        for segment in self._segments:
            following = segment_after(self._segments, segment)
            if segment.base_offset >= end_offset or (
                following is not None and following.base_offset <= self._replay_from
            ):
                continue
            self.keep(segment.base_offset)
            yield from self._segment_steps(segment)

    def aborted_in(self, segment: Segment) -> list[AbortedTxn]:
        """Return the transactions whose abort marker is in the `.log` of `segment`."""
        self.restore(segment.base_offset)
        self.replay_to(segment.base_offset)
        self.take_aborted()
        for _ in self._segment_steps(segment):
            pass
        return self.take_aborted()

    def _segment_steps(self, segment: Segment) -> Iterator[None]:
        file = self._filesystem.open(segment.path(LOG_SUFFIX), writable=False)
        try:
            scan = SegmentScan(end_position=0, next_offset=segment.base_offset)
            yield from walk_in_steps(
                file, segment.base_offset, scan, segment.end_bytes, check_crc=False, visit=self.replay_batch
            )
        finally:
            file.close()

    def replay_batch(self, header: BatchHeader, buffer: Buffer, at: int) -> None:
        """See `recovery.OnBatch`."""
        if header.producer_id >= 0 and header.base_offset >= self._replay_from:
            try:
                ended = self.producers.replay(buffer, at, header)
            except InvalidBatch as error:  # an unreadable marker: not all walks check the CRC
                logger.warning(
                    "control batch ignored: path=%s offset=%d error=%s",
                    self._directory, header.base_offset, str(error),
                )  # fmt: skip
                return
            if ended is not None and ended.is_aborted:
                self._aborted.append(self.producers.aborted(ended))

    def take_aborted(self) -> list[AbortedTxn]:
        """Return and forget the transactions that the replayed batches have aborted since the last call."""
        aborted, self._aborted = self._aborted, []
        return aborted


def segment_after(segments: Sequence[Segment], segment: Segment) -> Segment | None:
    at = segments.index(segment) + 1
    return segments[at] if at < len(segments) else None
