"""The sockets on which clients connect, and the connections that are not accepted.

Rules: the highest descriptors of the process are for files: a client that gets one of them is disconnected immediately, without
a call of its handler. A listener that is paused leaves new connections to the kernel's queue.
Source: listen(2), accept(2).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import cast

from runtime.network.os_connection import OsConnection, SocketOptions
from runtime.network.transport import Address, ConnectionHandler
from runtime.process.os_threads import OsThreads

# How long a listener waits for a free descriptor before it tries to accept connections again.
RESUME_AGAIN_S = 1.0
# The minimum time between two log lines about refused connections.
REFUSALS_LOGGED_EVERY_S = 60.0

logger = logging.getLogger(__name__)


class ReservedDescriptors:
    """The descriptors that accepted connections may not have."""

    def __init__(self, last_descriptor: int | None) -> None:
        self._last = last_descriptor
        self._refused_count = 0
        self._logged_s = -REFUSALS_LOGGED_EVERY_S

    def has(self, descriptor: int) -> bool:
        """Return whether `descriptor` is reserved, and count a refusal. The kernel assigns the lowest free descriptor, so all
        lower ones are in use."""
        if self._last is None or descriptor <= self._last:
            return False
        self._refused_count += 1
        now_s = asyncio.get_running_loop().time()
        if now_s - self._logged_s >= REFUSALS_LOGGED_EVERY_S:
            logger.warning(
                "connections refused, the limit of open files is reached: last_descriptor=%d refused_connections=%d",
                self._last,
                self._refused_count,
            )
            self._logged_s, self._refused_count = now_s, 0
        return True


class AcceptedConnection(OsConnection):
    """An accepted connection, which is aborted without a call of its handler if its descriptor is reserved."""

    def __init__(
        self, handler: ConnectionHandler, options: SocketOptions, senders: OsThreads, reserved: ReservedDescriptors
    ) -> None:
        super().__init__(handler, options, senders)
        self._reserved = reserved
        self._is_refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._reserved.has(transport.get_extra_info("socket").fileno()):
            self._is_refused = True
            cast(asyncio.Transport, transport).abort()
        else:
            super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_refused:
            super().connection_lost(error)


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
