"""What the tests of record batches share: batches of other implementations, Hypothesis strategies, damage with a CRC."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence

import snappy
from hypothesis import strategies as st

from protocol.records.batch import HEADER_BYTES, crc_of
from protocol.records.compression import Compression
from protocol.records.record import Record
from tests.protocol.records.python_clients import AiokafkaBuilder, KafkaPythonBuilder

MAX_BYTES = 32 * 1024 * 1024
ALL_CODECS = tuple(Compression)

TIMESTAMPS = st.integers(min_value=0, max_value=1 << 50)
PAYLOADS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)


def record_lists(max_size: int = 30) -> st.SearchStrategy[list[Record]]:
    record = st.builds(Record, st.just(0), TIMESTAMPS, PAYLOADS, PAYLOADS, HEADERS)
    return st.lists(record, min_size=1, max_size=max_size)


def numbered(records: Sequence[Record], base_offset: int = 0) -> list[Record]:
    """The records as a reader of a batch at `base_offset` sees them."""
    return [
        Record(base_offset + index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]


def many_records(count: int, value_bytes: int = 100, *, key: bytes | None = b"key") -> list[Record]:
    return [Record(0, 1_000_000 + index, key, bytes([index % 251]) * value_bytes) for index in range(count)]


def kafka_python_batch(records: Sequence[Record], codec: Compression) -> bytes:
    builder = KafkaPythonBuilder(
        magic=2, compression_type=int(codec), is_transactional=False, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 30,
    )  # fmt: skip
    for index, record in enumerate(records):
        assert builder.append(index, record.timestamp, record.key, record.value, record.headers)
    return bytes(builder.build())


def aiokafka_batch(records: Sequence[Record], codec: Compression) -> bytes:
    builder = AiokafkaBuilder(
        magic=2, compression_type=int(codec), is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 30,
    )  # fmt: skip
    for index, record in enumerate(records):
        assert builder.append(index, record.timestamp, record.key, record.value, record.headers)
    return bytes(builder.build())


def with_field(batch: bytes, form: str, position: int, value: int) -> bytearray:
    """The batch with one header field changed, and a CRC that says it was meant so."""
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    return sealed(changed)


def with_records(batch: bytes, block: bytes, count: int | None = None) -> bytearray:
    """The batch's header before other records, with length and CRC to fit."""
    changed = bytearray(batch[:HEADER_BYTES]) + block
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    if count is not None:
        struct.pack_into(">i", changed, 57, count)
        struct.pack_into(">i", changed, 23, count - 1)
    return sealed(changed)


def in_pieces(codec: Compression, pieces: Sequence[bytes]) -> bytes:
    """Compressed data of which each piece comes out by itself: gzip members, or blocks of xerial snappy."""
    if codec is Compression.GZIP:
        return b"".join([gzip.compress(piece, 1) for piece in pieces])
    assert codec is Compression.SNAPPY
    blocks = [snappy.compress(piece) for piece in pieces]
    front = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return front + b"".join([struct.pack(">i", len(block)) + block for block in blocks])


def sealed(batch: bytearray) -> bytearray:
    struct.pack_into(">I", batch, 17, crc_of(batch, 0, len(batch)))
    return batch
