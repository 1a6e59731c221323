"""Sockets: the asyncio (uvloop) adapter of `runtime.transport`.

Rules: bytes are moved and nothing is decided. Received bytes go straight into the handler's buffer (BufferedProtocol).
`listen` binds every address that a host name stands for, on one port: `localhost` is both loopbacks, an empty host is
every interface of both families, and port 0 picks one that is free on all of them.
Invariant: the handler hears `connected` first and `disconnected` last, once each.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from runtime.filesystem import Buffer
from runtime.transport import Address, Connection, ConnectionHandler, Listener

# Above the high mark a peer counts as a slow reader; below the low one it is served again.
# What is below the mark is memory for every connection, on top of the kernel's own buffers of some megabytes.
WRITE_HIGH_WATER_BYTES = 64 * 1024
WRITE_LOW_WATER_BYTES = 16 * 1024
# Tries to find a port that is free on every address of a listener.
PORT_ATTEMPTS = 32
# What a machine without IPv6 (or IPv4) answers when that family's address is bound.
FAMILY_MISSING = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """`backlog` as in listen(2); buffer sizes of -1 leave the choice to the kernel."""

    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class OsConnection(asyncio.BufferedProtocol):
    """Both faces of a stream: asyncio's protocol, and the `Connection` its handler sees."""

    def __init__(self, handler: ConnectionHandler, options: SocketOptions) -> None:
        self._handler = handler
        self._options = options
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        self.peer = self.local = Address("", 0)
        # The two calls of every read reach the handler without a frame in between.
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
        self._handler.writing_paused()

    def resume_writing(self) -> None:
        self._handler.writing_resumed()

    def eof_received(self) -> bool:
        return False  # a peer that stops sending is gone: there are no half-open streams

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._handler.disconnected(error)

    # --- the handler's side ---

    def write(self, chunks: Sequence[Buffer]) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if len(chunks) == 1:
            transport.write(chunks[0])
        else:
            transport.writelines(chunks)

    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        if self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = True
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class OsListener:
    """The sockets of one listener, one for each address."""

    def __init__(self, address: Address, servers: list[asyncio.Server]) -> None:
        self.address = address
        self._servers = servers

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()


class OsNetwork:
    """The network of the running event loop."""

    def __init__(self, options: SocketOptions | None = None) -> None:
        self._options = options or SocketOptions()

    async def listen(self, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> Listener:
        addresses = await _addresses(host)
        sockets = _bind_all(addresses, port)
        bound_port: int = sockets[0].getsockname()[1]
        loop, options = asyncio.get_running_loop(), self._options
        servers: list[asyncio.Server] = []
        try:
            for sock in sockets:
                servers.append(  # noqa: PERF401 - those that did start must be closed when one does not
                    await loop.create_server(
                        lambda: OsConnection(factory(), options), sock=sock, backlog=options.backlog
                    )
                )
        except OSError:
            for sock in sockets:
                sock.close()
            raise
        return OsListener(Address(host, bound_port), servers)

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        loop, options = asyncio.get_running_loop(), self._options
        refusals: list[OSError] = []
        for address in await _peer_addresses(host, port):
            try:
                _, connection = await loop.create_connection(lambda: OsConnection(handler, options), address, port)
            except OSError as error:
                refusals.append(error)
            else:
                return connection
        if len(refusals) == 1:
            raise refusals[0]
        raise OSError("; ".join(dict.fromkeys(map(str, refusals))) or f"{host} has no address")


async def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """The addresses that `host` stands for. Raises OSError for an unknown name."""
    if not host:
        return [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")]  # noqa: S104 - asked for by an empty host
    if host == "localhost":  # whatever the hosts file says: clients try either loopback first
        return [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(sockaddr[0])) for family, _, _, _, sockaddr in found))


async def _peer_addresses(host: str, port: int) -> list[str]:
    """The addresses to try one after another. Raises OSError for an unknown name.

    uvloop's `create_connection` would look names up too, but when it is cancelled it leaves a failure that nobody takes.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    return [host]


def _bind_all(addresses: list[tuple[socket.AddressFamily, str]], port: int) -> list[socket.socket]:
    """Sockets bound to all addresses on one port; families that this machine lacks are left out if another is there."""
    for attempt in range(PORT_ATTEMPTS):
        sockets: list[socket.socket] = []
        missing: OSError | None = None
        try:
            for family, host in addresses:
                try:
                    sockets.append(_bind(family, host, sockets[0].getsockname()[1] if sockets else port))
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


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return sock


def _set_options(sock: socket.socket, options: SocketOptions) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a peer that vanished is noticed in the end
    if options.send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
    if options.receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)


def _address(name: Sequence[object] | None) -> Address:
    """Socket names are (host, port) or, of IPv6, (host, port, flow, scope); None once the peer is gone again."""
    return Address(str(name[0]), int(str(name[1]))) if name else Address("", 0)
