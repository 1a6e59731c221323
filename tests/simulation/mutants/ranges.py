"""Bugs of ranges of files: truncations, closed files, wrong ends."""

from __future__ import annotations

from typing import Any

from runtime.network.file_range import FileRange
from storage.log import segment_replacement
from storage.log.reading.log_reader import LogReader
from storage.segments.interrupted_swap import CLEANED_SUFFIX
from storage.segments.open_segments import OpenSegments
from storage.segments.ranges_in_flight import RangesInFlight
from storage.segments.segment import Segment
from storage.segments.segment_files import LOG_SUFFIX, segment_path
from tests.simulation.mutants import Mutant, Patches


def _truncated_while_sent(patches: Patches) -> None:
    def skip(original: Any) -> Any:
        async def revoke_behind(self: RangesInFlight, segment: Segment, position: int) -> None: ...

        return revoke_behind

    patches.replace(RangesInFlight, "revoke_behind", skip)


def _first_alone_revoked(patches: Patches) -> None:
    def first(original: Any) -> Any:
        async def revoke_behind(self: RangesInFlight, segment: Segment, position: int) -> None:
            for each in list(self)[:1]:
                if each.file is segment.file and each.position + each.length > position:
                    each.revoke(lambda: None)

        return revoke_behind

    patches.replace(RangesInFlight, "revoke_behind", first)


def _revoked_by_its_start(patches: Patches) -> None:
    def by_start(original: Any) -> Any:
        async def revoke_behind(self: RangesInFlight, segment: Segment, position: int) -> None:
            for each in self:
                if each.file is segment.file and each.position >= position:
                    each.revoke(lambda: None)

        return revoke_behind

    patches.replace(RangesInFlight, "revoke_behind", by_start)


def _all_revoked(patches: Patches) -> None:
    def every(original: Any) -> Any:
        async def revoke_behind(self: RangesInFlight, segment: Segment, position: int) -> None:
            await original(self, segment, 0)

        return revoke_behind

    patches.replace(RangesInFlight, "revoke_behind", every)


def _file_closed_while_sent(patches: Patches) -> None:
    def early(original: Any) -> Any:
        def close(self: OpenSegments, segment: Segment) -> None:
            if segment.file is not None:
                self._readers.run(segment.file.close)
            original(self, segment)

        return close

    patches.replace(OpenSegments, "close", early)


def _cleaned_file_in_place(patches: Patches) -> None:
    """The bytes of a cleaned segment are written into the file of the old one."""

    def in_place(original: Any) -> Any:
        def swap_files(filesystem: Any, directory: str, cleaned: Any) -> list[str]:
            for each in cleaned:
                path = segment_path(directory, each.base_offset, LOG_SUFFIX)
                file = filesystem.open(path)
                content = filesystem.read_bytes(path + CLEANED_SUFFIX)
                file.truncate(0)
                file.write_at((content[100:] + content[:100],), 0)
                file.close()
            gone: list[str] = original(filesystem, directory, cleaned)
            return gone

        return swap_files

    patches.replace(segment_replacement, "swap_files", in_place)


def _never_released(patches: Patches) -> None:
    patches.replace(FileRange, "release", lambda original: lambda self: None)


def _wrong_end(patches: Patches) -> None:
    def longer(original: Any) -> Any:
        def begin(self: RangesInFlight, segment: Segment, position: int, length: int) -> FileRange:
            return original(self, segment, position, min(length + 1, segment.written_bytes - position))  # type: ignore[no-any-return]

        return begin

    patches.replace(RangesInFlight, "begin", longer)


def _uncommitted_sent(patches: Patches) -> None:
    def all_of_it(original: Any) -> Any:
        def _range(self: LogReader, segment: Any, at: int, size: int, limit: int, **options: Any) -> Any:
            return original(self, segment, at, size, self._offsets.log_end_offset, **options)

        return _range

    patches.replace(LogReader, "_range", all_of_it)


def _remembered_too_far(patches: Patches) -> None:
    def further(original: Any) -> Any:
        def end_of_batches_before(self: Segment, position: int, end: int, reader: Any) -> Any:
            found = original(self, position, end, reader)
            return found and (found[0] - 1, found[1])

        return end_of_batches_before

    patches.replace(Segment, "end_of_batches_before", further)


RANGES = (
    Mutant("truncated-while-sent", "a truncation does not wait for what is sent", _truncated_while_sent),
    Mutant("first-alone-revoked", "a truncation revokes one range of several", _first_alone_revoked),
    Mutant("revoked-by-its-start", "a range that begins before a truncation goes on", _revoked_by_its_start),
    Mutant("all-revoked", "a truncation breaks connections that send what stays", _all_revoked),
    Mutant("file-closed-while-sent", "a file is closed that a connection sends from", _file_closed_while_sent),
    Mutant("cleaned-in-place", "a cleaning writes into the file that it replaces", _cleaned_file_in_place),
    Mutant("never-released", "a range that has left keeps its file open", _never_released),
    Mutant("wrong-end", "a range is a byte longer than what may be read", _wrong_end),
    Mutant("uncommitted-sent", "records above the high watermark leave as a range", _uncommitted_sent),
    Mutant("remembered-too-far", "the read behind a range begins a batch too far", _remembered_too_far),
)
