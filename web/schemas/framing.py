"""Confluent's framing of a key or value: a zero byte, the schema's id, and for Protobuf the path to the message. Pure.

Source: Confluent's wire format.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from web.schemas.contract import DecodeError

MAGIC: Final = 0
_HEAD: Final = struct.Struct(">BI")
_MAX_PATH_LENGTH: Final = 64


class Framed(NamedTuple):
    schema_id: int
    payload: memoryview


def framed(data: bytes) -> Framed | None:
    """Return the id and what stands behind it; None for bytes without the framing."""
    if len(data) < _HEAD.size or data[0] != MAGIC:
        return None
    return Framed(_HEAD.unpack_from(data)[1], memoryview(data)[_HEAD.size :])


def with_frame(schema_id: int, payload: bytes) -> bytes:
    return _HEAD.pack(MAGIC, schema_id) + payload


def message_path(payload: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """Return the indexes that lead to a message of Protobuf, from the outermost, and its bytes. Raises DecodeError."""
    length, at = _zigzag(payload, 0)
    if length == 0:
        return (0,), payload[at:]
    if not 0 < length <= _MAX_PATH_LENGTH:
        raise DecodeError(f"the path to the message has {length} steps")
    path = []
    for _ in range(length):
        index, at = _zigzag(payload, at)
        path.append(index)
    return tuple(path), payload[at:]


def _zigzag(payload: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(payload) or shift > 28:
            raise DecodeError("the path to the message is cut off")
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
