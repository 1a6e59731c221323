"""lz4: one frame of independent blocks, as Kafka's clients know nothing else. What follows it is passed over, as Java does.

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
    # Java's reader knows neither blocks that refer to earlier ones nor any need for the other extras.
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=_level(level),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _level(level: int | None) -> int:
    """Kafka's default level, 9, is not lz4's ninth: it stands for the fast compressor."""
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
