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


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


@dataclass
class Rec:
    """One record; `length` overrides the true length field, to break it."""

    value: bytes | None = b"value"
    key: bytes | None = b"key"
    timestamp_delta: int = 0
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    offset_delta: int | None = None
    length: int | None = None
    attributes: int = 0

    def encode(self, index: int) -> bytes:
        delta = index if self.offset_delta is None else self.offset_delta
        body = bytes([self.attributes]) + varint(self.timestamp_delta) + varint(delta)
        body += _sized(self.key) + _sized(self.value) + varint(len(self.headers))
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
            payload = gzip.compress(payload, mtime=0)
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


def message_set(magic: int, *values: bytes) -> bytes:
    """A message set of the formats before v2."""
    out = b""
    for offset, value in enumerate(values):
        stamp = struct.pack(">q", MARCH) if magic else b""
        body = struct.pack(">bb", magic, 0) + stamp + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
        message = struct.pack(">I", zlib.crc32(body)) + body
        out += struct.pack(">qi", offset, len(message)) + message
    return out


def headers(data: bytes) -> Iterator[dict[str, int] | str]:
    """The header of each batch with the CRC of its payload, or words for what is no whole v2 batch."""
    position = 0
    while position < len(data):
        rest = len(data) - position
        if rest < 17:
            yield f"{rest} bytes more"
            return
        size = 12 + int(struct.unpack_from(">i", data, position + 8)[0])
        if data[position + 16] < 2:
            yield f"message set {data[position : position + size].hex()}"
        elif size > rest:
            yield f"{rest} bytes more"
            return
        else:
            header: dict[str, int] = dict(zip(_NAMES, _HEADER.unpack_from(data, position), strict=True))
            header["crc_is_valid"] = header["crc"] == crc32c.crc32c(data[position + 21 : position + size])
            header["payload_crc"] = crc32c.crc32c(data[position + 61 : position + size])
            yield header
        position += size
