"""Sockets: the asyncio (uvloop) adapter of `runtime.transport`.

Rules: this module moves bytes and has no policy. Received bytes go directly into the handler's buffer (BufferedProtocol).
A large write begins in a thread, which writes as much as the socket accepts within some milliseconds; the loop writes the
remainder, and everything while the threads are busy. So copying a long response into the kernel delays no other connection.
After a peer let a thread wait in vain, threads do not wait for its next large writes: slow peers cost others nothing.
The highest descriptors of the process are for files: a client that gets one of them is disconnected immediately.
`listen` binds every address of a host name, on one port: `localhost` is both loopbacks, an empty host is every interface of
both families, and so are 0.0.0.0 and :: (as in Java, whose sockets are of both families). Port 0 picks a port that is free on
all of them. A family that the machine lacks is skipped.
Invariants: the handler is called with `connected` first and `disconnected` last, once each, or not at all; `writing_paused`
and `writing_resumed` alternate. A write after one that a thread is sending waits for it. A thread has its own duplicate of the
descriptor, so that it cannot write to another connection that reuses the number.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from runtime.clock import SystemClock
from runtime.filesystem import Buffer, unwritten
from runtime.os_filesystem import MAX_BUFFERS_PER_WRITE
from runtime.os_threads import OsThreads
from runtime.transport import Address, Connection, ConnectionHandler, Listener, is_every_interface

# Above the high mark a peer counts as a slow reader; below the low one it is served again.
# Each connection can use memory up to the mark, in addition to the kernel's buffers of some megabytes.
WRITE_HIGH_WATER_BYTES = 64 * 1024
WRITE_LOW_WATER_BYTES = 16 * 1024
# A write of at least this size begins in a thread: for the loop, copying it takes longer than passing it on.
LARGE_WRITE_BYTES = 128 * 1024
# The number of large writes at a time, beside those of the loop. Most wait for their peers, which takes no core.
SENDING_THREADS = 8
# The time that a thread waits for a peer: a megabyte takes 8 ms at 1 Gbit/s.
PATIENCE_MS = 20
# The number of large writes without waiting after a peer took longer.
HASTY_WRITES = 16
# How long a listener waits for a free descriptor before it tries to accept connections again.
RESUME_AGAIN_S = 1.0
# The minimum time between two log lines about refused connections.
REFUSALS_TOLD_EVERY_S = 60.0
# Attempts to find a port that is free on every address of a listener.
PORT_ATTEMPTS = 32
# The errors of a machine without IPv6 (or IPv4) when that family's address is bound.
FAMILY_MISSING = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})

_clock = SystemClock()
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """`backlog` as in listen(2); buffer sizes of -1 leave the choice to the kernel. `last_descriptor` is the highest
    that an accepted connection may have; None: any."""

    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    last_descriptor: int | None = None


class OsConnection(asyncio.BufferedProtocol):
    """Both interfaces of a stream: asyncio's protocol, and the `Connection` of its handler."""

    def __init__(self, handler: ConnectionHandler, options: SocketOptions, senders: OsThreads) -> None:
        self._handler = handler
        self._options = options
        self._senders = senders
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        # The write in a thread, and the chunks that wait for its end.
        self._leaving: _LargeWrite | None = None
        self._hasty_writes = 0
        self._behind: list[Buffer] = []
        self._behind_bytes = 0
        self._error: Exception | None = None
        # Whether the handler was notified of a slow peer, and one of the reasons.
        self._is_slow = False
        self._is_transport_full = False
        # It closes when the thread has finished.
        self._is_closing = False
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
        self._tell_pace()

    def resume_writing(self) -> None:
        self._is_transport_full = False
        self._tell_pace()

    def eof_received(self) -> bool:
        return False  # a peer that stops sending is disconnected: there are no half-open streams

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._drop_leaving()
        self._behind.clear()
        self._handler.disconnected(error or self._error)

    # --- the handler's side ---

    def write(self, chunks: Sequence[Buffer]) -> None:
        transport = self._transport
        if transport is None or self._is_closing or transport.is_closing():
            return
        if self._leaving is not None:
            self._behind += chunks
            self._behind_bytes += sum(map(len, chunks))
        elif len(chunks) == 1 and len(chunks[0]) < LARGE_WRITE_BYTES:
            transport.write(chunks[0])
        elif not self._is_left_to_a_thread(transport, chunks):
            transport.writelines(chunks)

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
        if self._leaving is not None:
            self.pause_reading()
            self._is_closing = True
        else:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._drop_leaving()
            self._transport.abort()

    # --- large writes ---

    def _is_left_to_a_thread(self, transport: asyncio.Transport, chunks: Sequence[Buffer]) -> bool:
        size = sum(map(len, chunks))
        if size < LARGE_WRITE_BYTES or self._senders.is_busy or transport.get_write_buffer_size():
            return False
        try:
            descriptor = os.dup(transport.get_extra_info("socket").fileno())
        except OSError:  # the limit of descriptors is reached: the loop needs no other
            return False
        patience_ms = 0 if self._hasty_writes else PATIENCE_MS
        self._hasty_writes = max(self._hasty_writes - 1, 0)
        self._leaving = _LargeWrite(descriptor, list(chunks), size, patience_ms)
        self._senders.start(self._leaving.send, self._sent)
        self._tell_pace()
        return True

    def _drop_leaving(self) -> None:
        if self._leaving is not None:
            self._leaving.is_dropped = True

    def _sent(self, rest: list[Buffer] | None, error: BaseException | None) -> None:
        """Called when the thread has finished; `rest` is what the socket did not accept."""
        leaving, self._leaving = self._leaving, None
        assert leaving is not None
        os.close(leaving.descriptor)
        if rest and leaving.patience_ms:
            self._hasty_writes = HASTY_WRITES
        behind, self._behind, self._behind_bytes = self._behind, [], 0
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if rest is None:
            self._error = error if isinstance(error, Exception) else None
            transport.abort()
            return
        if rest or behind:
            transport.writelines([*rest, *behind])
        if self._is_closing:
            transport.close()
        else:
            self._tell_pace()

    def _tell_pace(self) -> None:
        is_slow = self._is_transport_full or self._leaving is not None
        if is_slow != self._is_slow:
            self._is_slow = is_slow
            if is_slow:
                self._handler.writing_paused()
            else:
                self._handler.writing_resumed()


class _Spares:
    """The descriptors that accepted connections may not have."""

    def __init__(self, last_descriptor: int | None) -> None:
        self._last = last_descriptor
        self._refused_count = 0
        self._told_s = -REFUSALS_TOLD_EVERY_S

    def has(self, descriptor: int) -> bool:
        """Return whether `descriptor` is reserved, and count a refusal. The kernel assigns the lowest free descriptor, so all
        lower ones are in use."""
        if self._last is None or descriptor <= self._last:
            return False
        self._refused_count += 1
        now_s = asyncio.get_running_loop().time()
        if now_s - self._told_s >= REFUSALS_TOLD_EVERY_S:
            logger.warning(
                "connections refused, the limit of open files is reached: last_descriptor=%d refused_connections=%d",
                self._last,
                self._refused_count,
            )
            self._told_s, self._refused_count = now_s, 0
        return True


class _AcceptedConnection(OsConnection):
    """An accepted connection, which is aborted without a call of its handler if its descriptor is reserved."""

    def __init__(self, handler: ConnectionHandler, options: SocketOptions, senders: OsThreads, spares: _Spares) -> None:
        super().__init__(handler, options, senders)
        self._spares = spares
        self._is_refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._spares.has(transport.get_extra_info("socket").fileno()):
            self._is_refused = True
            cast(asyncio.Transport, transport).abort()
        else:
            super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_refused:
            super().connection_lost(error)


class _LargeWrite:
    """A write in a thread. It owns the buffers, unchanged, until it has finished. The connection closes the descriptor."""

    __slots__ = ("_chunks", "descriptor", "is_dropped", "patience_ms", "size")

    def __init__(self, descriptor: int, chunks: list[Buffer], size: int, patience_ms: int) -> None:
        self.descriptor = descriptor
        self.size = size
        """The size in bytes."""
        self.patience_ms = patience_ms
        """The time that the thread goes on after the socket was full for the first time."""
        self.is_dropped = False
        """True when the connection is aborted, so that the thread stops waiting to send the remainder."""
        self._chunks = chunks

    def send(self) -> list[Buffer]:
        """Send in the thread; return what the socket did not accept. Raises OSError."""
        chunks, self._chunks = self._chunks, []
        deadline_ms: int | None = None
        while chunks and not self.is_dropped:
            try:
                written = os.writev(self.descriptor, chunks[:MAX_BUFFERS_PER_WRITE])
            except BlockingIOError:
                if deadline_ms is None:
                    deadline_ms = _clock.monotonic_ms() + self.patience_ms
                if not self._has_room_by(deadline_ms):
                    break
            else:
                chunks = unwritten(chunks, written)
        return chunks

    def _has_room_by(self, deadline_ms: int) -> bool:
        """Wait until the socket has room; return False if it has none by the deadline."""
        left_ms = deadline_ms - _clock.monotonic_ms()
        if left_ms <= 0:
            return False
        room = select.poll()
        room.register(self.descriptor, select.POLLOUT)
        return bool(room.poll(left_ms))


class OsListener:
    """The sockets of one listener, one for each address. The event loop accepts from duplicates of them, which are closed while
    it is paused: the kernel goes on to queue connections."""

    def __init__(
        self, address: Address, sockets: list[socket.socket], backlog: int, protocol: Callable[[], OsConnection]
    ) -> None:
        self.address = address
        self._sockets = sockets
        self._backlog = backlog
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._is_accepting = True  # or about to
        self._opening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises OSError."""
        for sock in self._sockets:
            duplicate = sock.dup()
            try:
                server = await self._loop.create_server(self._protocol, sock=duplicate, backlog=self._backlog)
            except BaseException:
                duplicate.close()
                raise
            if not self._is_accepting:  # it was paused, or closed, meanwhile
                server.close()
                return
            self._servers.append(server)

    def pause(self) -> None:
        self._is_accepting = False
        self._stop_servers()

    def resume(self) -> None:
        if not self._is_accepting and self._sockets:
            self._is_accepting = True
            self._opening = self._loop.create_task(self._open_again(self._opening))

    async def _open_again(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            if self._is_accepting and not self._servers:
                await self.open()
        except OSError as error:  # no descriptor is free
            logger.warning("listener not resumed, trying again: address=%s error=%s", self.address, error.strerror)
            self.pause()
            self._loop.call_later(RESUME_AGAIN_S, self.resume)

    async def close(self) -> None:
        self._is_accepting = False
        self._stop_servers()
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()

    def _stop_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()


class OsNetwork:
    """The network of the running event loop."""

    def __init__(self, options: SocketOptions | None = None) -> None:
        self._options = options or SocketOptions()
        self._senders: OsThreads | None = None

    async def listen(self, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> Listener:
        try:
            addresses = await _addresses(host)
        except socket.gaierror as error:
            raise OSError(errno.EADDRNOTAVAIL, f"cannot listen on {Address(host, port)}: {error.strerror}") from error
        sockets = _bind_all(addresses, port)
        bound_port: int = sockets[0].getsockname()[1]
        options, senders = self._options, self._threads()
        spares = _Spares(options.last_descriptor)
        listener = OsListener(
            Address(host, bound_port),
            sockets,
            options.backlog,
            lambda: _AcceptedConnection(factory(), options, senders, spares),
        )
        try:
            await listener.open()
        except OSError:
            await listener.close()
            raise
        return listener

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        loop, options, senders = asyncio.get_running_loop(), self._options, self._threads()
        refusals: list[OSError] = []
        for address in await _peer_addresses(host, port):
            try:
                _, connection = await loop.create_connection(
                    lambda: OsConnection(handler, options, senders), address, port
                )
            except OSError as error:
                refusals.append(error)
            else:
                return connection
        if len(refusals) == 1:
            raise refusals[0]
        raise OSError("; ".join(dict.fromkeys(map(str, refusals))) or f"{host} has no address")

    def _threads(self) -> OsThreads:
        if self._senders is None:
            self._senders = OsThreads(asyncio.get_running_loop(), SENDING_THREADS, "large write")
        return self._senders

    def close(self) -> None:
        """Stop the sending threads. Called after all listeners and connections are closed; needed only after large writes."""
        if self._senders is not None:
            self._senders.close()
            self._senders = None


@dataclass(frozen=True, slots=True)
class _BindAddress:
    """An address to bind. `scope` is the interface of a link-local IPv6 address, else 0."""

    family: socket.AddressFamily
    host: str
    scope: int = 0


async def _addresses(host: str) -> list[_BindAddress]:
    """Return the addresses of `host`. Raises gaierror for an unknown name."""
    if is_every_interface(host):
        return [_BindAddress(socket.AF_INET, "0.0.0.0"), _BindAddress(socket.AF_INET6, "::")]  # noqa: S104  requested
    if host == "localhost":  # regardless of the hosts file: clients try either loopback first
        return [_BindAddress(socket.AF_INET, "127.0.0.1"), _BindAddress(socket.AF_INET6, "::1")]
    try:  # without a name lookup; uvloop would lose the interface of an address
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    addresses = (
        _BindAddress(family, str(name[0]), int(cast(Sequence[int], name)[3]) if family == socket.AF_INET6 else 0)
        for family, _, _, _, name in found
    )
    return list(dict.fromkeys(addresses))


async def _peer_addresses(host: str, port: int) -> list[str]:
    """Return the addresses to try one after another. Raises OSError for an unknown name.

    uvloop's `create_connection` would look names up too, but when cancelled it leaves an exception that is never retrieved.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    return [host]


def _bind_all(addresses: list[_BindAddress], port: int) -> list[socket.socket]:
    """Return sockets bound to all addresses on one port; a family that this machine lacks is skipped if it has another."""
    for attempt in range(PORT_ATTEMPTS):
        sockets: list[socket.socket] = []
        missing: OSError | None = None
        try:
            for address in addresses:
                try:
                    sockets.append(_bind(address, sockets[0].getsockname()[1] if sockets else port))
                except OSError as error:
                    if error.errno not in FAMILY_MISSING:
                        raise
                    missing = error
        except OSError as error:
            for sock in sockets:
                sock.close()
            port_is_free_on_some_only = port == 0 and error.errno == errno.EADDRINUSE and sockets
            if not port_is_free_on_some_only or attempt == PORT_ATTEMPTS - 1:
                raise
            continue
        if sockets:
            return sockets
        assert missing is not None
        raise missing
    raise OSError(errno.EADDRINUSE, "no port is free on every address of the listener")


def _bind(address: _BindAddress, port: int) -> socket.socket:
    where = Address(address.host, port)
    try:
        sock = socket.socket(address.family, socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {where}: {error.strerror}") from error
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address.host, port, 0, address.scope))
        else:
            sock.bind((address.host, port))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {where}: {error.strerror}") from error
    return sock


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
