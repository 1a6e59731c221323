"""`leader-epoch-checkpoint`: the file that keeps what a log knows of its leader epochs.

    epochs change  -->  in memory alone  --save-->  in the file  --keep-->  on the disk

A broker that dies makes a thousand others leaders at once, and each of them begins an epoch: were that a file each, and
an fsync, producers would wait behind it. The file need not follow so closely, for a start after an unclean stop walks the
log from its recovery point and finds there in which epochs the records were written.

Rules: runs on the event loop; the file is replaced by the log's writer, in order with what else the log puts on the disk.
Invariants: before the recovery point moves, every epoch of the records below it is on the disk (`keep`). An entry that
goes because the log was cut is out of the file before anything is appended again: it would claim records of another
epoch. An epoch without records may be forgotten at any stop: nobody can tell it from one that never began.
Source: Kafka LeaderEpochFileCache, LeaderEpochCheckpointFile, which write at each change.
"""

from __future__ import annotations

from typing import Protocol

from storage.folder_files import LEADER_EPOCH_FILE
from storage.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs


class Folder(Protocol):
    """The log, as this file needs it."""

    def write_file(self, name: str, content: bytes, *, durable: bool = True) -> None: ...


class LeaderEpochFile:
    """One log's epochs (read `epochs`, change them here) and their file, which holds them when this is made."""

    __slots__ = ("_folder", "_is_behind", "_is_durable", "_latest_saved_epoch", "epochs")

    def __init__(self, epochs: LeaderEpochs, folder: Folder, *, is_durable: bool) -> None:
        """`is_durable`: a loss of power does not undo what is in the file."""
        self.epochs = epochs
        self._folder = folder
        self._is_behind = False
        self._is_durable = is_durable
        self._latest_saved_epoch = epochs.latest_epoch

    def lacks_epoch_of(self, offset: int) -> bool:
        """The file does not know in which epoch the record at `offset` was written, which is known here."""
        return self._is_behind and self.epochs.epoch_for(offset) > self._latest_saved_epoch

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records from `start_offset` on are of `epoch`. No effect when this or a later epoch is known."""
        if self.epochs.assign(epoch, start_offset):
            self._is_behind = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Every load does that, too: the file may be behind."""
        if self.epochs.truncate_from_start(start_offset):
            self._is_behind = True

    def truncate_from_end(self, end_offset: int) -> None:
        if self.epochs.truncate_from_end(end_offset):
            self._is_behind = True
            if self.epochs.latest_epoch < self._latest_saved_epoch:
                self.keep()

    def cut(self, end_offset: int) -> None:
        """The log was cut, and ends there from now on."""
        if self.epochs.truncate_from_end(end_offset) or self._is_behind:
            self._write(durable=True)

    def begin_anew(self) -> None:
        """The log has no records any more."""
        had_epochs, self.epochs = len(self.epochs) > 0, LeaderEpochs()
        if had_epochs or self._is_behind:
            self._write(durable=True)

    def distrust(self) -> None:
        """The disk had no room: what was to be written may not be in the file."""
        self._is_behind, self._is_durable = True, False
        self._latest_saved_epoch = UNDEFINED_EPOCH

    def save(self) -> None:
        """Bring the file up to date; a loss of power may still undo that."""
        if self._is_behind:
            self._write(durable=False)

    def keep(self) -> None:
        """Have the epochs on the disk, before whatever the log puts there next."""
        if self._is_behind or not self._is_durable:
            self._write(durable=True)

    def _write(self, *, durable: bool) -> None:
        self._is_behind, self._is_durable = False, durable
        self._latest_saved_epoch = self.epochs.latest_epoch
        self._folder.write_file(LEADER_EPOCH_FILE, self.epochs.to_checkpoint(), durable=durable)
