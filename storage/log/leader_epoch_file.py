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

from typing import Protocol

from storage.folder_files import LEADER_EPOCH_FILE
from storage.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs


class Folder(Protocol):
    """The part of the log that this file needs."""

    def write_file(self, name: str, content: bytes, *, durable: bool = True) -> None: ...


class LeaderEpochFile:
    """Holds one log's epochs (read `epochs`, change them through this object) and writes their file. The file matches `epochs`
    when this object is created."""

    __slots__ = ("_folder", "_is_behind", "_is_durable", "_latest_saved_epoch", "epochs")

    def __init__(self, epochs: LeaderEpochs, folder: Folder, *, is_durable: bool) -> None:
        """`is_durable`: a loss of power does not undo what is in the file."""
        self.epochs = epochs
        self._folder = folder
        self._is_behind = False
        self._is_durable = is_durable
        self._latest_saved_epoch = epochs.latest_epoch

    def lacks_epoch_of(self, offset: int) -> bool:
        """Return whether the epoch of the record at `offset` is known in memory and missing in the file."""
        return self._is_behind and self.epochs.epoch_for(offset) > self._latest_saved_epoch

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that records from `start_offset` on belong to `epoch`. No effect when this or a later epoch is known."""
        if self.epochs.assign(epoch, start_offset):
            self._is_behind = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs below `start_offset`. The file may keep them, because every load drops them again."""
        if self.epochs.truncate_from_start(start_offset):
            self._is_behind = True

    def truncate_from_end(self, end_offset: int) -> None:
        if self.epochs.truncate_from_end(end_offset):
            self._is_behind = True
            if self.epochs.latest_epoch < self._latest_saved_epoch:
                self.keep()

    def truncate(self, end_offset: int) -> None:
        """Drop epochs at and above `end_offset`, where the log was truncated."""
        if self.epochs.truncate_from_end(end_offset) or self._is_behind:
            self._write(durable=True)

    def clear(self) -> None:
        """Drop all epochs: the log has no records any more."""
        had_epochs, self.epochs = len(self.epochs) > 0, LeaderEpochs()
        if had_epochs or self._is_behind:
            self._write(durable=True)

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
        self._latest_saved_epoch = self.epochs.latest_epoch
        self._folder.write_file(LEADER_EPOCH_FILE, self.epochs.to_checkpoint(), durable=durable)
