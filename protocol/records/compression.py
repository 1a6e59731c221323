"""The codecs of record batches: a whole block of records in, a whole block out, never more than the caller allows.

Rules: pure. Decompression is a stream of chunks, so that a bomb costs no more memory than `max_bytes` and no more time
than decompressing that much. Input that ends early is refused; what follows its end is passed over where Java's readers do.
What each codec is: the modules of `protocol.records.codecs`, loaded when a batch needs them.
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
"""Of decompressed data that is produced at once, about."""
STEP_BYTES = 64 * 1024
"""Of plain data that is compressed at once by who stops in between."""
PIECE_STEPS = 10
"""A piece takes as long as so many of the smallest things that are walked over one by one, however small it is."""


class Compression(IntEnum):
    """The number is the codec's in the batch attributes."""

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
    """Nothing wrong was found so far: looking further takes more steps than the caller allows."""


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compress all of it. `level` None is Kafka's default of the codec; snappy has no levels."""
    return _codec(codec).compress(data, level)


class CompressionStream:
    """Compresses piece by piece, for callers that must not block the loop for all of it."""

    __slots__ = ("_finish", "_parts", "_write", "size_bytes")

    def __init__(self, codec: Compression, level: int | None = None) -> None:
        opening, self._write, self._finish = _codec(codec).stream(level)
        self._parts = [opening]
        self.size_bytes = len(opening)
        """Of what came out so far."""

    def write(self, data: bytes) -> None:
        self._keep(self._write(data))

    def write_in_steps(self, data: Buffer) -> Iterator[None]:
        """The same of what may be large, with a stop behind each `STEP_BYTES`."""
        with memoryview(data) as view:
            for at in range(0, len(view), STEP_BYTES):
                self.write(bytes(view[at : at + STEP_BYTES]))
                yield

    def finish(self) -> bytes:
        """Everything, compressed. The stream is of no further use."""
        self._keep(self._finish())
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self.size_bytes += len(part)


def decompress(codec: Compression, data: Buffer, max_bytes: int, max_steps: int | None = None) -> bytes:
    """Decompress all of it. Raises InvalidBatch, DecompressionTooLarge, TooManySteps."""
    return b"".join(decompress_chunks(codec, data, max_bytes, max_steps))


def decompress_chunks(
    codec: Compression, data: Buffer, max_bytes: int, max_steps: int | None = None
) -> Iterator[Buffer]:
    """Yield the decompressed data in pieces; many may be empty. Raises InvalidBatch, DecompressionTooLarge, and TooManySteps
    when `max_steps` are given and the pieces take more."""
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
