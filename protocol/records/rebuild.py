"""Rebuilds a batch v2 with some of its records, as the cleaner needs it.

Offsets, producer, sequence, codec and attributes are those of the original, except unknown attributes. Retained records are
copied byte for byte, unless the batch gets a delete horizon: it replaces the base timestamp, to which the records' timestamps
are relative, so every delta is rewritten.

Rules: pure. Invariant: every retained record keeps its offset and its timestamp.
Source: Kafka MemoryRecords.buildRetainedRecordsInto, MemoryRecordsBuilder; KIP-534.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.errors import ErrorCode
from protocol.primitives import Buffer, DecodeError
from protocol.records.batch import DELETE_HORIZON_BIT, KNOWN_ATTRIBUTES, BatchHeader
from protocol.records.compression import Compression, compress
from protocol.records.invalid import InvalidBatch
from protocol.records.record import assemble, wrap_int64
from protocol.varint import decode_varint, decode_varlong, encode_varint, encode_varlong

Span = tuple[int, int]


def rebuild_batch(
    header: BatchHeader, block: Buffer, spans: Sequence[Span], *, delete_horizon_ms: int | None = None
) -> bytes:
    """Return the batch with the records at `spans`, at least one, of `block`, the original's decompressed records.

    `delete_horizon_ms` is the new delete horizon, if any. Raises InvalidBatch.
    """
    assert spans, "use empty_batch"
    attributes = header.attributes & KNOWN_ATTRIBUTES
    try:
        if delete_horizon_ms is None:
            records, max_delta = b"".join([block[start:end] for start, end in spans]), 0
            if not header.is_log_append_time:
                max_delta = max(_timestamp_delta(block, start) for start, _ in spans)
            base_timestamp = header.base_timestamp
        else:
            shift_ms = header.base_timestamp - delete_horizon_ms
            shifted = [_shifted(block, start, end, shift_ms) for start, end in spans]
            records, max_delta = b"".join([record for record, _ in shifted]), max(delta for _, delta in shifted)
            base_timestamp, attributes = delete_horizon_ms, attributes | DELETE_HORIZON_BIT
    except (DecodeError, IndexError) as error:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"A record of {header} is broken: {error}") from error
    max_timestamp = header.max_timestamp if header.is_log_append_time else wrap_int64(base_timestamp + max_delta)
    codec = header.compression
    return assemble(
        header.base_offset, header.partition_leader_epoch, attributes, header.last_offset_delta, base_timestamp,
        max_timestamp, (header.producer_id, header.producer_epoch, header.base_sequence), len(spans),
        records if codec is Compression.NONE else compress(codec, records),
    )  # fmt: skip


def _timestamp_delta(block: Buffer, start: int) -> int:
    _, at = decode_varint(block, start)
    return decode_varlong(block, at + 1)[0]


def _shifted(block: Buffer, start: int, end: int, shift_ms: int) -> tuple[bytes, int]:
    """Return the record with a timestamp delta increased by `shift_ms`, and that delta."""
    _, at = decode_varint(block, start)
    delta, behind_delta = decode_varlong(block, at + 1)
    delta = wrap_int64(delta + shift_ms)
    timestamp = encode_varlong(delta)
    rest = block[behind_delta:end]
    return b"".join((encode_varint(1 + len(timestamp) + len(rest)), block[at : at + 1], timestamp, rest)), delta
