"""The batches of a `.log` file as they stand, sound or not: how tools look at a segment, beside a broker that may write it.

    for batch in StoredBatches(file, end_position):
        batch.position, batch.header, batch.is_valid(), batch.records()

Rules: blocking; reads only. One window of the file is in memory, and while its records are asked for one batch,
decompressed; a batch is loaded only when its checksum, which is made piece by piece, is right or it is small. Nothing
raises for what the file holds but `CorruptLog`, where no next batch can be found, and InvalidBatch from `records`.
Invariant: positions rise by the sizes of the batches; what lies behind the last whole one is told by `trailing_bytes`.
Source: Kafka FileLogInputStream, FileRecords, DefaultRecordBatch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from protocol.crc32c import crc32c
from protocol.errors import ErrorCode
from protocol.records.any_format import iter_any_records, read_any_header
from protocol.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    MIN_LEGACY_LENGTH,
    BatchHeader,
)
from protocol.records.compression import Compression
from protocol.records.invalid import InvalidBatch
from protocol.records.legacy import LegacyMessage, inner_messages, read_message
from protocol.records.record import Record
from runtime.disk.filesystem import Buffer, File

WINDOW_BYTES = 1024 * 1024
_MAGIC_END = MAGIC_POSITION + 1  # so few bytes begin no batch, whatever they are
MAX_LOADED_BYTES = 256 * 1024 * 1024
"""Of one batch, as it is stored and decompressed."""


class CorruptLog(Exception):
    """No batch begins at `position`, and nobody can tell where the next one would."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(f"position {position}: {problem}")
        self.position = position
        self.problem = problem


class StoredBatch:
    """A batch, or a message of a format before batches."""

    __slots__ = ("_file", "header", "position", "size_bytes")

    def __init__(self, file: StoredBatches, position: int, header: BatchHeader) -> None:
        self._file = file
        self.position = position
        self.header = header
        self.size_bytes = header.size_bytes

    @property
    def is_legacy(self) -> bool:
        return self.header.magic < MAGIC_V2

    def is_valid(self) -> bool:
        """Whether the checksum is right; made piece by piece."""
        start, make = (MAGIC_POSITION, zlib.crc32) if self.is_legacy else (ATTRIBUTES_POSITION, crc32c)
        crc = 0
        for piece in self._file.pieces(self.position + start, self.position + self.size_bytes):
            crc = make(piece, crc)
        return crc == self.header.crc

    def content(self) -> Buffer:
        """All its bytes. Raises InvalidBatch when they are more than a tool should hold."""
        if self.size_bytes > MAX_LOADED_BYTES:
            raise InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, f"A batch of {self.size_bytes} bytes is not looked into.")
        return self._file.view(self.position, self.size_bytes)

    def records(self) -> Iterator[Record]:
        """Raises InvalidBatch."""
        return iter_any_records(self.content(), 0, self.header, MAX_LOADED_BYTES)

    def messages(self) -> Iterator[tuple[Record, LegacyMessage]]:
        """Those of a legacy batch, as records and as they stand. Raises InvalidBatch."""
        assert self.is_legacy
        content = self.content()
        messages: Iterable[LegacyMessage] = (read_message(content),)
        if self.header.is_compressed:
            messages = inner_messages(content, 0, self.header, MAX_LOADED_BYTES)
        return zip(iter_any_records(content, 0, self.header, MAX_LOADED_BYTES), messages, strict=True)


class StoredBatches:
    """The batches of `file` from `position` to `end`, by default the end that it has now."""

    __slots__ = ("_at", "_end", "_file", "_is_limited", "_window", "_window_position")

    def __init__(self, file: File, end: int | None = None, *, position: int = 0) -> None:
        size = file.size()
        self._file = file
        self._at = position
        self._is_limited = end is not None and end < size
        self._end = size if end is None else min(end, size)
        self._window: Buffer = b""
        self._window_position = 0

    @property
    def position(self) -> int:
        """Where the last whole batch that was found ends."""
        return self._at

    @property
    def trailing_bytes(self) -> int:
        """Behind the last whole batch that was found."""
        return max(self._end - self._at, 0)

    def __iter__(self) -> Iterator[StoredBatch]:
        """Raises CorruptLog."""
        stopped_at = None
        while True:
            batch = self._next()
            if batch is None:
                if self._is_limited or self.trailing_bytes == 0:
                    return
                if stopped_at is not None:
                    if self._at > stopped_at:
                        self._end = self._at  # the next one is being written now
                    return
                # A broker may be writing here: what was half a batch when this began may be a whole one now.
                stopped_at, self._end = self._at, self._file.size()
                self._window = b""
                continue
            yield batch
            self._at = batch.position + batch.size_bytes

    def batch_at(self, position: int) -> StoredBatch | None:
        """The batch that begins there; None when the file ends before it does. Raises CorruptLog."""
        self._at = position
        return self._next()

    def _next(self) -> StoredBatch | None:
        position, left = self._at, self._end - self._at
        if left <= _MAGIC_END:
            return None
        prefix = self.view(position, min(HEADER_BYTES, left))
        length = int.from_bytes(prefix[8:12], "big", signed=True)
        if length < MIN_LEGACY_LENGTH:
            raise CorruptLog(
                position, f"record size {length} is smaller than the minimum record overhead ({MIN_LEGACY_LENGTH})"
            )
        if LENGTH_OVERHEAD_BYTES + length > left:
            return None
        try:
            return StoredBatch(self, position, read_any_header(prefix))
        except InvalidBatch as error:
            raise CorruptLog(position, str(error)) from error

    # --- bytes ---

    def view(self, position: int, length: int) -> memoryview:
        """Return these bytes, fewer where the file was truncated meanwhile."""
        at = position - self._window_position
        if at < 0 or at + length > len(self._window):
            self._window = self._file.read_at(max(length, WINDOW_BYTES), position)
            self._window_position, at = position, 0
        return memoryview(self._window)[at : at + length]

    def pieces(self, position: int, end: int) -> Iterator[Buffer]:
        """The bytes in [position, end), a window at a time."""
        while position < end:
            piece = self.view(position, min(end - position, WINDOW_BYTES))
            if not len(piece):
                return
            yield piece
            position += len(piece)


def codec_name(header: BatchHeader) -> str:
    """As Apache Kafka names it."""
    codec = header.attributes & COMPRESSION_MASK
    return Compression(codec).name.lower() if codec <= Compression.ZSTD else f"unknown({codec})"
