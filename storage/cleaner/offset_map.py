"""The latest offset of every key, in a fixed amount of memory: what the cleaner knows of the dirty part of a log.
Pure.

    slot, 20 bytes in three columns:   hash of the key 64 bits | CRC-32C of the key 32 bits | offset 64 bits

Keys themselves are not kept. Two keys count as one when both their hashes agree: for five million keys, as many as the
default buffer holds, that happens once in 10**15 cleanings. The first hash is Python's own, keyed by the process, so that
nobody can choose keys that meet; it costs a quarter of the MD5 that Apache Kafka takes.

Rules: pure. Slots are found by linear probing, which needs room: callers stop at `limit` entries. A buffer of n bytes
has n // 24 slots, as in Apache Kafka, so that both clean up to the same offset; no more memory is taken than the keys
that can come need.
Invariants: `entries <= limit < slots`; an offset that was put replaces a smaller one of the same key.
Source: Kafka SkimpyOffsetMap.
"""

from __future__ import annotations

from collections.abc import Sequence
from mmap import mmap

from protocol.crc32c import crc32c
from runtime.error_texts import reason_of

KAFKA_SLOT_BYTES = 24
"""An MD5 and an offset."""
SLOT_BYTES = 20
NOT_FOUND = -1
_NO_HASH = 0  # marks an empty slot


def _zeroed(size_bytes: int) -> memoryview:
    """Allocate zeroed memory, which the system grants page by page as it is touched, and takes back when freed. Raises
    MemoryError."""
    try:
        return memoryview(mmap(-1, size_bytes))
    except OSError as error:  # no file has a part in it: whoever minds disks must not take it for one's error
        raise MemoryError(f"Cannot map {size_bytes} bytes: {reason_of(error)}") from error


class OffsetMap:
    """The map. `buffer_bytes`: `log.cleaner.dedupe.buffer.size`, one thread's share. `keys_expected`: the maximum number of
    keys. Raises MemoryError."""

    __slots__ = ("_checks", "_hashes", "_offsets", "_slots", "entries", "latest_offset", "limit")

    def __init__(self, buffer_bytes: int, load_factor: float, keys_expected: int) -> None:
        capacity = max(buffer_bytes // KAFKA_SLOT_BYTES, 2)
        limit = min(max(int(capacity * min(load_factor, 1.0)), 1), capacity - 1)
        if keys_expected < limit:
            # Half of the slots stay free, as long as that is no more than was given.
            capacity = min(capacity, 2 * keys_expected + 2)
            limit = max(min(keys_expected, capacity - 1), 1)
        self.limit = limit
        self.entries = 0
        self.latest_offset = -1
        """Every record up to here is in the map, or needs not be."""
        self._slots = capacity
        self._hashes = _zeroed(8 * capacity).cast("q")
        self._checks = _zeroed(4 * capacity).cast("I")
        self._offsets = _zeroed(8 * capacity).cast("q")

    @property
    def utilization(self) -> float:
        """The share of the slots that are in use."""
        return self.entries / self._slots

    @property
    def size_bytes(self) -> int:
        return self._slots * SLOT_BYTES

    def put(self, keys: Sequence[bytes | None], deltas: Sequence[int], base_offset: int, start_offset: int = 0) -> bool:
        """Add the keys of a batch, at `base_offset` plus their deltas, rising. Records without key or below `start_offset` are
        skipped. Returns False when the map is full before all are added: `latest_offset` is the last one added."""
        hashes, checks, offsets, slots = self._hashes, self._checks, self._offsets, self._slots
        entries, limit = self.entries, self.limit
        latest_offset = self.latest_offset
        try:
            for key, delta in zip(keys, deltas, strict=True):
                offset = base_offset + delta
                if key is None or offset < start_offset:
                    continue
                if entries >= limit:
                    return False
                key_hash = hash(key) or 1
                check = crc32c(key)
                at = key_hash % slots
                while (found := hashes[at]) != _NO_HASH:
                    if found == key_hash and checks[at] == check:
                        break
                    at += 1
                    if at == slots:
                        at = 0
                else:
                    hashes[at] = key_hash
                    checks[at] = check
                    entries += 1
                offsets[at] = offset
                latest_offset = offset
        finally:
            self.entries = entries
            self.latest_offset = latest_offset
        return True

    def reached(self, offset: int) -> None:
        """Note that everything up to `offset` was added or skipped."""
        if offset > self.latest_offset:
            self.latest_offset = offset

    def latest(self, keys: Sequence[bytes | None]) -> list[int]:
        """Return the latest offset of each key, NOT_FOUND for those without one."""
        hashes, checks, offsets, slots = self._hashes, self._checks, self._offsets, self._slots
        answers: list[int] = []
        for key in keys:
            answer = NOT_FOUND
            if key is not None:
                key_hash = hash(key) or 1
                at = key_hash % slots
                while (found := hashes[at]) != _NO_HASH:
                    if found == key_hash and checks[at] == crc32c(key):
                        answer = offsets[at]
                        break
                    at += 1
                    if at == slots:
                        at = 0
            answers.append(answer)
        return answers
