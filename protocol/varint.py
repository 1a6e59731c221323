"""Variable-length integers: unsigned ones (lengths and tags of flexible versions) and zigzag ones (record fields).

No IO. Seven bits a byte, least significant group first, the high bit says "more". At most 5 bytes for 32 bits and 10
for 64; one more byte is refused as Kafka refuses it. Bits beyond the width in the last byte are dropped, as in Java.
Source: org.apache.kafka.common.utils.ByteUtils.
"""

from __future__ import annotations

from protocol.primitives import Buffer, DecodeError, EncodeError

_ONE_BYTE = tuple(bytes((n,)) for n in range(128))
ONE_BYTE_VALUES = tuple((n >> 1) ^ -(n & 1) for n in range(128))
"""What a zigzag integer of one byte says."""
_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF


def encode_uvarint(value: int) -> bytes:
    """Encode `value`, in 0..2**32-1."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if 0 <= value < 16384:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if not 0 <= value <= _MASK_32:
        raise EncodeError(f"{value} does not fit an unsigned 32-bit varint")
    return _encode(value)


def decode_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Return the value and the position after it. Raises DecodeError."""
    try:
        first = data[position]
    except IndexError:
        raise DecodeError("the input ends where a varint should start") from None
    if first < 128:
        return first, position + 1
    return continue_uvarint(data, position + 1, first)


def continue_uvarint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Continue to read an unsigned varint whose first byte, already read, has the high bit set."""
    try:
        second = data[position]
        if second < 128:
            return first & 0x7F | second << 7, position + 1
        third = data[position + 1]
        if third < 128:
            return first & 0x7F | (second & 0x7F) << 7 | third << 14, position + 2
    except IndexError:
        raise DecodeError("the input ends inside a varint") from None
    value, position = _decode_rest(data, position, first, 5)
    return value & _MASK_32, position


def encode_varint(value: int) -> bytes:
    """Encode a zigzag integer of 32 bits."""
    if not -(1 << 31) <= value < 1 << 31:
        raise EncodeError(f"{value} does not fit a 32-bit varint")
    return _encode((value << 1) ^ (value >> 31))


def decode_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Decode a zigzag integer of 32 bits; return it and the position after it. Raises DecodeError."""
    try:
        first = data[position]
    except IndexError:
        raise DecodeError("the input ends where a varint should start") from None
    if first < 128:
        return ONE_BYTE_VALUES[first], position + 1
    raw, position = _decode_rest(data, position + 1, first, 5)
    raw &= _MASK_32
    return (raw >> 1) ^ -(raw & 1), position


def encode_varlong(value: int) -> bytes:
    """Encode a zigzag integer of 64 bits."""
    if not -(1 << 63) <= value < 1 << 63:
        raise EncodeError(f"{value} does not fit a 64-bit varint")
    return _encode((value << 1) ^ (value >> 63))


def decode_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """Decode a zigzag integer of 64 bits; return it and the position after it. Raises DecodeError."""
    raw, position = _decode(data, position, 10)
    raw &= _MASK_64
    return (raw >> 1) ^ -(raw & 1), position


def varint_size(value: int) -> int:
    """Return the size in bytes of the result of `encode_varint` or `encode_varlong` for `value`."""
    zigzag = (value << 1) ^ (value >> 63)
    return max(1, (zigzag.bit_length() + 6) // 7)


def _encode(value: int) -> bytes:
    if value < 128:
        return _ONE_BYTE[value]
    if value < 16384:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _decode(data: Buffer, position: int, longest: int) -> tuple[int, int]:
    try:
        first = data[position]
    except IndexError:
        raise DecodeError("the input ends where a varint should start") from None
    if first < 128:
        return first, position + 1
    return _decode_rest(data, position + 1, first, longest)


def _decode_rest(data: Buffer, position: int, first: int, longest: int) -> tuple[int, int]:
    value = first & 0x7F
    shift = 7
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 128:
                return value, position
            shift += 7
            if shift == 7 * longest:
                raise DecodeError(f"a varint is longer than {longest} bytes")
    except IndexError:
        raise DecodeError("the input ends inside a varint") from None
