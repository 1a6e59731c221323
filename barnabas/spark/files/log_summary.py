"""Walks over the batch headers of one partition's log, and sums up what a read has to know of it.

From the `.log` files alone: where the log begins and ends, up to where every transaction is decided, which transactions were
aborted, and marks, the positions of some batches, at which a read can begin. No index is needed, so a copy of the `.log`
files is enough, and so is the folder of a running broker: a batch that is not written whole yet is behind the end.

Rules: files are read by `pread`, never mapped: a broker may truncate them. Records are not decoded.
Invariants: marks are in order of offsets, the first one of each segment is at its first batch.
Source: Kafka LogSegment, ProducerStateManager (first unstable offset).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from protocol.primitives import Buffer
from protocol.records.any_format import SMALLEST_MESSAGE_BYTES, iter_any_headers, read_any_header
from protocol.records.batch import HEADER_BYTES, MAGIC_V2, BatchHeader, magic_at
from protocol.records.control import ControlType, read_marker

SUFFIX = ".log"
PIECE_BYTES = 4 * 1024 * 1024
WINDOW_BYTES = 16 * 1024
"""Of a file that are read at once to find headers."""
MARK_BYTES = 8 * 1024 * 1024
"""A mark is made about every so many bytes."""
_LENGTH_AT = 8
_LENGTH_OVERHEAD_BYTES = 12


@dataclass(frozen=True, slots=True)
class Mark:
    """A batch: its first offset, where it stands, and the largest timestamp from it to the next mark."""

    offset: int
    path: str
    position: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class AbortedSpan:
    """An aborted transaction, from its first offset to its marker's."""

    first_offset: int
    last_offset: int
    producer_id: int


@dataclass(slots=True)
class LogSummary:
    """`start` and `end` are offsets; `stable_end` is the first offset of the first open transaction, or the end."""

    start: int
    end: int
    stable_end: int
    marks: list[Mark] = field(default_factory=list)
    aborted: list[AbortedSpan] = field(default_factory=list)

    def aborted_in(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """(first offset, producer id) of the aborted transactions that overlap the offsets [start, end)."""
        return tuple(
            (each.first_offset, each.producer_id)
            for each in self.aborted
            if each.first_offset < end and each.last_offset >= start
        )

    def marks_of(self, start: int, end: int) -> list[Mark]:
        """The marks from the one at or before `start` on that are before `end`."""
        first = max(bisect_right(self.marks, start, key=lambda mark: mark.offset) - 1, 0)
        return [mark for mark in self.marks[first:] if mark.offset < end or mark.offset <= start]


def segments_of(folder: str) -> list[str]:
    """The `.log` files of a partition's folder, in order of their offsets."""
    return sorted(
        entry.path
        for entry in os.scandir(folder)
        if entry.name.endswith(SUFFIX) and entry.name.removesuffix(SUFFIX).isdecimal()
    )


def base_offset_of(path: str) -> int:
    return int(os.path.basename(path).removesuffix(SUFFIX))


def pieces_of(path: str, position: int = 0, end: int | None = None) -> Iterator[Buffer]:
    """The bytes of a `.log` file from a batch on, as pieces of whole batches, of about PIECE_BYTES, each at least one batch.
    A piece is valid until the next one. Ends where a batch is not whole. Raises OSError, InvalidBatch."""
    room = memoryview(bytearray(PIECE_BYTES))
    file = os.open(path, os.O_RDONLY)
    try:
        while end is None or position < end:
            piece = room[: os.preadv(file, [room], position)]
            whole = _whole_bytes(piece)
            if whole:
                yield piece[:whole]
                position += whole
                continue
            needed = _bytes_needed(piece)
            if len(piece) < len(room) or needed <= len(room):  # the end of the file, or of what is written
                return
            room = memoryview(bytearray(needed))
    finally:
        os.close(file)


def _whole_bytes(piece: memoryview) -> int:
    """How many bytes of `piece` are whole batches. Raises InvalidBatch."""
    whole = 0
    while not _is_blank(piece[whole : whole + HEADER_BYTES]):
        before = whole
        for position, header in iter_any_headers(piece, whole):
            whole = position + header.size_bytes
            if _is_blank(piece[whole : whole + HEADER_BYTES]):
                break
        if whole == before:
            break
    return whole


def _is_blank(start: Buffer) -> bool:
    """Space that a broker has allocated and not written to, or no space: no header of a batch is all zeros."""
    return not bytes(start).strip(b"\0")


def _bytes_needed(piece: memoryview) -> int:
    if len(piece) < _LENGTH_OVERHEAD_BYTES:
        return 0
    return int.from_bytes(piece[_LENGTH_AT:_LENGTH_OVERHEAD_BYTES], "big") + _LENGTH_OVERHEAD_BYTES


def headers_of(path: str) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch of a `.log` file that is whole; little of the records between them is read. Raises
    OSError, InvalidBatch."""
    file = os.open(path, os.O_RDONLY)
    try:
        size_bytes = os.fstat(file).st_size
        position = window_start = 0
        window = b""
        while True:
            at = position - window_start
            if len(window) - at < HEADER_BYTES:
                window, window_start, at = os.pread(file, WINDOW_BYTES, position), position, 0
            start = window[at : at + HEADER_BYTES]
            if len(start) < (HEADER_BYTES if magic_at(start) >= MAGIC_V2 else SMALLEST_MESSAGE_BYTES + 8):
                return
            if _is_blank(start):
                return
            header = read_any_header(start)
            if position + header.size_bytes > size_bytes:
                return
            yield position, header
            position += header.size_bytes
    finally:
        os.close(file)


def _batch_at(path: str, position: int, header: BatchHeader) -> bytes:
    with open(path, "rb") as file:
        return os.pread(file.fileno(), header.size_bytes, position)


def summarise(folder: str, log_start: int | None) -> LogSummary:
    """Walk over a partition's folder. `log_start`: what the broker wrote down of records deleted at the front. Raises OSError,
    InvalidBatch."""
    walk = _LogWalk()
    segments = segments_of(folder)
    for path in segments:
        walk.begin_segment(path)
        for position, header in headers_of(path):
            walk.see(position, header)
    walk.end_mark()
    first = base_offset_of(segments[0]) if segments else 0
    start = max(first, log_start or 0)
    end = max(walk.end, start)
    stable_end = max(min([end, *walk.open.values()]), start)
    return LogSummary(start, end, stable_end, walk.marks, walk.aborted)


class _LogWalk:
    """What has been seen so far."""

    def __init__(self) -> None:
        self.end = 0
        self.open: dict[int, int] = {}  # by producer id: the first offset of its open transaction
        self.aborted: list[AbortedSpan] = []
        self.marks: list[Mark] = []
        self._path = ""
        self._marked: tuple[int, int] | None = None  # offset and position of the mark under way
        self._max_timestamp = -1

    def begin_segment(self, path: str) -> None:
        self.end_mark()
        self._path = path
        self.end = max(self.end, base_offset_of(path))

    def see(self, position: int, header: BatchHeader) -> None:
        if self._marked is None or position - self._marked[1] >= MARK_BYTES:
            self.end_mark()
            # The header of a compressed message set tells its last offset alone.
            first = header.base_offset if header.magic == MAGIC_V2 else self.end
            self._marked = (first, position)
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        self.end = header.next_offset
        if not header.is_transactional:
            return
        if not header.is_control:
            self.open.setdefault(header.producer_id, header.base_offset)
            return
        began = self.open.pop(header.producer_id) if header.producer_id in self.open else None
        marker = read_marker(_batch_at(self._path, position, header), 0, header)
        if began is not None and marker is not None and marker.type is ControlType.ABORT:
            self.aborted.append(AbortedSpan(began, header.last_offset, header.producer_id))

    def end_mark(self) -> None:
        if self._marked is not None:
            self.marks.append(Mark(self._marked[0], self._path, self._marked[1], self._max_timestamp))
        self._marked, self._max_timestamp = None, -1
