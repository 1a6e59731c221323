"""How many bytes of a disk stay free where `barnabas.disk.free.min.bytes` is unset. Pure.

Source: none in Apache Kafka, whose broker ends when its last disk is full.
"""

from __future__ import annotations

MiB = 1 << 20
DEFAULT_FLOOR_BYTES = 256 * MiB
SMALL_DISK_PARTS = 4


def default_floor_bytes(segment_bytes: int, total_bytes: int) -> int:
    """Return the floor of a disk of `total_bytes` when none is configured: two segments (`log.segment.bytes`), at least 256
    MiB, and at most a quarter of a small disk."""
    return min(max(DEFAULT_FLOOR_BYTES, 2 * segment_bytes), total_bytes // SMALL_DISK_PARTS)
