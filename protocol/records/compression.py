"""Compresses and decompresses the records of batches, as whole blocks or in pieces, within the caller's limits.

Rules: pure. Decompression is a stream of chunks, so that a bomb costs no more memory than `max_bytes` and no more time
than decompressing that much. Input that ends early is refused; bytes after its end are ignored where Java's readers do.
The codecs are the modules of `protocol.records.codecs`, each loaded when a batch needs it.
Source: Kafka Compression and its classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import cache

from protocol.errors import ErrorCode
from protocol.primitives import Buffer
from protocol.records.codecs import Codec
from protocol.records.invalid import InvalidBatch

CHUNK_BYTES = 1024 * 1024
"""The approximate size of a chunk of decompressed data."""
STEP_BYTES = 64 * 1024
"""The size of uncompressed data that is compressed in one step by callers that must not block."""
PIECE_STEPS = 10
"""The number of steps that one chunk costs at least: even an empty chunk takes as long as that many record headers."""


class Compression(IntEnum):
    """The codecs by their number in the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


@cache
def _codec(codec: Compression) -> Codec:
    match codec:
        case Compression.NONE:
            from protocol.records.codecs import plain  # noqa: PLC0415  see `protocol.records.codecs`

            return plain
        case Compression.GZIP:
            from protocol.records.codecs import gzip  # noqa: PLC0415  see `protocol.records.codecs`

            return gzip
        case Compression.SNAPPY:
            from protocol.records.codecs import snappy  # noqa: PLC0415  see `protocol.records.codecs`

            return snappy
        case Compression.LZ4:
            from protocol.records.codecs import lz4  # noqa: PLC0415  see `protocol.records.codecs`

            return lz4
        case Compression.ZSTD:
            from protocol.records.codecs import zstd  # noqa: PLC0415  see `protocol.records.codecs`

            return zstd


class DecompressionTooLarge(InvalidBatch):
    """The data decompresses to more bytes than the caller allows."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE, f"The records of the batch take more than {max_bytes} bytes decompressed."
        )


class TooManySteps(Exception):
    """The check found nothing wrong so far, but going on takes more steps than the caller allows."""


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compress all of `data`. `level` None is Kafka's default of the codec; snappy has no levels."""
    return _codec(codec).compress(data, level)


class CompressionStream:
    """Compresses piece by piece, for callers that must not block the loop for all of it."""

    __slots__ = ("_finish", "_parts", "_write", "size_bytes")

    def __init__(self, codec: Compression, level: int | None = None) -> None:
        opening, self._write, self._finish = _codec(codec).stream(level)
        self._parts = [opening]
        self.size_bytes = len(opening)
        """The size of the compressed output so far."""

    def write(self, data: bytes) -> None:
        self._keep(self._write(data))

    def write_in_steps(self, data: Buffer) -> Iterator[None]:
        """Write data that may be large, and yield after each `STEP_BYTES`."""
        with memoryview(data) as view:
            for at in range(0, len(view), STEP_BYTES):
                self.write(bytes(view[at : at + STEP_BYTES]))
                yield

    def finish(self) -> bytes:
        """Return all of the compressed output. The stream cannot be used afterwards."""
        self._keep(self._finish())
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self.size_bytes += len(part)


def decompress(codec: Compression, data: Buffer, max_bytes: int, max_steps: int | None = None) -> bytes:
    """Decompress all of `data`. Raises InvalidBatch, DecompressionTooLarge, TooManySteps."""
    return b"".join(decompress_chunks(codec, data, max_bytes, max_steps))


def decompress_chunks(
    codec: Compression, data: Buffer, max_bytes: int, max_steps: int | None = None
) -> Iterator[Buffer]:
    """Yield the decompressed data in chunks; many may be empty. Raises InvalidBatch, DecompressionTooLarge, and TooManySteps
    when `max_steps` is given and the chunks take more."""
    module = _codec(codec)
    errors: tuple[type[Exception], ...] = (EOFError, RuntimeError, *module.ERRORS)
    total = 0
    most_pieces = None if max_steps is None else max_steps // PIECE_STEPS
    try:
        for number, chunk in enumerate(module.chunks(memoryview(data), CHUNK_BYTES), 1):
            if most_pieces is not None and number > most_pieces:
                raise TooManySteps
            total += len(chunk)
            if total > max_bytes:
                raise DecompressionTooLarge(max_bytes)
            yield chunk
    except errors as error:
        problem = f"The {codec.name.lower()} data of the batch is broken: {error}"
        raise InvalidBatch(ErrorCode.INVALID_RECORD, problem) from error
