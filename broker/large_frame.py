"""A frame that is received into a place of its own: no copy behind it, and no memory before its bytes are there.

Invariant: `content` has the frame's size from the start; what lies behind the received bytes is not looked at.
Source: Kafka NetworkReceive.
"""

from __future__ import annotations

import mmap

KiB = 1024
MiB = 1024 * KiB

# A frame that is not complete and larger than this is received apart.
LARGE_FRAME_BYTES = 16 * KiB
# From this size on the place is mapped, so that a length prefix alone costs address space and no memory.
MAPPED_FRAME_BYTES = 4 * MiB


class LargeFrame:
    """`content` is the frame without its length."""

    __slots__ = ("_received_bytes", "content")

    def __init__(self, size_bytes: int, begun: memoryview) -> None:
        """`begun` are the first bytes of the frame."""
        place = bytearray(size_bytes) if size_bytes < MAPPED_FRAME_BYTES else mmap.mmap(-1, size_bytes)
        self.content = memoryview(place)
        self._received_bytes = len(begun)
        self.content[: len(begun)] = begun

    @property
    def is_complete(self) -> bool:
        return self._received_bytes == len(self.content)

    @property
    def missing(self) -> memoryview:
        """Where the next bytes go."""
        return self.content[self._received_bytes :]

    def received(self, count: int) -> bool:
        """`count` bytes came to `missing`; answers whether the frame is complete now."""
        self._received_bytes += count
        return self.is_complete
