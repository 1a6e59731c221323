"""Bugs of the storage engine that only a crash at the wrong moment shows. Hunted in the cases of `tests.simulation.storage`."""

from __future__ import annotations

import dataclasses
from typing import Any

from storage import folder_files
from storage.cleaner.offset_map import OffsetMap
from storage.directories import future_logs
from storage.directories.checkpoints import Checkpoints
from storage.directories.future_logs import FutureLogs
from storage.directories.log_directory import FUTURE_SUFFIX
from storage.directories.log_manager import LogManager
from storage.log import loading, segment_replacement
from storage.log.loading import _Loading
from storage.log.log_offsets import LogOffsets
from storage.log.partition_log import PartitionLog
from storage.log.producers.producer_state import NO_OFFSET, ProducerStates
from storage.log.removal import log_truncation, segment_retention, segment_truncation
from storage.log.writing import durability
from storage.log.writing.log_writer import LogWriter
from storage.segments import segment_copy, segment_swap
from tests.simulation.filesystem import SimFileSystem
from tests.simulation.mutants import Mutant, Patches
from tests.simulation.mutants.storage import marker_never_removed, torn_tail_kept


def _directories_not_synced(patches: Patches) -> None:
    patches.replace(SimFileSystem, "sync_directory", lambda original: lambda self, path: None)


def _flush_without_names(patches: Patches) -> None:
    """The bytes are on the disk, and the names of new files are not."""

    def sync(original: Any) -> Any:
        def sync_segment(filesystem: Any, directory: str, base_offset: int, file: Any, *more: Any) -> None:
            if file is not None:
                file.sync()

        return sync_segment

    patches.replace(durability, "sync_segment", sync)


def _flush_does_nothing(patches: Patches) -> None:
    patches.replace(durability, "sync_segment", lambda original: lambda *args: None)


def _cleaned_not_synced(patches: Patches) -> None:
    def finish(original: Any) -> Any:
        def unsynced(self: Any, *args: Any) -> Any:
            class Unsynced:
                def sync(self) -> None:
                    return

                def __getattr__(self, name: str) -> Any:
                    return getattr(file, name)

            file, self._file = self._file, Unsynced()
            return original(self, *args)

        return unsynced

    patches.replace(segment_copy.SegmentCopy, "finish", finish)


def _old_segments_go_first(patches: Patches) -> None:
    """The old segments are gone before the new one counts."""

    def swap(original: Any) -> Any:
        def swap_files(filesystem: Any, directory: str, cleaned: Any) -> list[str]:
            set_aside: list[str] = segment_swap._set_aside(filesystem, directory, cleaned)
            original(filesystem, directory, cleaned)
            return set_aside

        return swap_files

    patches.replace(segment_replacement, "swap_files", swap)


def _swap_forgotten(patches: Patches) -> None:
    """A start does not finish the exchange that a crash has interrupted."""

    def drop(filesystem: Any, directory: str, names: Any) -> list[str]:
        for name in names:
            if name.endswith((".cleaned", ".deleted", ".swap", ".tmp")):
                filesystem.unlink(f"{directory}/{name}")
        listed: list[str] = filesystem.list_directory(directory)
        return listed

    patches.replace(loading, "finish_swap", lambda original: drop)


def _leftovers_stay(patches: Patches) -> None:
    patches.replace(loading, "finish_swap", lambda original: lambda filesystem, directory, names: list(names))


def _latest_values_go(patches: Patches) -> None:
    """The offset map takes a key's last record for one that has a successor."""

    def put(original: Any) -> Any:
        def ahead(self: OffsetMap, keys: Any, offsets: Any, start_offset: int) -> Any:
            return original(self, keys, [offset + 1 for offset in offsets], start_offset)

        return ahead

    patches.replace(OffsetMap, "put", put)


def _cut_not_synced(patches: Patches) -> None:
    """What a follower has cut off may come back."""

    def cut(original: Any) -> Any:
        def truncate_files(filesystem: Any, directory: str, cut: Any, *others: Any) -> Any:
            class Unsynced:
                def sync(self) -> None:
                    return

                def __getattr__(self, name: str) -> Any:
                    return getattr(file, name)

            file = cut.file
            return original(filesystem, directory, dataclasses.replace(cut, file=Unsynced()), *others)

        return truncate_files

    patches.replace(segment_truncation, "truncate_files", cut)


def _recovery_point_stays(patches: Patches) -> None:
    """The recovery point outlives a cut below it."""

    def end_at(original: Any) -> Any:
        def keep(self: LogOffsets, offset: int) -> None:
            before = self.recovery_point
            original(self, offset)
            self.recovery_point = before

        return keep

    patches.replace(LogOffsets, "end_at", end_at)


def _stale_checkpoints(patches: Patches) -> None:
    async def forget(self: Checkpoints, key: Any) -> None:
        for offsets in self._written.values():
            offsets.pop(key, None)

    patches.replace(Checkpoints, "forget", lambda original: forget)


def _checkpoint_ahead(patches: Patches) -> None:
    """Checkpoints say that everything written is on the disk."""
    patches.replace(
        LogWriter, "_note_written",
        lambda original: lambda self, segment, end_bytes, next_offset: (
            original(self, segment, end_bytes, next_offset), setattr(self.offsets, "recovery_point", next_offset))[0],
    )  # fmt: skip


def _behind_a_hole(patches: Patches) -> None:
    patches.replace(_Loading, "_drop_behind", lambda original: lambda self, at: None)
    patches.replace(_Loading, "_may_have_gap_before", lambda original: lambda self, at: True)


def _closes_without_flush(patches: Patches) -> None:
    def close(original: Any) -> Any:
        async def _close_directory(self: LogManager, directory: Any, *args: Any, **options: Any) -> None:
            for log in list(directory.logs.values()):
                await log.close(flush=False)
            await original(self, directory, *args, **options)

        return _close_directory

    patches.replace(LogManager, "_close_directory", close)


def _retention_goes_on(patches: Patches) -> None:
    """Retention takes one segment more than has expired."""

    def more(original: Any) -> Any:
        def expired_segments(segments: Any, limits: Any, **options: Any) -> Any:
            expired = original(segments, limits, **options)
            if 0 < expired.count < len(segments) - 1:
                return dataclasses.replace(expired, by_start_offset=expired.by_start_offset + 1)
            return expired

        return expired_segments

    patches.replace(segment_retention, "expired_segments", more)


def _checkpoints_overtake(patches: Patches) -> None:
    """A checkpoint does not wait for what its logs have queued, and says that it is done."""

    async def write(self: Checkpoints, name: str, offsets: Any) -> None:
        self._written[name] = offsets
        await self._queue.run(lambda: self._files.write_checkpoint(name, offsets))

    patches.replace(Checkpoints, "_write", lambda original: write)


def _transaction_index_goes_first(patches: Patches) -> None:
    """Of a segment that goes, the `.log` is the last to do so."""
    patches.replace(folder_files, "SEGMENT_SUFFIXES", lambda original: original[::-1])


def _transaction_index_not_made_again(patches: Patches) -> None:
    """Recovery takes the transaction index for what it was."""
    patches.replace(_Loading, "_write_txn_index", lambda original: lambda self, segment, aborted: None)


def _open_transactions_forgotten(patches: Patches) -> None:
    """A producer snapshot does not tell of transactions."""

    def forgetting(original: Any) -> Any:
        def from_snapshot(content: bytes, **options: Any) -> ProducerStates:
            states: ProducerStates = original(ProducerStates, content, **options)
            for state in states._states.values():
                state.current_txn_first_offset = NO_OFFSET
            states._ongoing.clear()
            return states

        return lambda cls, content, **options: from_snapshot(content, **options)

    patches.replace(ProducerStates, "from_snapshot", forgetting)


def _move_not_flushed(patches: Patches) -> None:
    """A copy takes its log's place before it is on the disk."""

    async def finish(self: PartitionLog) -> None:
        await self.await_appends()

    async def flush(self: PartitionLog) -> None:
        await self.await_appends()

    patches.replace(PartitionLog, "finish", lambda original: finish)
    patches.replace(
        PartitionLog, "flush",
        lambda original: lambda self: flush(self) if self.directory.endswith(FUTURE_SUFFIX) else original(self),
    )  # fmt: skip


def _move_not_marked(patches: Patches) -> None:
    """A crash between the two renames of a move leaves two folders that nothing tells apart, or a copy that nobody believes."""
    patches.replace(future_logs, "_mark", lambda original: lambda filesystem, path: None)


def _copy_of_another_topic(patches: Patches) -> None:
    """A start goes on with the copy of a log that was deleted, for the one that was made in its place."""
    for name in ("drop_future_log", "_drop_foreign_copy"):
        patches.replace(FutureLogs, name, lambda original: _nothing)


async def _nothing(*_args: Any) -> None:
    return


def _refused_bytes_stay(patches: Patches) -> None:
    """When there is room again, the torn end that a full disk has left is written behind."""

    async def repair(log: PartitionLog) -> None:
        log.writer.refusals.accept_jobs()
        log.writer.refusals.resume(None)

    patches.replace(log_truncation, "_repair_halted", lambda original: repair)


CRASHES = (
    Mutant("directories-not-synced", "no fsync of a directory is done", _directories_not_synced),
    Mutant("flush-without-names", "a flush forgets the names of new files", _flush_without_names),
    Mutant("flush-does-nothing", "a flush moves the recovery point, and nothing else", _flush_does_nothing),
    Mutant("cleaned-not-synced", "cleaned segments are exchanged before they are on the disk", _cleaned_not_synced),
    Mutant("old-segments-go-first", "old segments are set aside before the new one counts", _old_segments_go_first),
    Mutant("swap-forgotten", "a start throws away what an interrupted exchange left", _swap_forgotten),
    Mutant("leftovers-stay", "a start leaves the files of an interrupted exchange", _leftovers_stay),
    Mutant("cut-not-synced", "what was cut off may come back", _cut_not_synced),
    Mutant("recovery-point-stays", "the recovery point outlives a cut below it", _recovery_point_stays),
    Mutant("stale-checkpoints", "a log made anew is taken for the one that was deleted", _stale_checkpoints),
    Mutant("checkpoint-ahead", "what is written counts as flushed", _checkpoint_ahead),
    Mutant("torn-ends-kept", "recovery leaves half a batch at the end", torn_tail_kept),
    Mutant("behind-a-hole", "recovery keeps what lies behind a hole", _behind_a_hole),
    Mutant("clean-marker-stays", "the marker of a clean stop outlives the next start", marker_never_removed),
    Mutant("closes-without-flush", "a clean stop flushes nothing", _closes_without_flush),
    Mutant("latest-values-go", "the cleaner drops the last value of a key", _latest_values_go),
    Mutant("retention-goes-on", "retention takes a segment too many", _retention_goes_on),
    Mutant("checkpoints-overtake", "a checkpoint tells what its logs have only queued", _checkpoints_overtake),
    Mutant("txnindex-goes-first", "a segment that goes loses its index first", _transaction_index_goes_first),
    Mutant("txnindex-not-made-again", "recovery leaves the transaction index", _transaction_index_not_made_again),
    Mutant("open-transactions-forgotten", "snapshots do not tell of transactions", _open_transactions_forgotten),
    Mutant("move-not-flushed", "a copy takes its log's place unflushed", _move_not_flushed),
    Mutant("move-not-marked", "a copy that has everything does not say so", _move_not_marked),
    Mutant("copy-of-another-topic", "the copy of a deleted log stays", _copy_of_another_topic),
    Mutant("refused-bytes-stay", "what a full disk has torn is not cut off", _refused_bytes_stay),
)
