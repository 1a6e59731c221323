"""How much room a log directory has left, and who may still write into it. Pure.

    free bytes   plenty            floor                        floor / 4              0
    -------------------------------+----------------------------+----------------------+
                 everybody         what the broker itself       nobody appends
                                   cannot do without

The floor is `barnabas.disk.free.min.bytes`. Below it what clients produce and what followers copy is refused with
KAFKA_STORAGE_ERROR, which clients try again; offset commits, markers, checkpoints and the store go on in the reserve, and
reads, deletions and retention, which make room, go on at any time. A disk that refuses a write although it seemed to have
room (a quota, another process) counts as one that is full, for a moment at least.

Rules: no IO, no clock: who measures tells when. `next_look_ms` says how soon to measure again: the nearer the floor, the
sooner. Between two looks what is appended is taken off, because a look waits for a thread, and clients do not.
Invariants: `room` is NONE or RESERVE while fewer bytes than the floor are known to be free; it is OPEN again only when an
eighth of the floor more is free, so that it does not flicker.
Source: none in Apache Kafka, whose broker ends with its last directory when a disk is full.
"""

from __future__ import annotations

import errno
from enum import Enum

from protocol.errors import ErrorCode, KafkaError

MiB = 1 << 20
DEFAULT_FLOOR_BYTES = 256 * MiB
RESERVE_PARTS = 4
"""Down to this part of the floor the broker's own records are written."""
_MARGIN_PARTS = 8
_LARGEST_DEFAULT_PARTS = 4

FASTEST_FILLING_BYTES_PER_MS = 2 * MiB
"""No broker fills a disk faster: so long a look may be away from the floor."""
SHORTEST_LOOK_MS = 50
LONGEST_LOOK_MS = 1000
REFUSED_PAUSE_MS = 1000
"""After a refused write the disk counts as full for so long, whatever it says."""

_OWN_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_no_space(error: OSError) -> bool:
    """Whether there is no room, rather than something wrong with the disk."""
    return error.errno in _NO_SPACE


def default_floor_bytes(segment_bytes: int, total_bytes: int) -> int:
    """The floor of a disk of `total_bytes` for which none was set: two segments, 256 MiB at least; a small disk keeps
    three quarters of itself for records."""
    return min(max(DEFAULT_FLOOR_BYTES, 2 * segment_bytes), total_bytes // _LARGEST_DEFAULT_PARTS)


class Room(Enum):
    """Who may append."""

    OPEN = "open"
    RESERVE = "reserve"
    NONE = "none"


class NoRoom(KafkaError):
    """The disk is (almost) full: the same append may well be taken later."""


class FreeSpace:
    """One log directory's. Without a floor there is always room."""

    __slots__ = ("_full_until_ms", "floor_bytes", "free_bytes", "room")

    def __init__(self, floor_bytes: int = 0) -> None:
        self.floor_bytes = floor_bytes
        self.free_bytes: int | None = None
        self.room = Room.OPEN
        self._full_until_ms = 0

    def __repr__(self) -> str:
        return f"<FreeSpace {self.room.value} free={self.free_bytes} floor={self.floor_bytes}>"

    def on_measured(self, free_bytes: int, now_ms: int) -> bool:
        """So many bytes are free. Whether `room` is another now."""
        self.free_bytes = free_bytes
        before = self.room
        if now_ms < self._full_until_ms or free_bytes < self.floor_bytes // RESERVE_PARTS:
            self.room = Room.NONE
        elif free_bytes < self.floor_bytes + (0 if before is Room.OPEN else self.floor_bytes // _MARGIN_PARTS):
            self.room = Room.RESERVE
        else:
            self.room = Room.OPEN
        return self.room is not before

    def on_placed(self, size_bytes: int) -> bool:
        """So many bytes more are in use, of records. Whether `room` is another now: it only gets less so."""
        if self.free_bytes is None:
            return False
        self.free_bytes = free_bytes = self.free_bytes - size_bytes
        if free_bytes >= self.floor_bytes or self.room is Room.NONE:
            return False
        before = self.room
        self.room = Room.NONE if free_bytes < self.floor_bytes // RESERVE_PARTS else Room.RESERVE
        return self.room is not before

    def on_refused(self, now_ms: int) -> bool:
        """The disk had no room for a write. Whether `room` is another now."""
        before, self.room = self.room, Room.NONE
        self._full_until_ms = now_ms + REFUSED_PAUSE_MS
        return before is not Room.NONE

    @property
    def next_look_ms(self) -> int:
        """So long what was measured last is good enough."""
        if self.free_bytes is None:
            return SHORTEST_LOOK_MS
        distance_ms = abs(self.free_bytes - self.floor_bytes) // FASTEST_FILLING_BYTES_PER_MS
        longest_ms = LONGEST_LOOK_MS if self.room is Room.OPEN else LONGEST_LOOK_MS // 4
        return max(SHORTEST_LOOK_MS, min(distance_ms, longest_ms))

    def refusal(self, topic: str, *, is_own: bool) -> NoRoom | None:
        """Why records are not taken, None when they are. `is_own`: they are the broker's own (a coordinator's, a marker)."""
        if self.room is Room.OPEN or (self.room is Room.RESERVE and (is_own or topic in _OWN_TOPICS)):
            return None
        return NoRoom(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The disk is full: {self.free_bytes} bytes are free, {self.floor_bytes} are to stay free "
            "(barnabas.disk.free.min.bytes).",
        )
