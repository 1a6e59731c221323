"""Record batches built and read by hand, whole or broken on purpose, independent of the codec under test."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import crc32c

MARCH = 1_700_000_000_000
"""A fixed record timestamp: November 2023, in milliseconds."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_NAMES = [
    "base_offset",
    "batch_length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
]


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sized(data: bytes | None, told: int | None = None) -> bytes:
    if told is not None:
        return varint(told) + (data or b"")
    return varint(-1) if data is None else varint(len(data)) + data


@dataclass
class Rec:
    """One record; `length`, `key_length` and `value_length` override the true length fields, to break them."""

    value: bytes | None = b"value"
    key: bytes | None = b"key"
    timestamp_delta: int = 0
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    offset_delta: int | None = None
    length: int | None = None
    attributes: int = 0
    key_length: int | None = None
    value_length: int | None = None

    def encode(self, index: int) -> bytes:
        delta = index if self.offset_delta is None else self.offset_delta
        body = bytes([self.attributes]) + varint(self.timestamp_delta) + varint(delta)
        body += _sized(self.key, self.key_length) + _sized(self.value, self.value_length) + varint(len(self.headers))
        body += b"".join(_sized(key) + _sized(value) for key, value in self.headers)
        return varint(len(body) if self.length is None else self.length) + body


@dataclass
class Batch:
    """A v2 batch. What is None is computed; everything can be set wrong."""

    records: Sequence[Rec] = field(default_factory=lambda: [Rec()])
    base_offset: int = 0
    magic: int = 2
    codec: int = 0
    attributes: int | None = None
    base_timestamp: int = MARCH
    max_timestamp: int | None = None
    last_offset_delta: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None
    crc: int | None = None
    length: int | None = None
    leader_epoch: int = -1

    def encode(self) -> bytes:
        payload = b"".join(record.encode(index) for index, record in enumerate(self.records))
        if self.codec == 1:
            payload = zlib.compress(payload, 9, wbits=31)  # gzip.compress writes a header that depends on the Python
        elif self.codec == 4:
            import zstandard

            payload = zstandard.compress(payload)
        elif self.codec == 3:
            import lz4.frame

            payload = lz4.frame.compress(payload)
        elif self.codec == 2:
            import snappy

            payload = snappy.compress(payload)
        count = len(self.records)
        deltas = [record.timestamp_delta for record in self.records] or [0]
        maximum = self.base_timestamp + max(deltas) if self.max_timestamp is None else self.max_timestamp
        body = struct.pack(
            ">hiqqqhii",
            self.codec if self.attributes is None else self.attributes,
            count - 1 if self.last_offset_delta is None else self.last_offset_delta,
            self.base_timestamp,
            maximum,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            count if self.count is None else self.count,
        )
        body += payload
        crc = crc32c.crc32c(body) if self.crc is None else self.crc
        length = 9 + len(body) if self.length is None else self.length
        return struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc) + body


def batch(*values: bytes | None, **fields: Any) -> bytes:
    """A batch of records with these values, one millisecond apart, keys `k0`, `k1`, ..."""
    recs = [
        Rec(value=value, key=b"k%d" % index, timestamp_delta=index) for index, value in enumerate(values or (b"value",))
    ]
    return Batch(records=recs, **fields).encode()


def idempotent(producer_id: int, epoch: int, sequence: int, *values: bytes) -> bytes:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def message(
    magic: int,
    offset: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    timestamp: int = MARCH,
    attributes: int = 0,
    crc: int | None = None,
) -> bytes:
    """One message of a format before v2; with a wrong `crc` if one is given."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    body = struct.pack(">I", zlib.crc32(body) if crc is None else crc) + body
    return struct.pack(">qi", offset, len(body)) + body


def message_set(magic: int, *values: bytes | None, **fields: Any) -> bytes:
    """A message set of the formats before v2."""
    return b"".join(message(magic, offset, value, **fields) for offset, value in enumerate(values))


def wrapper(magic: int, codec: int, inner: bytes, offset: int, **fields: Any) -> bytes:
    """A message set as one compressed message."""
    attributes = codec | fields.pop("attributes", 0)
    return message(magic, offset, _compressed(codec, inner, is_v0=magic == 0), attributes=attributes, **fields)


def _compressed(codec: int, data: bytes, *, is_v0: bool) -> bytes:
    if codec == 1:
        return zlib.compress(data, 9, wbits=31)
    if codec == 2:
        import snappy

        block = snappy.compress(data)
        return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + struct.pack(">i", len(block)) + block
    assert codec == 3
    import lz4.frame

    frame = bytearray(lz4.frame.compress(data, block_linked=False, store_size=False))
    if is_v0:  # the checksum of old clients, which is over the frame's magic too; this is its only value here
        assert frame[4:6] == b"\x60\x40", frame[:8].hex()
        frame[6] = 0x1A
    return bytes(frame)


def headers(data: bytes) -> Iterator[dict[str, int] | str]:
    """The header of each batch with the CRC of its payload, or words for what is no whole v2 batch."""
    position = 0
    is_exact = True  # how many bytes are left behind what was compressed depends on the compressor
    while position < len(data):
        rest = len(data) - position
        if rest < 17:
            yield f"{rest} bytes more" if is_exact else "some bytes more"
            return
        size = 12 + int(struct.unpack_from(">i", data, position + 8)[0])
        if size > rest:
            yield f"{rest} bytes more" if is_exact else "some bytes more"
            return
        if data[position + 16] < 2:
            is_exact = is_exact and not data[position + 17] & 7
            yield _message_text(data[position : position + size])
        else:
            header: dict[str, int] = dict(zip(_NAMES, _HEADER.unpack_from(data, position), strict=True))
            header["crc_is_valid"] = header["crc"] == crc32c.crc32c(data[position + 21 : position + size])
            header["payload_crc"] = crc32c.crc32c(data[position + 61 : position + size])
            yield header
        position += size


def _message_text(data: bytes) -> str:
    """A message of before v2, and what it wraps."""
    offset, length = struct.unpack_from(">qi", data)
    if len(data) < 12 + length or length < 14:
        return f"{len(data)} bytes, of a message of {12 + length}: offset {offset}"
    crc, magic, attributes = struct.unpack_from(">Ibb", data, 12)
    text = f"message v{magic} at {offset}, attributes {attributes:#x}"
    text += ", crc valid" if crc == zlib.crc32(data[16 : 12 + length]) else ", crc wrong"
    at = 18
    if magic:
        text += f", time {struct.unpack_from('>q', data, at)[0]}"
        at += 8
    parts: list[bytes | None] = []
    for _ in range(2):
        (size,) = struct.unpack_from(">i", data, at)
        parts.append(None if size < 0 else data[at + 4 : at + 4 + size])
        at += 4 + max(size, 0)
    if not attributes & 7:
        return f"{text}, key {parts[0]!r}, value {parts[1]!r}"
    assert parts[1] is not None
    header = f" header checksum {parts[1][6]:#x}" if attributes & 7 == 3 else ""
    return f"{text}{header} ({'; '.join(map(str, headers(_plain(attributes & 7, parts[1]))))})"


def _plain(codec: int, data: bytes) -> bytes:
    if codec == 1:
        return gzip.decompress(data)
    if codec == 2:
        import snappy

        plain, at = b"", 16
        while at < len(data):
            (size,) = struct.unpack_from(">i", data, at)
            plain += snappy.uncompress(data[at + 4 : at + 4 + size])
            at += 4 + size
        return plain
    import lz4.frame

    return bytes(lz4.frame.decompress(data[:6] + b"\x82" + data[7:]))
