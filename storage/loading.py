"""Opening a partition's folder: which segments there are, where the log ends, what its producers and epochs were.

After a clean stop nothing is opened: the end is the checkpointed recovery point, the producers are in the snapshot at
that offset, and the sizes come from the folder. After an unclean one every segment from the recovery point on is
walked with its checksums; the first byte that is no valid batch ends the log, what lies behind is cut off, and indexes,
producers and leader epochs are made anew from what was walked.

Rules: blocking, touches nothing but its folder; runs in a queue's thread.
Invariants: what is answered describes exactly the bytes of the files. After an unclean stop they may still be in the page
cache alone, so the recovery point stays where it was.
Source: Kafka LogLoader, LogSegment.recover, UnifiedLog.rebuildProducerState; KIP-516 (partition.metadata).
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass

from protocol.primitives import ZERO_UUID, DecodeError, uuid_from_text, uuid_to_text
from protocol.records.batch import BatchHeader
from runtime.filesystem import Buffer, FileSystem
from storage.checkpoint import CorruptCheckpoint
from storage.index import OffsetIndex, TimeIndex
from storage.interrupted_swap import finish_swap, segment_file_offset
from storage.leader_epochs import LeaderEpochs
from storage.producer_state import CorruptSnapshot, ProducerStates
from storage.recovery import SegmentScan, open_segment, scan_segment, walk, write_indexes
from storage.segment import LOG_SUFFIX, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, Segment, create_files, segment_path

logger = logging.getLogger(__name__)

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OffsetIndex.suffix, TimeIndex.suffix, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX)


@dataclass(slots=True)
class LoadedLog:
    """What `load_log` found."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    topic_id: bytes
    epochs: LeaderEpochs
    producers: ProducerStates
    truncated_bytes: int = 0
    has_epoch_file: bool = False
    lacks_snapshot: bool = False
    """The producers are in no snapshot of this end: a clean stop has to leave one."""


@dataclass(slots=True)
class LoadRequest:
    """What is known of a log before its folder is read: checkpoints are None where they do not name it."""

    directory: str
    is_clean: bool
    index_interval_bytes: int
    now_ms: int
    recovery_point: int | None = None
    log_start_offset: int | None = None
    topic_id: bytes = ZERO_UUID
    is_compacted: bool = False
    forgets_without_snapshot: bool = True
    """Kafka's rule for a clean start: without any snapshot the producers are not looked for in the log."""


def make_and_load_log(filesystem: FileSystem, request: LoadRequest) -> LoadedLog:
    """The same for a folder that may not be there yet."""
    filesystem.make_directory(request.directory)
    return load_log(filesystem, request)


def load_log(filesystem: FileSystem, request: LoadRequest) -> LoadedLog:
    """Bring the folder in order and answer what it holds. Raises OSError, LegacyFormat."""
    return _Loading(filesystem, request).load()


class _Loading:
    """One load, step by step."""

    def __init__(self, filesystem: FileSystem, request: LoadRequest) -> None:
        self._filesystem = filesystem
        self._request = request
        self._directory = request.directory
        self._segments: list[Segment] = []
        self._snapshots: list[int] = []
        self._producers = ProducerStates()
        self._truncated_bytes = 0
        self._is_new = False
        self._epochs = LeaderEpochs()
        self._walked_epochs: list[tuple[int, int]] = []
        # Batches before this offset are in the producers' state already.
        self._replay_from = 0

    def load(self) -> LoadedLog:
        request = self._request
        self._list_files()
        log_start_offset = max(request.log_start_offset or 0, self._segments[0].base_offset)
        self._epochs, epochs_known = self._read_epochs()
        if self._is_new:
            end_offset = self._segments[0].base_offset
        elif request.is_clean:
            end_offset = self._known_end()
            self._restore_producers(end_offset)
            if self._snapshots or not request.forgets_without_snapshot:
                self._replay_to(end_offset)
        else:
            end_offset = self._recover(self._request.recovery_point or 0)
        if log_start_offset > end_offset:
            # Every record was deleted, and then the log lost its end: begin again where it is known to start.
            logger.warning("log restarted: directory=%s end=%d start=%d", self._directory, end_offset, log_start_offset)
            self._restart(log_start_offset)
            end_offset = log_start_offset
        self._settle_epochs(epochs_known, log_start_offset, end_offset)
        return LoadedLog(
            segments=self._segments,
            log_start_offset=log_start_offset,
            log_end_offset=end_offset,
            recovery_point=end_offset
            if request.is_clean or self._is_new
            else min(request.recovery_point or 0, end_offset),
            topic_id=self._topic_id(),
            epochs=self._epochs,
            producers=self._producers,
            truncated_bytes=self._truncated_bytes,
            has_epoch_file=epochs_known,
            lacks_snapshot=len(self._producers) > 0 and not (request.is_clean and end_offset in self._snapshots),
        )

    # --- files ---

    def _path(self, base_offset: int, suffix: str) -> str:
        return segment_path(self._directory, base_offset, suffix)

    def _list_files(self) -> None:
        names = finish_swap(self._filesystem, self._directory, self._filesystem.list_directory(self._directory))
        base_offsets: list[int] = []
        others: list[tuple[int, str]] = []
        for name in names:
            offset = segment_file_offset(name)
            if offset is None:
                continue
            if name.endswith(LOG_SUFFIX):
                base_offsets.append(offset)
            elif name.endswith(SNAPSHOT_SUFFIX):
                self._snapshots.append(offset)
            else:
                others.append((offset, name))
        known = set(base_offsets)
        for offset, name in others:
            if offset not in known and name.endswith((OffsetIndex.suffix, TimeIndex.suffix, TXN_INDEX_SUFFIX)):
                self._filesystem.unlink(f"{self._directory}/{name}")
        if base_offsets:
            for base_offset in base_offsets:
                size = self._filesystem.stat(self._path(base_offset, LOG_SUFFIX)).size_bytes
                self._segments.append(self._segment(base_offset, size))
        else:
            self._is_new = True
            self._create(self._request.log_start_offset or 0)

    def _segment(self, base_offset: int, size_bytes: int) -> Segment:
        return Segment(self._directory, base_offset, size_bytes=size_bytes, created_ms=self._request.now_ms)

    def _create(self, base_offset: int) -> None:
        create_files(self._filesystem, self._directory, base_offset).close()
        self._segments = [self._segment(base_offset, 0)]

    def _restart(self, offset: int) -> None:
        for segment in self._segments:
            remove_segment_files(self._filesystem, self._directory, segment.base_offset)
        for snapshot in self._snapshots:
            self._filesystem.unlink(self._path(snapshot, SNAPSHOT_SUFFIX))
        self._snapshots = []
        self._epochs.truncate_from_end(0)
        self._create(offset)
        self._filesystem.sync_directory(self._directory)

    def _topic_id(self) -> bytes:
        """The folder's topic id; a new folder, or one of before KIP-516, takes the caller's."""
        path = f"{self._directory}/{PARTITION_METADATA_FILE}"
        with contextlib.suppress(FileNotFoundError, DecodeError):
            return parse_partition_metadata(self._filesystem.read_bytes(path))
        topic_id = self._request.topic_id
        if topic_id != ZERO_UUID:
            self._filesystem.write_bytes(path, format_partition_metadata(topic_id))
        return topic_id

    # --- where the log ends ---

    def _known_end(self) -> int:
        """The end after a clean stop."""
        active = self._segments[-1]
        if not active.end_bytes:
            return active.base_offset
        recovery_point = self._request.recovery_point
        if recovery_point is not None and recovery_point > active.base_offset:
            return recovery_point
        opened = open_segment(self._filesystem, self._directory, active.base_offset, self._request.index_interval_bytes)
        opened.file.close()
        if opened.problem is not None:
            return self._recover(active.base_offset)
        return opened.next_offset

    def _recover(self, recovery_point: int) -> int:
        """Walk the segments from the one that holds `recovery_point`; cut the log where it stops making sense."""
        first = 0
        for at, segment in enumerate(self._segments):
            if segment.base_offset <= recovery_point:
                first = at
        end_offset = self._segments[first].base_offset
        self._restore_producers(end_offset)
        self._replay_to(end_offset)
        for at in range(first, len(self._segments)):
            segment = self._segments[at]
            if segment.base_offset > end_offset and not self._may_have_gaps:
                self._drop_behind(at - 1)
                break
            scan = self._recover_segment(segment)
            end_offset = scan.next_offset
            if scan.problem is not None:
                self._drop_behind(at)
                break
        return end_offset

    @property
    def _may_have_gaps(self) -> bool:
        """Whether offsets may be missing between two walked segments.

        Compaction leaves such gaps. So does a loss of power that kept pages of a segment but not the end of the one
        before; there the log ends at the gap, or this replica would keep the hole for ever. Without a recovery point
        the whole log is walked, and a topic may have been compacted once: then every gap is left alone.
        """
        return self._request.is_compacted or self._request.recovery_point is None

    def _recover_segment(self, segment: Segment) -> SegmentScan:
        file = self._filesystem.open(segment.path(LOG_SUFFIX))
        try:
            scan = scan_segment(
                file,
                segment.base_offset,
                interval_bytes=self._request.index_interval_bytes,
                check_crc=True,
                on_batch=self._replay_batch,
            )
            if scan.end_position < segment.end_bytes:
                logger.warning(
                    "torn log cut: file=%s from=%d bytes=%d problem=%r",
                    segment.path(LOG_SUFFIX), scan.end_position, segment.end_bytes - scan.end_position, scan.problem,
                )  # fmt: skip
                self._truncated_bytes += segment.end_bytes - scan.end_position
                file.truncate(scan.end_position)
                file.sync()  # or the cut could be undone by a loss of power, behind a recovery point that is its end
        finally:
            file.close()
        segment.written_bytes = segment.end_bytes = scan.end_position
        write_indexes(self._filesystem, self._directory, segment.base_offset, scan)
        self._walked_epochs.extend(scan.epochs)
        return scan

    def _drop_behind(self, at: int) -> None:
        """What lies behind a cut was written after what is lost: it cannot stay."""
        for segment in self._segments[at + 1 :]:
            logger.warning("segment behind a torn log removed: file=%s", segment.path(LOG_SUFFIX))
            self._truncated_bytes += segment.end_bytes
            remove_segment_files(self._filesystem, self._directory, segment.base_offset)
        del self._segments[at + 1 :]
        self._filesystem.sync_directory(self._directory)  # or a loss of power could bring them back

    # --- producers ---

    def _restore_producers(self, end_offset: int) -> None:
        """Take the newest sound snapshot at or below `end_offset`."""
        for offset in sorted(self._snapshots, reverse=True):
            path = self._path(offset, SNAPSHOT_SUFFIX)
            if offset <= end_offset:
                try:
                    self._producers = ProducerStates.from_snapshot(self._filesystem.read_bytes(path))
                except CorruptSnapshot as error:
                    logger.warning("producer snapshot dropped: file=%s problem=%r", path, str(error))
                else:
                    self._replay_from = offset
                    return
                self._filesystem.unlink(path)
                self._snapshots.remove(offset)
        self._producers = ProducerStates()
        self._replay_from = self._segments[0].base_offset

    def _replay_to(self, end_offset: int) -> None:
        """Bring the producers from their snapshot to `end_offset` by walking the batches between."""
        for segment in self._segments:
            following = segment_after(self._segments, segment)
            if segment.base_offset >= end_offset or (
                following is not None and following.base_offset <= self._replay_from
            ):
                continue
            file = self._filesystem.open(segment.path(LOG_SUFFIX), writable=False)
            try:
                scan = SegmentScan(end_position=0, next_offset=segment.base_offset)
                walk(file, segment.base_offset, scan, segment.end_bytes, check_crc=False, visit=self._replay_batch)
            finally:
                file.close()

    def _replay_batch(self, header: BatchHeader, buffer: Buffer, at: int) -> None:
        if header.producer_id >= 0 and header.base_offset >= self._replay_from:
            self._producers.replay(buffer, at, header)

    # --- leader epochs ---

    def _read_epochs(self) -> tuple[LeaderEpochs, bool]:
        """The checkpointed epochs, and whether there were any to read."""
        path = f"{self._directory}/{LEADER_EPOCH_FILE}"
        try:
            epochs = LeaderEpochs.from_checkpoint(self._filesystem.read_bytes(path))
            return epochs, len(epochs) > 0
        except FileNotFoundError:
            return LeaderEpochs(), False
        except CorruptCheckpoint as error:
            logger.warning("leader epochs read from the log: file=%s problem=%r", path, str(error))
            return LeaderEpochs(), False

    def _settle_epochs(self, known: bool, log_start_offset: int, end_offset: int) -> None:
        """Make the epochs fit the log as it is now."""
        walked = self._walked_epochs
        if not known and end_offset > log_start_offset:
            walked = []
            for segment in self._segments:
                file = self._filesystem.open(segment.path(LOG_SUFFIX), writable=False)
                try:
                    walked += scan_segment(
                        file, segment.base_offset, interval_bytes=segment.end_bytes, check_crc=False
                    ).epochs
                finally:
                    file.close()
        has_new = False
        for epoch, start_offset in walked:
            if epoch > self._epochs.latest_epoch:
                has_new |= self._epochs.assign(epoch, start_offset)
        # Entries outside of the log need not be written away: every load drops them again.
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(log_start_offset)
        if has_new:
            self._filesystem.replace(f"{self._directory}/{LEADER_EPOCH_FILE}", self._epochs.to_checkpoint())


def segment_after(segments: list[Segment], segment: Segment) -> Segment | None:
    at = segments.index(segment) + 1
    return segments[at] if at < len(segments) else None


def remove_segment_files(filesystem: FileSystem, directory: str, base_offset: int) -> None:
    """The `.log` goes last: a folder with an index alone is put right by the next start."""
    for suffix in reversed(SEGMENT_SUFFIXES):
        filesystem.unlink(segment_path(directory, base_offset, suffix))


def set_segments_aside(filesystem: FileSystem, directory: str, base_offsets: list[int]) -> list[str]:
    """Mark the files of segments `.deleted`; answers the new paths, which the caller removes later."""
    paths: list[str] = []
    for base_offset in base_offsets:
        for suffix in reversed(SEGMENT_SUFFIXES):
            path = segment_path(directory, base_offset, suffix)
            if filesystem.exists(path):
                filesystem.rename(path, f"{path}.deleted")
                paths.append(f"{path}.deleted")
    return paths


def parse_partition_metadata(content: bytes) -> bytes:
    """The topic id in a `partition.metadata` file. Raises DecodeError."""
    for line in content.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            return uuid_from_text(value.strip())
    raise DecodeError("no topic_id in partition.metadata")


def format_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode()
