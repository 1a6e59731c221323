"""Divides a stream of bytes into frames: an int32 length, then that many bytes.

Sans-IO: the owner reads the next bytes into `receive_buffer`, and passes their count to `received`. A frame larger than the
shared buffer is received in its own buffer and never copied; smaller ones are copied, so the shared buffer is free again
immediately. The caller owns the frames. After a FrameError the stream is lost: close it.
"""

from __future__ import annotations

import struct
from typing import Final

from protocol.primitives import DecodeError

LENGTH_BYTES: Final = 4
_LENGTH = struct.Struct(">i")
_BUFFER_BYTES: Final = 64 * 1024


class FrameError(DecodeError):
    """A length that is negative or above the limit."""


class FrameReader:
    """`max_frame_bytes` may be changed between frames."""

    def __init__(self, max_frame_bytes: int, buffer_bytes: int = _BUFFER_BYTES) -> None:
        assert buffer_bytes > LENGTH_BYTES
        self.max_frame_bytes = max_frame_bytes
        self._buffer = bytearray(buffer_bytes)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._large: bytearray | None = None  # a frame that is being received in its own buffer
        self._large_filled = 0

    @property
    def has_part(self) -> bool:
        """Whether part of a frame has arrived."""
        return self._large is not None or self._filled > 0

    def receive_buffer(self) -> memoryview:
        """Return the buffer for the next bytes; never empty. Valid until `received`."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return self._view[self._filled :]

    def received(self, count: int) -> list[bytes | bytearray]:
        """Process `count` bytes at the start of the last `receive_buffer`; returns the complete frames. Raises FrameError."""
        if self._large is not None:
            self._large_filled += count
            if self._large_filled < len(self._large):
                return []
            frame, self._large, self._large_filled = self._large, None, 0
            return [frame]
        self._filled += count
        return self._cut()

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """Process bytes that are in another buffer; returns the complete frames. Raises FrameError."""
        frames: list[bytes | bytearray] = []
        position = 0
        while position < len(data):
            place = self.receive_buffer()
            part = data[position : position + len(place)]
            place[: len(part)] = part
            position += len(part)
            frames += self.received(len(part))
        return frames

    def _cut(self) -> list[bytes | bytearray]:
        frames: list[bytes | bytearray] = []
        start = 0
        while self._filled - start >= LENGTH_BYTES:
            (size,) = _LENGTH.unpack_from(self._buffer, start)
            if not 0 <= size <= self.max_frame_bytes:
                raise FrameError(f"a frame of {size} bytes is outside 0..{self.max_frame_bytes}")
            begin = start + LENGTH_BYTES
            if begin + size <= self._filled:
                frames.append(bytes(self._view[begin : begin + size]))
                start = begin + size
                continue
            if LENGTH_BYTES + size > len(self._buffer):
                self._large = bytearray(size)
                self._large_filled = self._filled - begin
                self._large[: self._large_filled] = self._view[begin : self._filled]
                start = self._filled
            break
        rest = self._filled - start
        if start and rest:
            self._buffer[:rest] = self._buffer[start : self._filled]
        self._filled = rest
        return frames
