"""The latest offset of every key, in a fixed amount of memory: what the cleaner knows of the dirty part of a log.
Pure.

While the keys are few they are kept themselves, in a dict, which is several times faster. When they take a quarter of the
buffer, their hashes take their place:

    slot, 20 bytes in three columns:   hash of the key 64 bits | CRC-32C of the key 32 bits | offset 64 bits

Two keys count as one when both their hashes agree: for five million keys, as many as the default buffer holds, that happens
once in 10**15 cleanings. The first hash is Python's own, keyed by the process, so that nobody can choose keys that meet; it
costs a quarter of the MD5 that Apache Kafka takes.

Rules: pure. Slots are found by linear probing, which needs room: callers stop at `limit` entries. A buffer of n bytes
has n // 24 slots, as in Apache Kafka, so that both clean up to the same offset; no more memory is taken than the keys
that can come need.
Invariants: `entries <= limit < slots`; keys are in one of both forms; an offset that was put replaces a smaller one of the
same key.
Source: Kafka SkimpyOffsetMap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from mmap import mmap

from protocol.crc32c import crc32c
from runtime.error_texts import reason_of

KAFKA_SLOT_BYTES = 24
"""An MD5 and an offset."""
EXACT_SHARE = 4
"""Keys themselves may take one part in so many of the buffer."""
EXACT_ENTRY_BYTES = 200
"""A key's object without its bytes, its offset, and its place in a dict that has just grown."""
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
    keys. Methods that add keys raise MemoryError."""

    __slots__ = ("_exact", "_exact_bytes", "_exact_max_bytes", "_hashed", "_slots", "latest_offset", "limit")

    def __init__(self, buffer_bytes: int, load_factor: float, keys_expected: int) -> None:
        capacity = max(buffer_bytes // KAFKA_SLOT_BYTES, 2)
        limit = min(max(int(capacity * min(load_factor, 1.0)), 1), capacity - 1)
        if keys_expected < limit:
            # Half of the slots stay free, as long as that is no more than was given.
            capacity = min(capacity, 2 * keys_expected + 2)
            limit = max(min(keys_expected, capacity - 1), 1)
        self.limit = limit
        self.latest_offset = -1
        """Every record up to here is in the map, or needs not be."""
        self._slots = capacity
        self._exact: dict[bytes, int] = {}
        self._exact_bytes = 0
        self._exact_max_bytes = buffer_bytes // EXACT_SHARE
        self._hashed: HashedOffsets | None = None

    @property
    def entries(self) -> int:
        """The number of keys."""
        return len(self._exact) if self._hashed is None else self._hashed.entries

    @property
    def utilization(self) -> float:
        """The share of the slots that are in use."""
        return self.entries / self._slots

    def put(self, keys: Sequence[bytes | None], offsets: Sequence[int], start_offset: int = 0) -> bool:
        """Add the keys of a batch, with their rising offsets. Records without key or below `start_offset` are skipped. Returns
        False when the map is full before all are added: `latest_offset` is the last one added."""
        if not keys:
            return True
        if offsets[0] < start_offset or None in keys:
            wanted = [
                each for each in zip(keys, offsets, strict=True) if each[0] is not None and each[1] >= start_offset
            ]
            keys, offsets = [key for key, _ in wanted], [offset for _, offset in wanted]
            if not keys:
                return True
        if self.entries + len(keys) > self.limit:
            return all(self._put_all((key,), (offset,)) for key, offset in zip(keys, offsets, strict=True))
        return self._put_all(keys, offsets)

    def _put_all(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> bool:
        """Add all keys, none of which is None; False when the map is full."""
        if self.entries >= self.limit:
            return False
        if self._hashed is None:
            self._put_exact(keys, offsets)  # type: ignore[arg-type]
        else:
            self._hashed.put(keys, offsets)  # type: ignore[arg-type]
        self.latest_offset = offsets[-1]
        return True

    def _put_exact(self, keys: Sequence[bytes], offsets: Sequence[int]) -> None:
        exact = self._exact
        before = len(exact)
        exact.update(zip(keys, offsets, strict=True))
        if len(exact) > before:
            self._exact_bytes += (len(exact) - before) * (EXACT_ENTRY_BYTES + max(map(len, keys)))
            if self._exact_bytes > self._exact_max_bytes:
                self._hashed = HashedOffsets(self._slots)
                self._hashed.put(exact, exact.values())
                self._exact = {}

    def reached(self, offset: int) -> None:
        """Note that everything up to `offset` was added or skipped."""
        if offset > self.latest_offset:
            self.latest_offset = offset

    def latest(self, keys: Sequence[bytes | None]) -> list[int]:
        """Return the latest offset of each key, NOT_FOUND for those without one."""
        if self._hashed is None:
            find = self._exact.get
            return [find(key, NOT_FOUND) for key in keys]  # type: ignore[arg-type]  # None is no key of the dict
        return self._hashed.latest(keys)

    def offsets(self) -> Iterable[int]:
        """Return the latest offsets of all keys, in no order."""
        return self._exact.values() if self._hashed is None else self._hashed.offsets()


class HashedOffsets:
    """The latest offsets by hashes of the keys, in `slots` slots, more than there will be keys. Raises MemoryError."""

    __slots__ = ("_checks", "_hashes", "_offsets", "_slots", "entries")

    def __init__(self, slots: int) -> None:
        self.entries = 0
        self._slots = slots
        self._hashes = _zeroed(8 * slots).cast("q")
        self._checks = _zeroed(4 * slots).cast("I")
        self._offsets = _zeroed(8 * slots).cast("q")

    def put(self, keys: Iterable[bytes], offsets: Iterable[int]) -> None:
        """Add keys, or replace their offsets. The caller keeps one slot free at least."""
        hashes, checks, columns, slots = self._hashes, self._checks, self._offsets, self._slots
        added = 0
        for key, offset in zip(keys, offsets, strict=True):
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
                added += 1
            columns[at] = offset
        self.entries += added

    def latest(self, keys: Sequence[bytes | None]) -> list[int]:
        """See `OffsetMap.latest`."""
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

    def offsets(self) -> Iterable[int]:
        """See `OffsetMap.offsets`."""
        return compress(self._offsets, self._hashes)
