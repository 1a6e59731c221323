"""Keeps the leader epochs of a log in its file `leader-epoch-checkpoint`.

    epochs change  -->  in memory alone  --save-->  in the file  --keep-->  on the disk

When a broker dies, a thousand partitions get new leaders at the same moment, and each begins an epoch. If each wrote and
flushed its file then, producers would wait. The file may lag, because recovery after an unclean stop reads the log from its
recovery point and finds the epochs in the batches.

Rules: runs on the event loop; the file is replaced by the log's writer, in order with what else the log puts on the disk.
Invariants: before the recovery point moves, every epoch of the records below it is on the disk (`keep`). An entry that a
truncation removes is out of the file before anything is appended again: it would claim records of another epoch. An epoch
without records may be lost at any stop: it cannot be told from one that never began.
Source: Kafka LeaderEpochFileCache, LeaderEpochCheckpointFile, which write at each change.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.folder_files import LEADER_EPOCH_FILE
from storage.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from storage.log.log_offsets import LogOffsets

WriteFile = Callable[[str, bytes, bool], None]
"""`write_file(name, content, durable)` replaces a small file of the log's folder, in order with its other writes."""


class LeaderEpochFile:
    """Holds one log's epochs (read `known`, change them through this object) and writes their file. The file matches `known`
    when this object is created."""

    __slots__ = ("_is_behind", "_is_durable", "_latest_saved_epoch", "_offsets", "_write_file", "known")

    def __init__(self, epochs: LeaderEpochs, offsets: LogOffsets, write_file: WriteFile, *, is_durable: bool) -> None:
        """`is_durable`: a loss of power does not undo what is in the file."""
        self.known = epochs
        self._offsets = offsets
        self._write_file = write_file
        self._is_behind = False
        self._is_durable = is_durable
        self._latest_saved_epoch = epochs.latest_epoch

    # --- reading ---

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch of the log, -1 without any."""
        return self.known.latest_epoch

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 when it is not known."""
        return self.known.epoch_for(offset)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Return (largest known epoch at or below `epoch`, its end offset); (-1, -1) when none is known. KIP-101, KIP-279."""
        return self.known.end_offset_for(epoch, self._offsets.log_end_offset)

    @property
    def has_unsaved(self) -> bool:
        """Whether the epoch of the last record is known in memory and missing in the file."""
        return self._is_behind and self.known.epoch_for(self._offsets.log_end_offset - 1) > self._latest_saved_epoch

    # --- changing ---

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that records from `start_offset` on belong to `epoch`. No effect when this or a later epoch is known."""
        if self.known.assign(epoch, start_offset):
            self._is_behind = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs below `start_offset`. The file may keep them, because every load drops them again."""
        if self.known.truncate_from_start(start_offset):
            self._is_behind = True

    def forget_unused(self) -> None:
        """Drop epochs in which nothing was appended, when the log begins to follow another: the leader may not know them, and
        would have the log truncated at its end."""
        self.truncate_from_end(self._offsets.next_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        if self.known.truncate_from_end(end_offset):
            self._is_behind = True
            if self.known.latest_epoch < self._latest_saved_epoch:
                self.keep()

    def truncate(self, end_offset: int) -> None:
        """Drop epochs at and above `end_offset`, where the log was truncated."""
        if self.known.truncate_from_end(end_offset) or self._is_behind:
            self._write(durable=True)

    def clear(self) -> None:
        """Drop all epochs: the log has no records any more."""
        had_epochs, self.known = len(self.known) > 0, LeaderEpochs()
        if had_epochs or self._is_behind:
            self._write(durable=True)

    # --- the file ---

    def mark_unsaved(self) -> None:
        """Treat the file as outdated: the disk had no room, so the last write may be missing."""
        self._is_behind, self._is_durable = True, False
        self._latest_saved_epoch = UNDEFINED_EPOCH

    def save(self) -> None:
        """Write the file if it is outdated. A loss of power may still undo the write."""
        if self._is_behind:
            self._write(durable=False)

    def keep(self) -> None:
        """Write the file and flush it, before the log flushes anything else."""
        if self._is_behind or not self._is_durable:
            self._write(durable=True)

    def _write(self, *, durable: bool) -> None:
        self._is_behind, self._is_durable = False, durable
        self._latest_saved_epoch = self.known.latest_epoch
        self._write_file(LEADER_EPOCH_FILE, self.known.to_checkpoint(), durable)
