"""A part of an open file on its way to a connection: bytes that are sent without being read into the process.

Rules: made by the owner of the file, which keeps it open until the range is released. The holder of the range releases it when
the bytes have left or never will; one that is dropped on its way, with the response that it belongs to, releases itself. All
calls but `send_to` and `read` are made on the event loop.
Invariants: the owner's `on_released` is called exactly once. Nothing of a range leaves once it is revoked: bytes that were
given to the kernel before are references to pages of the file, so the connection that has them is reset.
Source: Kafka FileRecords.writeTo and DefaultFileRegion; sendfile(2).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from runtime.disk.filesystem import Buffer, File

BEGUN_BYTES = 128 * 1024
"""A connection gives so much of a range to its socket on the event loop, whose owner has found both ends of it in memory."""


class ShortFile(OSError):
    """A file ends before a range of it."""


class FileRange:
    """`length` bytes of `file` from `position` on, of which `sent_bytes` have left. Its length is what is to come, so a range
    stands in a response in place of a buffer."""

    __slots__ = (
        "__weakref__",
        "_is_released",
        "_on_released",
        "_on_revoked",
        "_when_left",
        "file",
        "is_revoked",
        "length",
        "position",
        "sent_bytes",
    )

    def __init__(self, file: File, position: int, length: int, on_released: Callable[[], None]) -> None:
        self.file = file
        self.position = position
        self.length = length
        self.sent_bytes = 0
        self.is_revoked = False
        """True when the bytes are about to change: what has not left may not leave."""
        self._is_released = False
        self._on_released = on_released
        self._on_revoked: Callable[[], None] | None = None
        self._when_left: Callable[[], None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it was released."""
        return self._is_released

    def __repr__(self) -> str:
        return f"<FileRange {self.file.path} {self.position} {self.length}>"

    def __len__(self) -> int:
        return self.length - self.sent_bytes

    def __del__(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing waits
            self.release()

    # --- for who puts it into a response ---

    def narrow(self, start: int, length: int) -> None:
        """Send only `length` of the bytes, from `start` of them on."""
        assert not self.sent_bytes and start >= 0 and start + length <= self.length
        self.position += start
        self.length = length

    # --- for the connection ---

    def leave_by(self, on_revoked: Callable[[], None]) -> None:
        """The connection begins to send it: `on_revoked` has to end that, and to release the range when it has ended."""
        self._on_revoked = on_revoked

    def send_to(self, descriptor: int, most_bytes: int | None = None) -> None:
        """Give a socket what it accepts, at most `most_bytes`; may wait for the disk. Raises BlockingIOError, ShortFile,
        OSError."""
        length = len(self) if most_bytes is None else min(len(self), most_bytes)
        sent = self.file.send_to(descriptor, length, self.position + self.sent_bytes)
        if not sent:
            raise self._too_short()
        self.sent_bytes += sent

    def read(self, most_bytes: int | None = None) -> Buffer:
        """Return what has not left, at most `most_bytes` of it, which have left then; may wait for the disk. Raises ShortFile,
        OSError."""
        length = len(self) if most_bytes is None else min(len(self), most_bytes)
        content = self.file.read_at(length, self.position + self.sent_bytes)
        if len(content) < length:
            raise self._too_short()
        self.sent_bytes += length
        return content

    def _too_short(self) -> ShortFile:
        return ShortFile(errno.EIO, f"ends before {self.position + self.length} bytes", self.file.path)

    def release(self) -> None:
        """The bytes have left, or never will. Further calls have no effect."""
        if self._is_released:
            return
        self._is_released = True
        self._on_revoked = None
        self._on_released()
        if self._when_left is not None:
            self._when_left()

    # --- for the owner of the file ---

    def revoke(self, when_left: Callable[[], None]) -> bool:
        """The bytes are about to change. Returns whether a connection is sending them: it is reset, and `when_left` called when
        it uses the file no more."""
        self.is_revoked = True
        if self._on_revoked is None:
            self.release()  # the connection that gets it will see that it is revoked
            return False
        self._when_left = when_left
        self._on_revoked()
        return not self._is_released


Piece = Buffer | FileRange
"""What a connection sends."""


def ranges_of(pieces: Iterable[Piece]) -> list[FileRange]:
    return [piece for piece in pieces if isinstance(piece, FileRange)]


def release_ranges(pieces: Iterable[Piece]) -> None:
    """Release what was to be sent and is dropped."""
    for piece in pieces:
        if isinstance(piece, FileRange):
            piece.release()


def in_memory(pieces: Iterable[Piece]) -> list[Buffer]:
    """Return `pieces` as buffers; ranges are read, which may wait for the disk, and released. Raises ShortFile, OSError."""
    buffers: list[Buffer] = []
    for piece in pieces:
        if isinstance(piece, FileRange):
            try:
                buffers.append(piece.read())
            finally:
                piece.release()
        else:
            buffers.append(piece)
    return buffers


def first_in_memory(pieces: Sequence[Piece], most_bytes: int) -> tuple[list[Buffer], list[Piece]]:
    """Return the first pieces as buffers, and what is left of `pieces`: ranges are read, which may wait for the disk, while
    the buffers have less than `most_bytes`. What is read to its end is released. Raises ShortFile, OSError."""
    buffers: list[Buffer] = []
    for index, piece in enumerate(pieces):
        if not isinstance(piece, FileRange):
            buffers.append(piece)
            most_bytes -= len(piece)
            continue
        if most_bytes > 0:
            buffers.append(piece.read(most_bytes))
            most_bytes -= len(buffers[-1])
        if len(piece):
            return buffers, list(pieces[index:])
        piece.release()
    return buffers, []
