"""Computes the checksum in the header of an lz4 frame, which is wrong in messages of format v0.

A frame begins: magic (4 bytes), flags, block size, [content size (8)], [dictionary id (4)], checksum. The checksum is the
second byte of the xxHash32 of the header after the magic. Kafka's clients before 0.10 also hashed the magic, and refuse a
frame whose checksum is correct; so it is wrong in every message of format v0, and correct from v1 on.

Rules: pure. A frame that is too short for its header is returned unchanged: the codec reports the error.
Source: lz4 frame format 1.5.1, KAFKA-3160, KIP-57; Kafka Lz4BlockOutputStream (useBrokenFlagDescriptorChecksum).
"""

from __future__ import annotations

from protocol.primitives import Buffer

_MAGIC_BYTES = 4
_CONTENT_SIZE_FLAG, _CONTENT_SIZE_BYTES = 0x08, 8
_DICTIONARY_FLAG, _DICTIONARY_BYTES = 0x01, 4

_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_SHORT_BYTES = 16


def with_header_checksum(frame: Buffer, *, of_magic: bool) -> bytes:
    """Return the frame with a new checksum: including the magic, as in v0, or as the lz4 format defines it."""
    plain = bytearray(frame)
    if len(plain) <= _MAGIC_BYTES:
        return bytes(plain)
    flags = plain[_MAGIC_BYTES]
    end = _MAGIC_BYTES + 2
    end += _CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE_FLAG else 0
    end += _DICTIONARY_BYTES if flags & _DICTIONARY_FLAG else 0
    if end < len(plain):
        plain[end] = _xxh32(bytes(plain[0 if of_magic else _MAGIC_BYTES : end])) >> 8 & 0xFF
    return bytes(plain)


def _xxh32(data: bytes) -> int:
    """Compute xxHash32 with seed 0."""
    length, position = len(data), 0
    if length < _SHORT_BYTES:
        hashed = _PRIME_5
    else:
        lanes = [(_PRIME_1 + _PRIME_2) & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
        while position <= length - _SHORT_BYTES:
            for index in range(4):
                lanes[index] = _rotated(lanes[index] + _word(data, position) * _PRIME_2, 13) * _PRIME_1 & _MASK
                position += 4
        hashed = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    hashed += length
    while position <= length - 4:
        hashed = _rotated(hashed + _word(data, position) * _PRIME_3, 17) * _PRIME_4
        position += 4
    for byte in data[position:]:
        hashed = _rotated(hashed + byte * _PRIME_5, 11) * _PRIME_1
    hashed &= _MASK
    hashed = (hashed ^ hashed >> 15) * _PRIME_2 & _MASK
    hashed = (hashed ^ hashed >> 13) * _PRIME_3 & _MASK
    return hashed ^ hashed >> 16


def _word(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "little")


def _rotated(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> 32 - by) & _MASK
