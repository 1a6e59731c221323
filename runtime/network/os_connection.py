"""One connection of an event loop (uvloop or asyncio): a socket whose bytes go to a handler, and back.

Rules: this module moves bytes and has no policy. Received bytes go directly into the handler's buffer (BufferedProtocol).
A large write begins in a thread (`runtime.network.os_large_write`), which sends as much as the socket accepts within some
milliseconds. Of buffers the loop writes the remainder, and everything while the threads are busy. So copying a long response
into the kernel delays no other connection. Ranges of files leave by threads alone: with a remainder the loop waits for room in
the socket, and a thread goes on. After a peer let a thread wait in vain, threads do not wait for its next large writes: slow
peers cost others nothing.
A large write has a descriptor as long as it lasts, but none of those that are reserved for files: without one the loop copies
it, piece by piece.
Invariants: the handler is called with `connected` first and `disconnected` last, once each, or not at all; `writing_paused`
and `writing_resumed` alternate. A write after one that a thread is sending waits for it. Each range is released, at the latest
when the connection is lost and no thread sends it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from runtime.disk.filesystem import Buffer
from runtime.network.file_range import FileRange, Piece, ShortFile, first_in_memory, ranges_of, release_ranges
from runtime.network.os_large_write import LargeWrite
from runtime.network.transport import Address, ConnectionHandler
from runtime.process.os_threads import OsThreads

# Above the high mark a peer counts as a slow reader; below the low one it is served again.
# Each connection can use memory up to the mark, in addition to the kernel's buffers of some megabytes.
WRITE_HIGH_WATER_BYTES = 64 * 1024
WRITE_LOW_WATER_BYTES = 16 * 1024
# A write of at least this size begins in a thread: for the loop, copying it takes longer than passing it on.
LARGE_WRITE_BYTES = 128 * 1024
# The time that a thread waits for a peer: a megabyte takes 8 ms at 1 Gbit/s.
PATIENCE_MS = 20
# The number of large writes without waiting after a peer took longer.
HASTY_WRITES = 16
# SO_LINGER: on, 0 s. Closing resets the connection, and the kernel drops what it has not sent.
_RESET = struct.pack("ii", 1, 0)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """`backlog` as in listen(2); buffer sizes of -1 leave the choice to the kernel. `last_descriptor` is the highest
    that an accepted connection, or a large write, may have; None: any."""

    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    last_descriptor: int | None = None


class OsConnection(asyncio.BufferedProtocol):
    """Both interfaces of a stream: asyncio's protocol, and the `Connection` of its handler."""

    takes_ranges = True

    def __init__(self, handler: ConnectionHandler, options: SocketOptions, senders: OsThreads) -> None:
        self._handler = handler
        self._options = options
        self._senders = senders
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        # The large write, and whether it waits for room in the socket, not in a thread.
        self._leaving: LargeWrite | None = None
        self._waits_for_room = False
        self._hasty_writes = 0
        # What waits for the end of the large write, or, with ranges in it, until the transport has nothing to send.
        self._is_held = False
        self._behind: list[Piece] = []
        self._behind_bytes = 0
        self._error: Exception | None = None
        # Whether the handler was notified of a slow peer, and one of the reasons.
        self._is_slow = False
        self._is_transport_full = False
        # It closes when the thread has finished.
        self._is_closing = False
        self._is_aborted = False
        self.peer = self.local = Address("", 0)
        # The two calls of every read go directly to the handler, without another Python frame.
        self.get_buffer = handler.receive_buffer  # type: ignore[method-assign,assignment]
        self.buffer_updated = handler.received  # type: ignore[method-assign,assignment]

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES)
        self.peer = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))
        _set_options(transport.get_extra_info("socket"), self._options)
        self._handler.connected(self)

    def pause_writing(self) -> None:
        self._is_transport_full = True
        self._report_pace()

    def resume_writing(self) -> None:
        self._is_transport_full = False
        self._continue_held()
        self._report_pace()

    def eof_received(self) -> bool:
        """A peer that stops sending gets what was written, and is disconnected: there are no half-open streams."""
        if self._is_held:
            self._is_closing = True
            return True  # the transport knows nothing of what is held
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        leaving = self._leaving
        if leaving is not None:
            leaving.is_dropped = True
            if self._waits_for_room:  # no thread will report
                self._end_waiting(leaving)
                self._leaving = None
                leaving.close()
        release_ranges(self._behind)
        self._behind.clear()
        self._handler.disconnected(error or self._error)

    # --- the handler's side ---

    def write(self, pieces: Sequence[Piece]) -> None:
        transport = self._transport
        if transport is None or self._is_closing or transport.is_closing():
            release_ranges(pieces)
        elif self._is_held:
            self._behind += pieces
            self._behind_bytes += sum(map(len, pieces))
        elif len(pieces) == 1 and len(pieces[0]) < LARGE_WRITE_BYTES and not isinstance(pieces[0], FileRange):
            transport.write(pieces[0])
        else:
            self._write_large(transport, pieces)

    def unsent_bytes(self) -> int:
        if self._transport is None:
            return 0
        leaving_bytes = 0 if self._leaving is None else self._leaving.size
        return self._transport.get_write_buffer_size() + leaving_bytes + self._behind_bytes

    def pause_reading(self) -> None:
        if self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_closing:
            return
        if not self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = True
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is None:
            return
        if self._is_held:
            self.pause_reading()
            self._is_closing = True
        else:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._is_aborted = True
            if self._leaving is not None:
                self._leaving.is_dropped = True
            self._transport.abort()

    # --- large writes ---

    def _write_large(self, transport: asyncio.Transport, pieces: Sequence[Piece]) -> None:
        """Begin a write in a thread, or leave it to the transport, if it has no ranges."""
        ranges = ranges_of(pieces)
        if any(each.is_revoked for each in ranges):
            release_ranges(pieces)
            self._reset("what it was to be sent was truncated")
            return
        size = sum(map(len, pieces))
        is_sending = bool(transport.get_write_buffer_size())
        if not ranges and (size < LARGE_WRITE_BYTES or is_sending or self._senders.is_busy):
            transport.writelines(cast("Sequence[Buffer]", pieces))
            return
        for each in ranges:
            each.leave_by(self._revoke)
        if is_sending:
            self._hold(transport, pieces)
            return
        try:
            stream = self._duplicate(transport)
        except OSError:  # the limit of descriptors is reached: the loop needs no other
            self._write_first(transport, pieces)
            return
        leaving = LargeWrite(stream, pieces, size, self._patience_ms())
        if ranges and not self._has_begun(transport, leaving):
            return
        self._is_held, self._leaving = True, leaving
        self._senders.start(leaving.send, self._sent)
        self._report_pace()

    def _has_begun(self, transport: asyncio.Transport, leaving: LargeWrite) -> bool:
        """Send the first bytes; returns whether a thread is to go on."""
        try:
            leaving.begin()
        except OSError as error:
            leaving.close()
            self._fail(transport, error)
            return False
        if not leaving.size:
            leaving.close()
        return leaving.size > 0

    def _hold(self, transport: asyncio.Transport, pieces: Sequence[Piece]) -> None:
        """Keep `pieces` until the transport has sent everything: `resume_writing` is called then."""
        self._is_held = True
        self._behind += pieces
        self._behind_bytes += sum(map(len, pieces))
        transport.set_write_buffer_limits(0, 0)

    def _continue_held(self) -> None:
        """Write what is held until the transport has sent everything."""
        transport = self._transport
        if transport is not None and self._is_held and self._leaving is None:
            transport.set_write_buffer_limits(WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES)
            self._write_behind(transport)

    def _duplicate(self, transport: asyncio.Transport) -> socket.socket:
        """Raises OSError."""
        stream = transport.get_extra_info("socket")
        descriptor, last = os.dup(stream.fileno()), self._options.last_descriptor
        if last is not None and descriptor > last:  # it is reserved for a file
            os.close(descriptor)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return socket.socket(stream.family, stream.type, stream.proto, fileno=descriptor)

    def _write_first(self, transport: asyncio.Transport, pieces: Sequence[Piece]) -> None:
        """Without a descriptor for a thread: give the transport as much as it may have, and hold the remainder."""
        try:
            buffers, rest = first_in_memory(pieces, WRITE_HIGH_WATER_BYTES)
        except OSError as error:
            release_ranges(pieces)
            self._fail(transport, error)
            return
        transport.writelines(buffers)
        if not rest:
            return
        self._hold(transport, rest)
        if not transport.get_write_buffer_size():  # no callback will follow
            asyncio.get_running_loop().call_soon(self._continue_held)
        self._report_pace()

    def _patience_ms(self) -> int:
        patience_ms = 0 if self._hasty_writes else PATIENCE_MS
        self._hasty_writes = max(self._hasty_writes - 1, 0)
        return patience_ms

    def _end_waiting(self, leaving: LargeWrite) -> None:
        self._waits_for_room = False
        asyncio.get_running_loop().remove_writer(leaving.descriptor)

    def _sent(self, rest: list[Piece] | None, error: BaseException | None) -> None:
        """Called when the thread has finished; `rest` is what the socket did not accept."""
        leaving, transport = self._leaving, self._transport
        assert leaving is not None
        if rest and leaving.patience_ms:
            self._hasty_writes = HASTY_WRITES
        is_over = leaving.is_dropped or transport is None or transport.is_closing()
        if rest and not is_over and ranges_of(rest):
            leaving.resume(rest, 0)
            self._waits_for_room = True
            asyncio.get_running_loop().add_writer(leaving.descriptor, self._on_room, leaving)
            return
        self._leaving = None
        leaving.close()
        if is_over:
            return
        assert transport is not None
        if rest is None:
            self._fail(transport, error)
            return
        if rest:
            transport.writelines(cast("Sequence[Buffer]", rest))
        self._write_behind(transport)

    def _on_room(self, leaving: LargeWrite) -> None:
        """The socket has room for more of a write with ranges."""
        self._end_waiting(leaving)
        self._senders.start(leaving.send, self._sent)

    def _fail(self, transport: asyncio.Transport, error: BaseException | None) -> None:
        self._error = error if isinstance(error, Exception) else None
        if isinstance(error, OSError) and (isinstance(error, ShortFile) or error.errno == errno.EIO):
            logger.error("connection reset, its records cannot be read: address=%s error=%s", self.peer, error)
        self._is_aborted = True
        transport.abort()

    def _write_behind(self, transport: asyncio.Transport) -> None:
        """Write what has waited, and close if that is all."""
        self._is_held = False
        behind, self._behind, self._behind_bytes = self._behind, [], 0
        if transport.is_closing():  # it waited for this alone: the peer has said that it is through
            release_ranges(behind)
            return
        if behind:
            self._write_large(transport, behind)
        if self._is_closing and not self._is_held:
            transport.close()
        elif not transport.is_closing():
            self._report_pace()

    def _revoke(self) -> None:
        """Bytes of a file that is being sent are about to change."""
        self._reset("what it is being sent is truncated")

    def _reset(self, reason: str) -> None:
        """Close immediately, and have the kernel drop what it has not sent: it may refer to pages of a file. A connection that
        is closing may still wait for its peer to read."""
        transport = self._transport
        if transport is None or self._is_aborted:
            return
        logger.warning("connection reset: address=%s reason=%s", self.peer, reason)
        with suppress(OSError):  # its peer has closed it
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.abort()

    def _report_pace(self) -> None:
        is_slow = self._is_transport_full or self._is_held
        if is_slow != self._is_slow:
            self._is_slow = is_slow
            if is_slow:
                self._handler.writing_paused()
            else:
                self._handler.writing_resumed()


def _set_options(sock: socket.socket, options: SocketOptions) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a vanished peer is detected eventually
    if options.send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
    if options.receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)


def _address(name: Sequence[object] | None) -> Address:
    """Return the address of a socket name: (host, port) or, for IPv6, (host, port, flow, scope); None after a disconnect."""
    return Address(str(name[0]), int(str(name[1]))) if name else Address("", 0)
