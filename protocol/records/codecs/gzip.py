"""gzip: RFC 1952, a sequence of members. Bytes after a member that do not begin another are ignored, as in Java.

Source: java.util.zip.GZIPInputStream.readTrailer.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from protocol.primitives import Buffer
from protocol.records.codecs import Stream

ERRORS = (zlib.error,)
_WINDOW_BITS = 31  # 15 bits and a gzip header
# The input after a member is copied: the first member, usually the only one, gets all of the input, later ones a little first.
_NEXT_MEMBER_BYTES = 4 * 1024
_MEMBER_BEGINS = b"\x1f\x8b\x08"
_MIN_MEMBER_BYTES = 10 + 8  # a header and a trailer; the data between them is never empty


def compress(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def stream(level: int | None) -> Stream:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _WINDOW_BITS)
    return b"", compressor.compress, compressor.flush


def chunks(data: memoryview, chunk_bytes: int) -> Iterator[Buffer]:
    position, window = 0, len(data)
    while True:
        member = zlib.decompressobj(_WINDOW_BITS)
        rest: Buffer = b""
        while not member.eof:
            if not rest:
                rest = data[position : position + window]
                position += len(rest)
                window *= 2
            chunk = member.decompress(rest, chunk_bytes)
            rest = member.unconsumed_tail
            if not chunk and not rest and not member.eof and position >= len(data):
                raise EOFError("it ends inside a gzip member")
            yield chunk
        position -= len(member.unused_data)
        begins_another = data[position : position + len(_MEMBER_BEGINS)] == _MEMBER_BEGINS
        if not begins_another or len(data) - position <= _MIN_MEMBER_BYTES:
            return
        window = _NEXT_MEMBER_BYTES
