"""Loads a partition's folder: its segments, its end offset, its producers and its leader epochs.

After a clean stop nothing is opened: the end is the checkpointed recovery point, the producers are in the snapshot at that
offset, and the sizes come from the folder. Only when these suggest that the last segment is missing is the end read from the
file of the segment before it. After an unclean stop every segment from the recovery point on is walked with its checksums; the
log ends at the first byte that is not a valid batch; the bytes behind it are truncated, and indexes, producers and leader
epochs are rebuilt.

Rules: blocking; touches only its folder; runs in a disk queue's thread.
Invariants: the result describes exactly the bytes of the files. After an unclean stop they may still be in the page
cache alone, so the recovery point stays where it was. With `flush.messages=1` the walked segments are on the disk.
Source: Kafka LogLoader, LogSegment.recover; KIP-516 (partition.metadata).
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from itertools import pairwise

from protocol.primitives import ZERO_UUID, DecodeError
from runtime.disk.filesystem import FileSystem
from storage.checkpoint import CorruptCheckpoint
from storage.folder_files import (
    LEADER_EPOCH_FILE,
    MOVED_FILE,
    PARTITION_METADATA_FILE,
    format_partition_metadata,
    parent_of,
    parse_partition_metadata,
    remove_segment_files,
)
from storage.free_space import is_no_space
from storage.log.end_check import log_lost_end
from storage.log.leader_epochs import LeaderEpochs
from storage.log.producers.producer_replay import ProducerReplay, segment_after
from storage.log.producers.producer_state import ProducerStates
from storage.log.removal.truncation_marker import TRUNCATION_MARKER, begin_truncation, finish_truncation
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.interrupted_swap import finish_swap, segment_file_offset
from storage.segments.segment import MOST_RECORDS, Segment
from storage.segments.segment_files import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    create_files,
    segment_path,
    sync_file,
    write_index,
)
from storage.segments.segment_scan import SegmentScan, open_and_mend_segment, scan_segment, write_indexes
from storage.segments.segment_split import split_at_start
from storage.segments.txn_index import AbortedTxn, CorruptTxnIndex, TxnIndex, check_content, encode_transactions

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadedLog:
    """The result of `load_log`."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    topic_id: bytes
    epochs: LeaderEpochs
    producers: ProducerStates
    truncated_bytes: int = 0
    lacks_snapshot: bool = False
    """No snapshot describes the producers at this end, so a clean stop has to write one."""
    is_marked: bool = False
    """The folder has the marker file of a move between directories, which stays: see `storage.directories.interrupted_move`."""

    @property
    def is_blank(self) -> bool:
        """Whether the log has no bytes, and a single segment that begins at the log end."""
        [first, *others] = self.segments
        return not others and not first.end_bytes and first.base_offset == self.log_end_offset


@dataclass(slots=True)
class LoadRequest:
    """What is known of a log before its folder is read. Checkpointed offsets are None without an entry for the log."""

    directory: str
    is_clean: bool
    index_interval_bytes: int
    now_ms: int
    recovery_point: int | None = None
    log_start_offset: int | None = None
    topic_id: bytes = ZERO_UUID
    is_compacted: bool = False
    """The log is or was compacted, so offsets may be missing."""
    producer_expiration_ms: int | None = None
    """Producers in a snapshot that have been idle for this long are dropped."""
    full_bytes: int | None = None
    """A segment larger than this may be finished, because the next batch had no room in it."""
    flushes_appends: bool = False
    """Appends are flushed before they are acknowledged, and so is what is recovered: an acknowledgement may rest on a record
    that was found again, as when a coordinator repeats a response."""
    is_fresh: bool = False
    """The log was open a moment ago in this process: nothing else has changed its files."""

    def resume(self, log_end_offset: int, log_start_offset: int) -> None:
        """Prepare to load the log again after it was closed cleanly in this process."""
        self.is_clean = self.is_fresh = True
        self.recovery_point, self.log_start_offset = log_end_offset, log_start_offset


def make_and_load_log(filesystem: FileSystem, request: LoadRequest) -> LoadedLog:
    """Load a folder that may not exist yet. When there is no room for it, the folder is removed again: a start would find an
    unknown log, perhaps beside one that was created later in another directory."""
    was_there = filesystem.exists(request.directory)
    try:
        filesystem.make_directory(request.directory)
        return load_log(filesystem, request)
    except OSError as error:
        if is_no_space(error) and not was_there:
            filesystem.remove_tree(request.directory)
            filesystem.sync_directory(parent_of(request.directory))
        raise


def load_log(filesystem: FileSystem, request: LoadRequest) -> LoadedLog:
    """Repair the folder and return what it holds. Raises OSError."""
    loading = _Loading(filesystem, request)
    loaded = loading.load()
    if loading.overflowing:
        for base_offset in loading.overflowing:
            split_at_start(filesystem, request.directory, base_offset, request.index_interval_bytes)
        truncated_bytes, loaded = loaded.truncated_bytes, _Loading(filesystem, request).load()
        loaded.truncated_bytes += truncated_bytes
    return loaded


class _Loading:
    """Performs one load, step by step."""

    def __init__(self, filesystem: FileSystem, request: LoadRequest) -> None:
        self._filesystem = filesystem
        self._request = request
        self._directory = request.directory
        self._segments: list[Segment] = []
        self._txn_indexes: set[int] = set()
        self._producers = ProducerReplay(
            filesystem,
            request.directory,
            self._segments,
            (),
            now_ms=request.now_ms,
            expiration_ms=request.producer_expiration_ms,
        )
        self._truncated_bytes = 0
        # Base offsets of recovered segments that have to be split.
        self.overflowing: list[int] = []
        self._is_new = False
        self._is_marked = False
        # Base offsets of segments of which only an index was found.
        self._lost: list[int] = []
        # Bytes were truncated, in this load or before the stop, and a loss of power could bring them back until the flush.
        self._is_being_truncated = False
        self._epochs = LeaderEpochs()
        self._walked_epochs: list[tuple[int, int]] = []
        self._has_walked_all = False

    def load(self) -> LoadedLog:
        request = self._request
        self._list_files()
        self._read_txn_indexes()
        log_start_offset = max(request.log_start_offset or 0, self._segments[0].base_offset)
        self._epochs, epochs_known = self._read_epochs()
        if self._is_new:
            end_offset = self._segments[0].base_offset
        elif request.is_clean:
            end_offset = self._known_end()
            self._producers.restore(end_offset)
            if self._producers.snapshots:  # without any they are not looked for, as in Kafka
                self._producers.replay_to(end_offset)
        else:
            end_offset = self._recover(self._request.recovery_point or 0)
        if (request.recovery_point or 0) > end_offset:
            log_lost_end(self._directory, end_offset, request.recovery_point or 0)
        if log_start_offset > end_offset:
            # Every record was deleted, and then the log lost its end: begin again where it is known to start.
            logger.warning(
                "log emptied, it ended below its start offset: path=%s end_offset=%d start_offset=%d",
                self._directory,
                end_offset,
                log_start_offset,
            )
            self._restart(log_start_offset)
            end_offset = log_start_offset
        self._reconcile_epochs(epochs_known, log_start_offset, end_offset)
        self._producers.remove_obsolete(end_offset)
        if self._is_being_truncated:
            finish_truncation(self._filesystem, self._directory, self._segments[-1].base_offset)
        return LoadedLog(
            segments=self._segments,
            log_start_offset=log_start_offset,
            log_end_offset=end_offset,
            recovery_point=end_offset
            if request.is_clean or self._is_new
            else min(request.recovery_point or 0, end_offset),
            topic_id=self._topic_id(),
            epochs=self._epochs,
            producers=self._producers.producers,
            truncated_bytes=self._truncated_bytes,
            lacks_snapshot=len(self._producers.producers) > 0
            and not (request.is_clean and end_offset in self._producers.snapshots),
            is_marked=self._is_marked,
        )

    # --- files ---

    def _path(self, base_offset: int, suffix: str) -> str:
        return segment_path(self._directory, base_offset, suffix)

    def _list_files(self) -> None:
        names = finish_swap(self._filesystem, self._directory, self._filesystem.list_directory(self._directory))
        self._is_being_truncated = TRUNCATION_MARKER in names
        self._is_marked = MOVED_FILE in names
        base_offsets: list[int] = []
        others: list[tuple[int, str]] = []
        for name in names:
            offset = segment_file_offset(name)
            if offset is None:
                continue
            if name.endswith(LOG_SUFFIX):
                base_offsets.append(offset)
            elif name.endswith(SNAPSHOT_SUFFIX):
                self._producers.snapshots.append(offset)
            else:
                others.append((offset, name))
        known = set(base_offsets)
        for offset, name in others:
            if offset not in known and name.endswith((OffsetIndex.suffix, TimeIndex.suffix, TXN_INDEX_SUFFIX)):
                logger.warning("index without its segment removed: path=%s/%s", self._directory, name)
                self._filesystem.unlink(f"{self._directory}/{name}")
                self._lost.append(offset)
            elif name.endswith(TXN_INDEX_SUFFIX):
                self._txn_indexes.add(offset)
        if base_offsets:
            for base_offset in base_offsets:
                size = self._filesystem.stat(self._path(base_offset, LOG_SUFFIX)).size_bytes
                self._segments.append(self._segment(base_offset, size))
            self._log_empty_segments()
        else:
            self._is_new = True
            self._create(self._request.log_start_offset or 0)

    def _log_empty_segments(self) -> None:
        """Warn about empty segments. The cleaner may leave some; otherwise the file system has lost their content."""
        for segment, following in pairwise(self._segments):
            if not segment.end_bytes and not self._request.is_compacted:
                logger.warning(
                    "segment is empty, records are missing: path=%s start_offset=%d end_offset=%d",
                    segment.path(LOG_SUFFIX), segment.base_offset, following.base_offset,
                )  # fmt: skip

    def _segment(self, base_offset: int, size_bytes: int) -> Segment:
        return Segment(self._directory, base_offset, size_bytes=size_bytes, created_ms=self._request.now_ms)

    def _create(self, base_offset: int) -> None:
        create_files(self._filesystem, self._directory, base_offset).close()
        self._segments[:] = [self._segment(base_offset, 0)]

    def _mark_truncation(self) -> None:
        if not self._is_being_truncated:
            begin_truncation(self._filesystem, self._directory)
            self._is_being_truncated = True

    def _restart(self, offset: int) -> None:
        self._mark_truncation()
        for segment in self._segments:
            remove_segment_files(self._filesystem, self._directory, segment.base_offset)
        self._producers.drop_all()
        self._epochs.truncate_from_end(0)
        self._create(offset)
        self._filesystem.sync_directory(self._directory)

    def _topic_id(self) -> bytes:
        """Return the folder's topic id; a new folder, or one from before KIP-516, takes the id of the request."""
        path = f"{self._directory}/{PARTITION_METADATA_FILE}"
        with contextlib.suppress(FileNotFoundError, DecodeError):
            return parse_partition_metadata(self._filesystem.read_bytes(path))
        topic_id = self._request.topic_id
        if topic_id != ZERO_UUID:
            self._filesystem.write_bytes(path, format_partition_metadata(topic_id))
        return topic_id

    # --- where the log ends ---

    def _known_end(self) -> int:
        """Return the log end after a clean stop. When the log was truncated within a gap of compaction, the file gives the end
        of its last record, which is also where Kafka ends such a log after every start."""
        active = self._segments[-1]
        if not active.end_bytes:
            return active.base_offset
        known_end = self._request.recovery_point
        if known_end is not None and known_end <= active.base_offset:
            known_end = None
        if known_end is not None and not self._may_lack_a_segment(active, known_end):
            return known_end
        opened = open_and_mend_segment(
            self._filesystem, self._directory, active.base_offset, self._request.index_interval_bytes
        )
        opened.file.close()
        if known_end is not None:
            # Damage is reported when it is read: a log that was stopped cleanly is not truncated.
            return known_end if opened.problem is not None else min(opened.next_offset, known_end)
        if opened.problem is not None:
            return self._recover(active.base_offset)
        return opened.next_offset

    def _may_lack_a_segment(self, last: Segment, end_offset: int) -> bool:
        """Whether a segment after `last` may be missing, judged without reading any file: an index of it was found; the
        snapshot that a clean stop leaves at the end is missing; or `last` is as full as a finished segment. Otherwise it shows
        when `last` is first opened, see `storage.log.end_check`."""
        if self._request.is_fresh:
            return False
        full_bytes = self._request.full_bytes
        return (
            any(last.base_offset < offset < end_offset for offset in self._lost)
            or end_offset not in self._producers.snapshots
            or (full_bytes is not None and last.end_bytes > full_bytes)
        )

    def _recover(self, recovery_point: int) -> int:
        """Check the segments from the one that holds `recovery_point` on, and truncate the log at the first invalid batch."""
        first = 0
        for at, segment in enumerate(self._segments):
            if segment.base_offset <= recovery_point:
                first = at
        self._has_walked_all = first == 0
        end_offset = self._segments[first].base_offset
        self._producers.restore(end_offset)
        self._producers.replay_to(end_offset)
        for at in range(first, len(self._segments)):
            segment = self._segments[at]
            if segment.base_offset > end_offset and not self._may_have_gap_before(at):
                self._drop_behind(at - 1)
                break
            self._producers.keep(segment.base_offset)
            scan = self._recover_segment(at)
            end_offset = scan.next_offset
            if scan.problem is not None:
                break
        if end_offset < recovery_point:
            # Segments were being removed from the end on: a loss of power could bring them back behind other records.
            self._filesystem.sync_directory(self._directory)
        return end_offset

    def _may_have_gap_before(self, at: int) -> bool:
        """Whether offsets may be missing between two walked segments.

        Compaction leaves such gaps; what is copied of a compacted log does not, see `segment.rolls_at`. A loss of power leaves
        one too, when it kept pages of a segment but not the end of the one before; then the log ends at the gap, otherwise this
        replica would keep the hole for ever. Without a recovery point the whole log is walked, and it is not known whether it
        was ever compacted, so every gap is accepted. A gap too wide for the records of one segment is accepted too: it lies
        between the parts of a split segment.
        """
        distance = self._segments[at].base_offset - self._segments[at - 1].base_offset
        return self._request.is_compacted or self._request.recovery_point is None or distance > MOST_RECORDS

    def _recover_segment(self, at: int) -> SegmentScan:
        """Check one segment. Segments behind a torn one are removed before it is truncated, so that a start after a crash in
        between still sees the tear."""
        segment = self._segments[at]
        self._producers.take_aborted()
        file = self._filesystem.open(segment.path(LOG_SUFFIX))
        try:
            scan = scan_segment(
                file,
                segment.base_offset,
                interval_bytes=self._request.index_interval_bytes,
                check_crc=True,
                on_batch=self._producers.replay_batch,
            )
            if scan.problem is not None:
                self._drop_behind(at)
            if scan.end_position < segment.end_bytes:
                logger.warning(
                    "damaged end of a log truncated: path=%s position=%d truncated_bytes=%d error=%s",
                    segment.path(LOG_SUFFIX), scan.end_position, segment.end_bytes - scan.end_position, scan.problem,
                )  # fmt: skip
                self._truncated_bytes += segment.end_bytes - scan.end_position
                self._mark_truncation()
                file.truncate(scan.end_position)
                file.sync()  # otherwise a loss of power could undo the truncation below a recovery point at its end
            elif self._request.flushes_appends and scan.end_position:
                file.sync()
        finally:
            file.close()
        segment.written_bytes = segment.end_bytes = scan.end_position
        write_indexes(self._filesystem, self._directory, segment.base_offset, scan)
        self._write_txn_index(segment, self._producers.take_aborted())
        self._walked_epochs.extend(scan.epochs)
        if scan.overflows:
            self.overflowing.append(segment.base_offset)
        return scan

    def _drop_behind(self, at: int) -> None:
        """Remove the segments behind a truncation: they were written after what is lost."""
        self._mark_truncation()
        for segment in reversed(self._segments[at + 1 :]):
            logger.warning("segment behind a damaged one removed: path=%s", segment.path(LOG_SUFFIX))
            self._truncated_bytes += segment.end_bytes
            remove_segment_files(self._filesystem, self._directory, segment.base_offset)
        del self._segments[at + 1 :]
        self._filesystem.sync_directory(self._directory)  # otherwise a loss of power could bring them back

    # --- aborted transactions ---

    def _read_txn_indexes(self) -> None:
        """Find out which segments have a transaction index, and rebuild an invalid one from the `.log`."""
        for segment in self._segments:
            if segment.base_offset not in self._txn_indexes:
                continue
            path = segment.path(TXN_INDEX_SUFFIX)
            content = self._filesystem.read_bytes(path)
            try:
                check_content(content, segment.base_offset)
            except CorruptTxnIndex as error:
                logger.warning("transaction index rebuilt: path=%s error=%s", path, str(error))
                if self._will_recover(segment):
                    continue
                self._write_txn_index(segment, self._producers.aborted_in(segment))
            else:
                segment.txn_index = TxnIndex(len(content)) if content else None

    def _will_recover(self, segment: Segment) -> bool:
        """Whether recovery will check the segment, and rebuild its index from the valid batches."""
        following = segment_after(self._segments, segment)
        recovery_point = self._request.recovery_point or 0
        return not self._request.is_clean and (following is None or following.base_offset > recovery_point)

    def _write_txn_index(self, segment: Segment, aborted: list[AbortedTxn]) -> None:
        """Replace the segment's transaction index; without aborted transactions remove it.

        The index is on the disk when this returns: with `flush.messages`, a write moves the recovery point over the segment and
        does not flush an index that it has not changed.
        """
        path, content = segment.path(TXN_INDEX_SUFFIX), encode_transactions(aborted)
        if content:
            write_index(self._filesystem, path, content, 0)
            sync_file(self._filesystem, path)
            self._filesystem.sync_directory(self._directory)
            segment.txn_index = TxnIndex(len(content))
        elif segment.base_offset in self._txn_indexes:
            self._filesystem.unlink(path)
            self._filesystem.sync_directory(self._directory)
            segment.txn_index = None

    # --- leader epochs ---

    def _read_epochs(self) -> tuple[LeaderEpochs, bool]:
        """Return the checkpointed epochs, and whether the file could be read."""
        path = f"{self._directory}/{LEADER_EPOCH_FILE}"
        try:
            epochs = LeaderEpochs.from_checkpoint(self._filesystem.read_bytes(path))
            return epochs, len(epochs) > 0
        except FileNotFoundError:
            return LeaderEpochs(), False
        except CorruptCheckpoint as error:
            logger.warning("leader epochs rebuilt from the log: path=%s error=%s", path, str(error))
            return LeaderEpochs(), False

    def _reconcile_epochs(self, known: bool, log_start_offset: int, end_offset: int) -> None:
        """Make the epochs match the loaded log."""
        walked = self._walked_epochs
        if not known and not self._has_walked_all and end_offset > log_start_offset:
            walked = []
            for segment in self._segments:
                file = self._filesystem.open(segment.path(LOG_SUFFIX), writable=False)
                try:
                    walked += scan_segment(
                        file, segment.base_offset, interval_bytes=segment.end_bytes, check_crc=False
                    ).epochs
                finally:
                    file.close()
        has_changed = False
        for epoch, start_offset in walked:
            if epoch > self._epochs.latest_epoch:
                has_changed |= self._epochs.assign(epoch, start_offset)
        # An entry behind the end would claim the records appended there next, if a later start found it.
        has_changed |= self._epochs.truncate_from_end(end_offset)
        # An entry before the start may stay in the file: every load drops it again.
        self._epochs.truncate_from_start(log_start_offset)
        if has_changed:
            self._filesystem.replace(f"{self._directory}/{LEADER_EPOCH_FILE}", self._epochs.to_checkpoint())
