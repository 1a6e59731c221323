"""snappy: the xerial framing of Java's library (a 16-byte header, then blocks of raw snappy, each with its length), and raw
snappy, which some clients send. A stream may follow another; fewer bytes than a block's length field at the end are ignored.

Source: org.xerial.snappy.SnappyOutputStream, SnappyInputStream.
"""

from __future__ import annotations

from collections.abc import Iterator

import snappy

from protocol.primitives import Buffer
from protocol.records.codecs import Stream

ERRORS = (snappy.UncompressError,)
_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + (1).to_bytes(4, "big") * 2  # version, and oldest version that can read it
_LENGTH_BYTES = 4
_BLOCK_BYTES = 32 * 1024
_MAX_RATIO = 24  # a 3-byte copy makes 64 bytes at most


def compress(data: Buffer, _level: int | None) -> bytes:
    """Compress `data`; snappy has no levels."""
    parts = [_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _BLOCK_BYTES):
        parts += _block(bytes(view[start : start + _BLOCK_BYTES]))
    return b"".join(parts)


def _block(data: bytes) -> tuple[bytes, bytes]:
    block = snappy.compress(data)
    return len(block).to_bytes(4, "big"), block


def stream(_level: int | None) -> Stream:
    blocks = _Blocks()
    return _HEADER, blocks.write, blocks.finish


class _Blocks:
    """Collects input until it fills a block."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def write(self, data: bytes) -> bytes:
        rest = self._rest
        parts: list[bytes] = []
        rest += data
        while len(rest) >= _BLOCK_BYTES:
            parts += _block(bytes(rest[:_BLOCK_BYTES]))
            del rest[:_BLOCK_BYTES]
        return b"".join(parts)

    def finish(self) -> bytes:
        return b"".join(_block(bytes(self._rest))) if self._rest else b""


def chunks(data: memoryview, _chunk_bytes: int) -> Iterator[Buffer]:
    if data[: len(_MAGIC)] != _MAGIC:
        yield _unsnap_block(data)
        return
    position = 0
    while position + _LENGTH_BYTES <= len(data):
        if data[position : position + len(_MAGIC)] == _MAGIC:
            position += len(_HEADER)
            if position > len(data):
                raise EOFError("it ends inside a header")
            continue
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data):
            raise EOFError("it ends inside a block")
        yield _unsnap_block(data[start:position])


def _unsnap_block(block: memoryview) -> bytes:
    """Decompress a block; refuse a declared length beyond snappy's maximum compression ratio."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise EOFError("a block has no length")
    if length > len(block) * _MAX_RATIO:
        raise EOFError(f"a block of {len(block)} bytes cannot hold {length}")
    if length == 0 and len(block) == 1:
        return b""
    uncompressed: bytes = snappy.uncompress(bytes(block))
    return uncompressed
