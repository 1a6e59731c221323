"""A large write in a thread: buffers are copied into the kernel, ranges of files go there as pages (sendfile(2)).

The first bytes of a range leave on the event loop (`begin`): the peer has something to do until a thread has woken up, which
makes a sequence of responses a fifth faster.

Rules: a thread sends what the socket accepts within some milliseconds and reports what is left. The write has its own duplicate
of the descriptor, so that it cannot write to another connection that reuses the number.
Invariants: pieces leave in order. A thread that finds the write dropped begins no further call; a call never waits for the
peer, only, of a range, for the disk.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from itertools import takewhile

from runtime.clock import SystemClock
from runtime.disk.filesystem import Buffer, unwritten
from runtime.disk.os_filesystem import MAX_BUFFERS_PER_WRITE
from runtime.network.file_range import BEGUN_BYTES, FileRange, Piece, ranges_of

# So many bytes before a range are copied into the kernel on the event loop.
SHORT_BYTES = 16 * 1024

_clock = SystemClock()


class LargeWrite:
    """Owns the pieces, unchanged, until it has finished. The connection closes it."""

    __slots__ = ("_pieces", "_stream", "is_dropped", "patience_ms", "ranges", "size")

    def __init__(self, stream: socket.socket, pieces: Sequence[Piece], size: int, patience_ms: int) -> None:
        self._stream = stream
        self._pieces = list(pieces)
        self.size = size
        """The size in bytes of what had not left when the last thread began."""
        self.ranges = ranges_of(pieces)
        """All ranges of the write."""
        self.patience_ms = patience_ms
        """The time that the thread goes on after the socket was full for the first time."""
        self.is_dropped = False
        """True when the connection is aborted, so that the thread stops waiting to send the remainder."""

    def __del__(self) -> None:
        self._stream.close()  # still open if the loop has ended before the thread

    @property
    def descriptor(self) -> int:
        return self._stream.fileno()

    def resume(self, rest: list[Piece], patience_ms: int) -> None:
        """Take what a thread has left, for the next one."""
        self._pieces, self.size, self.patience_ms = rest, sum(map(len, rest)), patience_ms

    def begin(self) -> None:
        """On the event loop, before a thread goes on: send short buffers and the beginning of the first range, as far as the
        socket accepts them. Raises OSError."""
        pieces = self._pieces
        buffers = list(takewhile(lambda piece: not isinstance(piece, FileRange), pieces))
        if len(buffers) > MAX_BUFFERS_PER_WRITE or sum(map(len, buffers)) > SHORT_BYTES:
            return  # copying them takes the loop longer
        try:
            if buffers:
                pieces = self._send_some(pieces)
            first = pieces[0]
            if isinstance(first, FileRange):
                first.send_to(self._stream.fileno(), BEGUN_BYTES)
                pieces = pieces if len(first) else pieces[1:]
        except BlockingIOError:
            pass  # the socket is full: a thread waits for room
        self._pieces, self.size = pieces, sum(map(len, pieces))

    def close(self) -> None:
        """Nothing sends any more: close the descriptor, and release the ranges."""
        self._stream.close()
        self._pieces = []
        for each in self.ranges:
            each.release()

    def send(self) -> list[Piece]:
        """Send in the thread; return what the socket did not accept. Raises OSError."""
        pieces, self._pieces = self._pieces, []
        deadline_ms: int | None = None
        while pieces and not self.is_dropped:
            try:
                pieces = self._send_some(pieces)
            except BlockingIOError:
                if deadline_ms is None:
                    deadline_ms = _clock.monotonic_ms() + self.patience_ms
                if not self._has_room_by(deadline_ms):
                    break
        return pieces

    def _send_some(self, pieces: list[Piece]) -> list[Piece]:
        """Make one call; return what is left. Raises BlockingIOError, OSError."""
        first = pieces[0]
        if isinstance(first, FileRange):
            first.send_to(self._stream.fileno())
            return pieces if len(first) else pieces[1:]
        buffers: list[Buffer] = []
        for piece in pieces[:MAX_BUFFERS_PER_WRITE]:
            if isinstance(piece, FileRange):
                break
            buffers.append(piece)
        has_more = len(buffers) < len(pieces)  # its bytes may share a packet with these
        written = self._stream.sendmsg(buffers, (), socket.MSG_MORE if has_more else 0)
        return [*unwritten(buffers, written), *pieces[len(buffers) :]]

    def _has_room_by(self, deadline_ms: int) -> bool:
        """Wait until the socket has room; return False if it has none by the deadline."""
        left_ms = deadline_ms - _clock.monotonic_ms()
        if left_ms <= 0:
            return False
        room = select.poll()
        room.register(self._stream.fileno(), select.POLLOUT)
        return bool(room.poll(left_ms))
