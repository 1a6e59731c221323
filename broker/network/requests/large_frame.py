"""A frame that is received into a buffer of its own: no copy afterwards, and no memory before its bytes come.

Invariant: `content` has the size that was reserved for the frame; the bytes behind the received ones mean nothing.
Source: Kafka NetworkReceive.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.memory_budget import FrameReservation

KiB = 1024
MiB = 1024 * KiB

# A frame that is not complete and larger than this is received apart.
LARGE_FRAME_BYTES = 16 * KiB
# From this size on the buffer is mapped, so that a length prefix alone costs address space and no memory. Smaller
# ones come from the heap (a page of a new mapping costs more than copying it) and grow with their reservation.
MAPPED_FRAME_BYTES = 4 * MiB


class LargeFrame:
    """`content` is the frame without its length, once it is complete; so much of it is received as its reservation has."""

    __slots__ = ("_began_tick", "_received_bytes", "content", "reservation", "size_bytes")

    def __init__(self, reservation: FrameReservation, begun: memoryview, tick: int) -> None:
        """`begun` are the first bytes of the frame."""
        self.reservation = reservation
        self.size_bytes = size_bytes = reservation.size_bytes
        is_mapped = size_bytes >= MAPPED_FRAME_BYTES
        self.content = memoryview(mmap.mmap(-1, size_bytes) if is_mapped else bytearray(reservation.granted_bytes))
        self._received_bytes = len(begun)
        self._began_tick = tick
        self.content[: len(begun)] = begun

    @property
    def is_complete(self) -> bool:
        return self._received_bytes == self.size_bytes

    @property
    def missing(self) -> memoryview:
        """Where the next bytes go; empty when more has to be reserved."""
        granted_bytes, content = self.reservation.granted_bytes, self.content
        if len(content) == self._received_bytes < granted_bytes:
            self.content = memoryview(bytearray(granted_bytes))  # not mapped: steps double, so little is copied twice
            self.content[: len(content)] = content
            content = self.content
        return content[self._received_bytes : granted_bytes]

    @property
    def needs_more(self) -> bool:
        """Whether the next bytes have to be reserved before they are received."""
        return self._received_bytes == self.reservation.granted_bytes < self.size_bytes

    def waited(self, ticks: int) -> None:
        """Do not count this time: nothing could be received because nothing was granted."""
        self._began_tick += ticks

    def is_slow(self, tick: int, after_ticks: int, within_ticks: int) -> bool:
        """Whether it has been coming for more than `after_ticks`, and will at its pace not be there within `within_ticks`."""
        age_ticks = tick - self._began_tick
        whole_ticks = age_ticks - 1  # the first one had begun before the frame
        return age_ticks > after_ticks and whole_ticks * self.size_bytes > within_ticks * self._received_bytes

    def received(self, count: int) -> bool:
        """`count` bytes came to `missing`; returns whether the frame is complete now."""
        self._received_bytes += count
        return self.is_complete
