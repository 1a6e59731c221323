"""The codecs of record batches: a whole block of records in, a whole block out, never more than the caller allows.

gzip: RFC 1952, members one behind the other. snappy: the xerial framing of Java's library (a 16-byte header, then
blocks of raw snappy, each with its length), and raw snappy, which some clients send. lz4: one frame of independent
blocks, as Kafka's clients know nothing else. zstd: frames.

Rules: pure. Decompression is a stream of chunks, so that a bomb costs no more memory than `max_bytes` and no more time
than decompressing that much. Input that ends early or goes on behind its end is refused.
Source: KIP-57 (lz4 frames), KIP-110 (zstd); Kafka Compression and its classes, org.xerial.snappy.SnappyOutputStream.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum

import lz4.frame
import snappy
import zstandard

from protocol.errors import ErrorCode
from protocol.primitives import Buffer
from protocol.records.invalid import InvalidBatch

CHUNK_BYTES = 1024 * 1024
"""Of decompressed data that is produced at once, about."""

_GZIP_WINDOW_BITS = 31  # 15 bits and a gzip header
# What a member leaves over is copied: the first, mostly the only one, is given everything, those behind it a little first.
_NEXT_MEMBER_BYTES = 4 * 1024
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4, "big") * 2  # version, and oldest version that can read it
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_MAX_RATIO = 24  # a 3-byte copy makes 64 bytes at most
LZ4_DEFAULT_LEVEL = 9
_LZ4_FLAGS_POSITION = 4
_LZ4_INDEPENDENT_BLOCKS = 0x20
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50


class Compression(IntEnum):
    """The number is the codec's in the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionTooLarge(InvalidBatch):
    """The data decompresses to more bytes than the caller allows."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE, f"The records of the batch take more than {max_bytes} bytes decompressed."
        )


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`level` None is Kafka's default of the codec; snappy has no levels."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
            return compressor.compress(data) + compressor.flush()
        case Compression.SNAPPY:
            return _compress_xerial(data)
        case Compression.LZ4:
            # Java's reader knows neither blocks that refer to earlier ones nor any need for the other extras.
            frame: bytes = lz4.frame.compress(
                data,
                compression_level=_lz4_level(level),
                block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                block_linked=False,
                store_size=False,
            )
            return frame
        case Compression.ZSTD:
            return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


def _compress_xerial(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        parts += _xerial_block(bytes(view[start : start + _XERIAL_BLOCK_BYTES]))
    return b"".join(parts)


def _xerial_block(data: bytes) -> tuple[bytes, bytes]:
    block = snappy.compress(data)
    return len(block).to_bytes(4, "big"), block


def _lz4_level(level: int | None) -> int:
    """Kafka's default level, 9, is not lz4's ninth: it stands for the fast compressor."""
    return 0 if level in (None, LZ4_DEFAULT_LEVEL) else level


class CompressionStream:
    """Compresses what comes piece by piece, for who may not keep the loop as long as all of it would take."""

    __slots__ = ("_block", "_codec", "_finish", "_parts", "_write", "size_bytes")

    def __init__(self, codec: Compression, level: int | None = None) -> None:
        self._codec = codec
        self._parts: list[bytes] = []
        self._block = bytearray()
        self.size_bytes = 0
        """Of what came out so far."""
        self._write: Callable[[bytes], bytes]
        self._finish: Callable[[], bytes]
        match codec:
            case Compression.NONE:
                self._write, self._finish = bytes, _nothing
            case Compression.GZIP:
                gzip = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
                self._write, self._finish = gzip.compress, gzip.flush
            case Compression.SNAPPY:
                self._keep(_XERIAL_HEADER)
                self._write, self._finish = self._snap, self._snap_rest
            case Compression.LZ4:
                frame = lz4.frame.LZ4FrameCompressor(
                    compression_level=_lz4_level(level), block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False
                )
                self._keep(frame.begin())
                self._write, self._finish = frame.compress, frame.flush
            case Compression.ZSTD:
                zstd = zstandard.ZstdCompressor(level=3 if level is None else level).compressobj()
                self._write, self._finish = zstd.compress, zstd.flush

    def write(self, data: bytes) -> None:
        self._keep(self._write(data))

    def finish(self) -> bytes:
        """Everything, compressed. The stream is of no further use."""
        self._keep(self._finish())
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self.size_bytes += len(part)

    def _snap(self, data: bytes) -> bytes:
        block = self._block
        parts: list[bytes] = []
        block += data
        while len(block) >= _XERIAL_BLOCK_BYTES:
            parts += _xerial_block(bytes(block[:_XERIAL_BLOCK_BYTES]))
            del block[:_XERIAL_BLOCK_BYTES]
        return b"".join(parts)

    def _snap_rest(self) -> bytes:
        return b"".join(_xerial_block(bytes(self._block))) if self._block else b""


def _nothing() -> bytes:
    return b""


def decompress(codec: Compression, data: Buffer, max_bytes: int) -> bytes:
    """All of it. Raises InvalidBatch, DecompressionTooLarge."""
    return b"".join(decompress_chunks(codec, data, max_bytes))


def decompress_chunks(codec: Compression, data: Buffer, max_bytes: int) -> Iterator[Buffer]:
    """The decompressed data in pieces, none of them empty. Raises InvalidBatch, DecompressionTooLarge."""
    total = 0
    try:
        for chunk in _CHUNKS[codec](memoryview(data)):
            total += len(chunk)
            if total > max_bytes:
                raise DecompressionTooLarge(max_bytes)
            if chunk:
                yield chunk
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError, snappy.UncompressError) as error:
        raise _broken(codec, str(error)) from error


def _broken(codec: Compression, problem: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, f"The {codec.name.lower()} data of the batch is broken: {problem}")


def _plain(data: memoryview) -> Iterator[Buffer]:
    yield data


def _gunzip(data: memoryview) -> Iterator[Buffer]:
    position, window = 0, len(data)
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        rest: Buffer = b""
        while not member.eof:
            if not rest:
                rest = data[position : position + window]
                position += len(rest)
                window *= 2
            chunk = member.decompress(rest, CHUNK_BYTES)
            rest = member.unconsumed_tail
            if not chunk and not rest and not member.eof and position >= len(data):
                raise EOFError("it ends inside a gzip member")
            yield chunk
        position -= len(member.unused_data)
        if position >= len(data):
            return
        window = _NEXT_MEMBER_BYTES


def _unsnap(data: memoryview) -> Iterator[Buffer]:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _unsnap_block(data)
        return
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise EOFError("it ends inside the header")
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[start - 4 : start], "big")
        if position > len(data) or start > len(data):
            raise EOFError("it ends inside a block")
        yield _unsnap_block(data[start:position])


def _unsnap_block(block: memoryview) -> bytes:
    """The length at the front is believed only as far as snappy can compress at all."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise EOFError("a block has no length")
    if length > len(block) * _SNAPPY_MAX_RATIO:
        raise EOFError(f"a block of {len(block)} bytes cannot hold {length}")
    if length == 0 and len(block) == 1:
        return b""
    uncompressed: bytes = snappy.uncompress(bytes(block))
    return uncompressed


def _unlz4(data: memoryview) -> Iterator[Buffer]:
    if len(data) > _LZ4_FLAGS_POSITION and not data[_LZ4_FLAGS_POSITION] & _LZ4_INDEPENDENT_BLOCKS:
        raise EOFError("its blocks depend on each other")
    frame = lz4.frame.LZ4FrameDecompressor()
    chunk = frame.decompress(data, CHUNK_BYTES)
    while not frame.eof:
        if not chunk and frame.needs_input:
            raise EOFError("it ends inside a frame")
        yield chunk
        chunk = frame.decompress(b"", CHUNK_BYTES)
    yield chunk
    if frame.unused_data:
        raise EOFError("bytes follow the frame")


def _unzstd(data: memoryview) -> Iterator[Buffer]:
    _check_zstd_frames(data)
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    while chunk := reader.read(CHUNK_BYTES):
        yield chunk


def _check_zstd_frames(data: memoryview) -> None:
    """Whole frames up to the end (RFC 8878): the library takes a cut frame for a short one. Raises EOFError."""
    position = 0
    while position < len(data):
        magic = int.from_bytes(data[position : position + 4], "little")
        if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE_MAGIC:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        elif magic == _ZSTD_MAGIC:
            position = _zstd_frame_end(data, position + 4)
        else:
            raise EOFError("no frame begins here")
    if position != len(data) or not position:
        raise EOFError("it ends inside a frame")


def _zstd_frame_end(data: memoryview, position: int) -> int:
    """`position` is behind the frame's magic."""
    if position >= len(data):
        raise EOFError("it ends inside a frame header")
    descriptor = data[position]
    is_single_segment = descriptor >> 5 & 1
    content_size_bytes = (is_single_segment, 2, 4, 8)[descriptor >> 6]
    dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
    position += 2 - is_single_segment + dictionary_id_bytes + content_size_bytes
    is_last = False
    while not is_last:
        if position + 3 > len(data):
            raise EOFError("it ends inside a block")
        block = int.from_bytes(data[position : position + 3], "little")
        is_last = bool(block & 1)
        is_one_byte_repeated = block >> 1 & 3 == 1
        position += 3 + (1 if is_one_byte_repeated else block >> 3)
    return position + (4 if descriptor & 4 else 0)  # a checksum


_CHUNKS = {
    Compression.NONE: _plain,
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnap,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
