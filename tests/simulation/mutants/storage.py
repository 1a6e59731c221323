"""Bugs of the log: writing, flushing, recovering, reading, deleting."""

from __future__ import annotations

import dataclasses
from copy import copy
from typing import Any

from replication.partition import Partition
from storage.directories import log_upkeep
from storage.directories.log_directory import LogDirectory
from storage.directories.log_manager import LogManager
from storage.log import loading
from storage.log.loading import _Loading
from storage.log.producers.producer_replay import ProducerReplay
from storage.log.producers.producer_state import ProducerStateEntry, ProducerStates
from storage.log.reading.log_reader import LogReader
from storage.log.reading.log_reading import LogReading
from storage.log.writing import finished_segments
from storage.log.writing.durability import LogDurability
from storage.log.writing.log_writer import LogWriter
from storage.log.writing.write_refusals import WriteRefusals
from storage.segments import segment_scan
from storage.segments.index import OffsetIndex, SparseIndex
from tests.simulation.mutants import Mutant, Patches
from tests.simulation.storage import work


def _producers_forgotten(patches: Patches) -> None:
    patches.replace(ProducerReplay, "replay_batch", lambda original: lambda self, header, buffer, at: None)
    patches.replace(ProducerReplay, "restore", lambda original: lambda self, end_offset: None)


def _snapshot_alone(patches: Patches) -> None:
    patches.replace(ProducerReplay, "replay_batch", lambda original: lambda self, header, buffer, at: None)


def _duplicates_not_seen(patches: Patches) -> None:
    patches.replace(ProducerStateEntry, "find", lambda original: lambda self, first, last: None)


def _sequences_not_checked(patches: Patches) -> None:
    patches.replace(ProducerStates, "check", lambda original: lambda self, header, **options: None)


def torn_tail_kept(patches: Patches) -> None:
    def keep(original: Any) -> Any:
        def scan_segment(file: Any, base_offset: int, **options: Any) -> Any:
            scan = original(file, base_offset, **options)
            return dataclasses.replace(scan, end_position=file.size(), problem=None)

        return scan_segment

    patches.replace(loading, "scan_segment", keep)


def _crc_not_checked(patches: Patches) -> None:
    patches.replace(segment_scan, "any_crc_is_valid", lambda original: lambda buffer, position, header: True)


def _segments_behind_a_cut_kept(patches: Patches) -> None:
    patches.replace(_Loading, "_drop_behind", lambda original: lambda self, at: None)


def _recovery_point_before_flush(patches: Patches) -> None:
    def early(original: Any) -> Any:
        def _on_rolled(self: LogWriter, old: Any, new: Any, error: Any) -> None:
            if error is None:
                self.offsets.recovery_point = new.base_offset
            original(self, old, new, error)

        return _on_rolled

    patches.replace(LogWriter, "_on_rolled", early)


def _rolled_segment_not_flushed(patches: Patches) -> None:
    patches.replace(finished_segments, "sync_segment", lambda original: lambda *args: None)


def _acknowledged_before_flush(patches: Patches) -> None:
    patches.replace(LogDurability, "_sync_active", lambda original: lambda self, segment, has_index: None)


def _marker_always_there(patches: Patches) -> None:
    def take(original: Any) -> Any:
        def take_clean_shutdown(self: LogDirectory) -> tuple[bool, int]:
            original(self)
            return True, -1

        return take_clean_shutdown

    patches.replace(LogDirectory, "take_clean_shutdown", take)


def marker_never_removed(patches: Patches) -> None:
    def take(original: Any) -> Any:
        def take_clean_shutdown(self: LogDirectory) -> tuple[bool, int]:
            answer: tuple[bool, int] = original(self)
            if answer[0]:
                self.write_clean_shutdown(answer[1])
            return answer

        return take_clean_shutdown

    patches.replace(LogDirectory, "take_clean_shutdown", take)


def _start_offset_not_kept(patches: Patches) -> None:
    patches.replace(log_upkeep, "log_start_offsets", lambda original: lambda logs: {})


def _records_not_deleted(patches: Patches) -> None:
    patches.replace(Partition, "delete_records", lambda original: lambda self, offset: offset)
    patches.replace(work, "delete_records", lambda original: lambda log, offset: offset)  # the load on logs alone


def _deleted_topic_left(patches: Patches) -> None:
    def forget(original: Any) -> Any:
        async def delete(self: LogManager, topic: str, partition: int) -> None:
            log = self.logs.pop((topic, partition), None)
            if log is not None:
                for directory in self._directories.values():
                    directory.logs.pop((topic, partition), None)
                await log.close(flush=False)

        return delete

    patches.replace(LogManager, "delete", forget)


def _read_cold_forgets_growth(patches: Patches) -> None:
    def stale(original: Any) -> Any:
        async def read_cold(self: LogReader, start: int, limit: int, size: int, **options: Any) -> Any:
            reader = copy(self)
            reader._offsets = copy(self._offsets)
            return await original(reader, start, limit, size, **options)

        return read_cold

    patches.replace(LogReader, "read_cold", stale)


def _limit_one_short(patches: Patches) -> None:
    def shorten(original: Any) -> Any:
        def read(self: LogReading, fetch_offset: int, *, limit_offset: int, **options: Any) -> Any:
            return original(self, fetch_offset, limit_offset=limit_offset - 1, **options)

        return read

    patches.replace(LogReading, "read", shorten)
    patches.replace(LogReading, "read_to_send", shorten)  # to a connection that takes ranges of files


def _index_entry_too_late(patches: Patches) -> None:
    def late(original: Any) -> Any:
        def append(self: OffsetIndex, relative_offset: int, position: int) -> None:
            last = -1 if self.last is None else self.last[0]
            original(
                self, max(relative_offset - 1, last + 1) if isinstance(self, OffsetIndex) else relative_offset, position
            )

        return append

    patches.replace(SparseIndex, "append", late)


def _failed_write_goes_on(patches: Patches) -> None:
    def ignore(original: Any) -> Any:
        def on_refused(self: WriteRefusals, cause: OSError) -> None:
            self.io_error = None
            while self._pending.in_flight:
                _segment, _end, next_offset, done = self._pending.in_flight.pop(0)
                self._offsets.log_end_offset = next_offset
                done(None)

        return on_refused

    patches.replace(WriteRefusals, "on_refused", ignore)


STORAGE = (
    Mutant("producers-forgotten", "recovery does not restore the producers", _producers_forgotten),
    Mutant("snapshot-alone", "recovery takes the snapshot and does not replay what follows", _snapshot_alone),
    Mutant("duplicates-not-seen", "a batch that is sent again is not recognised", _duplicates_not_seen),
    Mutant("sequences-not-checked", "whatever an idempotent producer sends is appended", _sequences_not_checked),
    Mutant("torn-tail-kept", "recovery leaves half a batch at the end", torn_tail_kept),
    Mutant("crc-not-checked", "recovery takes batches without their checksum", _crc_not_checked),
    Mutant("segments-behind-a-cut-kept", "recovery keeps what lies behind a torn segment", _segments_behind_a_cut_kept),
    Mutant("recovery-point-before-flush", "a roll moves the recovery point at once", _recovery_point_before_flush),
    Mutant("rolled-segment-not-flushed", "a rolled segment counts as flushed and is not", _rolled_segment_not_flushed),
    Mutant("acknowledged-before-flush", "flush.messages=1 does not wait for the disk", _acknowledged_before_flush),
    Mutant("marker-always-there", "every stop counts as a clean one", _marker_always_there),
    Mutant("marker-never-removed", "the marker of a clean stop outlives the next start", marker_never_removed),
    Mutant("start-offset-not-kept", "the log start offset is lost at a restart", _start_offset_not_kept),
    Mutant("records-not-deleted", "DeleteRecords answers and does nothing", _records_not_deleted),
    Mutant("deleted-topic-left", "the files of a deleted topic stay where they are", _deleted_topic_left),
    Mutant(
        "read-cold-forgets-growth", "a cold read takes the log's end from before it waited", _read_cold_forgets_growth
    ),
    Mutant("limit-one-short", "a fetch ends one record before the high watermark", _limit_one_short),
    Mutant("index-entry-too-late", "index entries point behind the offsets they name", _index_entry_too_late),
    Mutant("failed-write-goes-on", "a write that the disk refused is acknowledged", _failed_write_goes_on),
)
