"""zstd: frames, RFC 8878. Source: KIP-110."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import zstandard

from protocol.primitives import Buffer
from protocol.records.codecs import Stream

ERRORS = (zstandard.ZstdError,)
DEFAULT_LEVEL = 3
_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_PIECE_BLOCKS = 8
_SMALL_BYTES = 64 * 1024
# The input size for which a stream's parameters are chosen: few batches are larger, and memory is then limited to 17 MiB.
_USUAL_BYTES = 1024 * 1024


def compress(data: Buffer, level: int | None) -> bytes:
    return zstandard.ZstdCompressor(level=DEFAULT_LEVEL if level is None else level).compress(data)


def stream(level: int | None) -> Stream:
    frame = _Frame(DEFAULT_LEVEL if level is None else level)
    return b"", frame.write, frame.finish


class _Frame:
    """Compresses small input in one call: a compressor that does not know the size allocates and clears the largest window of
    its level, which is hundreds of megabytes at high levels."""

    __slots__ = ("_compressor", "_gathered", "_level")

    def __init__(self, level: int) -> None:
        self._level = level
        self._gathered = bytearray()
        self._compressor: zstandard.ZstdCompressionObj | None = None

    def write(self, data: bytes) -> bytes:
        if self._compressor is not None:
            return self._compressor.compress(data)
        self._gathered += data
        if len(self._gathered) <= _SMALL_BYTES:
            return b""
        parameters = zstandard.ZstdCompressionParameters.from_level(self._level, source_size=_USUAL_BYTES)
        self._compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        gathered, self._gathered = self._gathered, bytearray()
        return self._compressor.compress(gathered)

    def finish(self) -> bytes:
        return compress(self._gathered, self._level) if self._compressor is None else self._compressor.flush()


def chunks(data: memoryview, chunk_bytes: int) -> Iterator[Buffer]:
    yield from _check_frames(data)
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    while chunk := reader.read(chunk_bytes):
        yield chunk


def _check_frames(data: memoryview) -> Iterator[bytes]:
    """Check that complete frames fill the data (RFC 8878): the library accepts an incomplete frame as a short one. Raises
    EOFError. Yields an empty chunk at intervals, because there may be any number of empty frames and blocks."""
    position = frames = 0
    while position < len(data):
        magic = int.from_bytes(data[position : position + 4], "little")
        if magic & 0xFFFFFFF0 == _SKIPPABLE_MAGIC:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        elif magic == _MAGIC:
            position = yield from _frame_end(data, position + 4)
        else:
            raise EOFError("no frame begins here")
        frames += 1
        if not frames % _PIECE_BLOCKS:
            yield b""
    if position != len(data) or not position:
        raise EOFError("it ends inside a frame")


def _frame_end(data: memoryview, position: int) -> Generator[bytes, None, int]:
    """Return the end of a frame; `position` is after its magic."""
    if position >= len(data):
        raise EOFError("it ends inside a frame header")
    descriptor = data[position]
    is_single_segment = descriptor >> 5 & 1
    content_size_bytes = (is_single_segment, 2, 4, 8)[descriptor >> 6]
    dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
    position += 2 - is_single_segment + dictionary_id_bytes + content_size_bytes
    is_last = False
    blocks = 0
    while not is_last:
        blocks += 1
        if not blocks % _PIECE_BLOCKS:
            yield b""
        if position + 3 > len(data):
            raise EOFError("it ends inside a block")
        block = int.from_bytes(data[position : position + 3], "little")
        is_last = bool(block & 1)
        is_one_byte_repeated = block >> 1 & 3 == 1
        position += 3 + (1 if is_one_byte_repeated else block >> 3)
    return position + (4 if descriptor & 4 else 0)  # a checksum
