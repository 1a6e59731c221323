"""Sockets: the asyncio (uvloop) adapter of `runtime.network.transport`.

    OsNetwork   listens and connects on the running event loop
    listeners   `runtime.network.os_listener`
    streams     `runtime.network.os_connection`

Rules: a name is one listener with the same port on each of its addresses; a connection is made to the first address that
accepts it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress

from runtime.network.os_addresses import bind_addresses, bind_all, peer_addresses
from runtime.network.os_connection import OsConnection, SocketOptions
from runtime.network.os_listener import AcceptedConnection, OsListener, ReservedDescriptors
from runtime.network.transport import Address, Connection, ConnectionHandler, Listener
from runtime.process.os_threads import OsThreads

__all__ = ["OsNetwork", "SocketOptions"]

# The number of large writes at a time, beside those of the loop. Most wait for their peers, which takes no core.
SENDING_THREADS = 8
# How long a stop waits for the threads: they see that their connections are closed, unless a disk does not answer.
DRAIN_S = 1.0


class OsNetwork:
    """The network of the running event loop."""

    def __init__(self, options: SocketOptions | None = None, sending_threads: int = SENDING_THREADS) -> None:
        """`sending_threads` 0: the loop does all writes, and the process has no thread by this."""
        self._options = options or SocketOptions()
        self._sending_threads = sending_threads
        self._senders: OsThreads | None = None

    async def listen(self, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> Listener:
        try:
            addresses = await bind_addresses(host)
        except socket.gaierror as error:
            raise OSError(errno.EADDRNOTAVAIL, f"cannot listen on {Address(host, port)}: {error.strerror}") from error
        sockets = bind_all(addresses, port)
        bound_port: int = sockets[0].getsockname()[1]
        options, senders = self._options, self._threads()
        reserved = ReservedDescriptors(options.last_descriptor)
        listener = OsListener(
            Address(host, bound_port),
            sockets,
            options.backlog,
            lambda: AcceptedConnection(factory(), options, senders, reserved),
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
        for address in await peer_addresses(host, port):
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
            self._senders = OsThreads(asyncio.get_running_loop(), self._sending_threads, "large write")
        return self._senders

    async def drain(self) -> None:
        """Return when no thread sends from a file, after at most a second. Called after all connections are closed."""
        if self._senders is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await self._senders.drain()

    def close(self) -> None:
        """Stop the sending threads. Called after all listeners and connections are closed; needed only after large writes."""
        if self._senders is not None:
            self._senders.close()
            self._senders = None
