"""No compression."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.primitives import Buffer
from protocol.records.codecs import Stream

ERRORS: tuple[type[Exception], ...] = ()


def compress(data: Buffer, _level: int | None) -> bytes:
    return bytes(data)


def stream(_level: int | None) -> Stream:
    return b"", bytes, bytes


def chunks(data: memoryview, _chunk_bytes: int) -> Iterator[Buffer]:
    yield data
