"""Sums up the batches of a `.log` file: how many records they have, their size as stored and as plain bytes, by codec.

Rules: the file is read batch by batch, never mapped: a broker may truncate it. A batch that is not written whole ends the file.
Batches of control records are left out. Plain sizes of the formats v0 and v1 are not known, and count as stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.records.any_format import read_any_header
from protocol.records.batch import MAGIC_V2
from protocol.records.record import plain_records

MAX_DECOMPRESSED_BYTES = 1 << 30
"""Of one batch."""
_LENGTH_AT, _LENGTH_OVERHEAD_BYTES = 8, 12
_HEADER_BYTES = 61


@dataclass(slots=True)
class BatchFigures:
    """The batches of one codec."""

    codec: str
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    plain_bytes: int = 0


def figures_of_file(path: str) -> list[BatchFigures]:
    """Return the figures of a `.log` file, by codec. Raises OSError, InvalidBatch."""
    found: dict[str, BatchFigures] = {}
    with open(path, "rb") as file:
        while True:
            prefix = file.read(_LENGTH_OVERHEAD_BYTES)
            if len(prefix) < _LENGTH_OVERHEAD_BYTES:
                break
            size = int.from_bytes(prefix[_LENGTH_AT:], "big")
            batch = prefix + file.read(size)
            if not size or len(batch) < _LENGTH_OVERHEAD_BYTES + size:
                break
            header = read_any_header(batch)
            if header.magic == MAGIC_V2 and header.is_control:
                continue
            codec = header.compression.name.lower()
            figures = found.setdefault(codec, BatchFigures(codec))
            figures.batches += 1
            figures.records += max(header.records_count, 0)
            figures.size_bytes += len(batch)
            if header.magic == MAGIC_V2 and header.is_compressed:
                figures.plain_bytes += _HEADER_BYTES + len(plain_records(batch, 0, header, MAX_DECOMPRESSED_BYTES))
            else:
                figures.plain_bytes += len(batch)
    return list(found.values())
