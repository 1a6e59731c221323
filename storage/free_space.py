"""Decides by the free space of a log directory which appends it accepts. Pure.

    free bytes   plenty            floor                        floor / 4              0
    -------------------------------+----------------------------+----------------------+
                 all appends       only the broker's            no appends
                                   own records

The floor is `barnabas.disk.free.min.bytes`. Below it produced and replicated records are refused with KAFKA_STORAGE_ERROR,
which clients retry; offset commits, markers, checkpoints and the store use the reserve, and reads, deletions and retention,
which free space, always go on. A disk that refuses a write although it reported free space (a quota, another process)
counts as full for at least `REFUSED_PAUSE_MS`.

Rules: no IO, no clock: the caller that measures passes the time. `next_look_ms` says how soon to measure again: the nearer
the floor, the sooner. Appended bytes are subtracted between two measurements, because measuring waits for a thread, and
clients do not.
Invariants: `room` is NONE or RESERVE while fewer bytes than the floor are known to be free; it is OPEN again only when an
eighth of the floor more is free, so that it does not alternate.
Source: none in Apache Kafka, whose broker shuts down with its last directory when a disk is full.
"""

from __future__ import annotations

import errno
from enum import Enum

from protocol.errors import ErrorCode, KafkaError

MiB = 1 << 20
RESERVE_PARTS = 4
"""The broker's own records are written down to this fraction of the floor."""
_MARGIN_PARTS = 8

FASTEST_FILLING_BYTES_PER_MS = 2 * MiB
"""The assumed maximum rate at which a broker fills a disk; it limits the time between two measurements."""
SHORTEST_LOOK_MS = 50
LONGEST_LOOK_MS = 1000
REFUSED_PAUSE_MS = 1000
"""The disk counts as full for this time after a refused write, whatever it reports."""

_OWN_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_no_space(error: OSError) -> bool:
    """Return whether the disk is full (or a quota is used up), rather than broken."""
    return error.errno in _NO_SPACE


class Room(Enum):
    """The appends that are accepted."""

    OPEN = "open"
    RESERVE = "reserve"
    NONE = "none"


class NoRoom(KafkaError):
    """The disk is (almost) full: the same append may succeed later."""


class FreeSpace:
    """The free space of one log directory. Without a floor, every append is accepted."""

    __slots__ = ("_full_until_ms", "floor_bytes", "free_bytes", "room")

    def __init__(self, floor_bytes: int = 0) -> None:
        self.floor_bytes = floor_bytes
        self.free_bytes: int | None = None
        self.room = Room.OPEN
        self._full_until_ms = 0

    def __repr__(self) -> str:
        return f"<FreeSpace {self.room.value} free={self.free_bytes} floor={self.floor_bytes}>"

    def on_measured(self, free_bytes: int, now_ms: int) -> bool:
        """Note measured free bytes; return whether `room` changed."""
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
        """Note bytes of appended records; return whether `room` changed, which here only gets less."""
        if self.free_bytes is None:
            return False
        self.free_bytes = free_bytes = self.free_bytes - size_bytes
        if free_bytes >= self.floor_bytes or self.room is Room.NONE:
            return False
        before = self.room
        self.room = Room.NONE if free_bytes < self.floor_bytes // RESERVE_PARTS else Room.RESERVE
        return self.room is not before

    def on_refused(self, now_ms: int) -> bool:
        """Note that the disk refused a write for lack of space; return whether `room` changed."""
        before, self.room = self.room, Room.NONE
        self._full_until_ms = now_ms + REFUSED_PAUSE_MS
        return before is not Room.NONE

    @property
    def next_look_ms(self) -> int:
        """Return the time until the next measurement is needed."""
        if self.free_bytes is None:
            return SHORTEST_LOOK_MS
        distance_ms = abs(self.free_bytes - self.floor_bytes) // FASTEST_FILLING_BYTES_PER_MS
        longest_ms = LONGEST_LOOK_MS if self.room is Room.OPEN else LONGEST_LOOK_MS // 4
        return max(SHORTEST_LOOK_MS, min(distance_ms, longest_ms))

    def refusal(self, topic: str, *, is_own: bool) -> NoRoom | None:
        """Return the error that refuses an append, None when it is accepted. `is_own`: the broker's own records (a
        coordinator's, a marker)."""
        if self.room is Room.OPEN or (self.room is Room.RESERVE and (is_own or topic in _OWN_TOPICS)):
            return None
        return NoRoom(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The disk is full: {self.free_bytes} bytes are free, {self.floor_bytes} are to stay free "
            "(barnabas.disk.free.min.bytes).",
        )
