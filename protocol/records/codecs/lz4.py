"""lz4: one frame of independent blocks, the only form that Kafka's clients read. Bytes after it are ignored, as in Java.

Source: KIP-57; Kafka Lz4BlockInputStream.
"""

from __future__ import annotations

from collections.abc import Iterator

import lz4.frame

from protocol.primitives import Buffer
from protocol.records.codecs import Stream

ERRORS: tuple[type[Exception], ...] = ()  # RuntimeError
DEFAULT_LEVEL = 9
_FLAGS_POSITION = 4
_INDEPENDENT_BLOCKS = 0x20


def compress(data: Buffer, level: int | None) -> bytes:
    # Java's reader does not support blocks that refer to earlier ones, and does not need the other options.
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=_level(level),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _level(level: int | None) -> int:
    """Return lz4's level; Kafka's default level, 9, is not lz4's 9: it means the fast compressor."""
    return 0 if level in (None, DEFAULT_LEVEL) else level


def stream(level: int | None) -> Stream:
    frame = lz4.frame.LZ4FrameCompressor(
        compression_level=_level(level), block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False
    )
    return frame.begin(), frame.compress, frame.flush


def chunks(data: memoryview, chunk_bytes: int) -> Iterator[Buffer]:
    if len(data) > _FLAGS_POSITION and not data[_FLAGS_POSITION] & _INDEPENDENT_BLOCKS:
        raise EOFError("its blocks depend on each other")
    frame = lz4.frame.LZ4FrameDecompressor()
    chunk = frame.decompress(data, chunk_bytes)
    while not frame.eof:
        if not chunk and frame.needs_input:
            raise EOFError("it ends inside a frame")
        yield chunk
        chunk = frame.decompress(b"", chunk_bytes)
    yield chunk
