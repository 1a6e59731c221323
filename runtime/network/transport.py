"""The network interface: listening, connecting and moving bytes.

Rules: the shell owns sockets; decisions are made in the `ConnectionHandler`. All calls are made on the event loop.
Buffers given to `Connection.write` belong to the transport until they are sent: never change them afterwards. Ranges of files
are released by the transport (`runtime.network.file_range`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.network.file_range import Piece


@dataclass(frozen=True, slots=True)
class Address:
    """A host, which is a name or an address without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_every_interface(host: str) -> bool:
    """Return whether a listener on `host` is open on all interfaces: an empty host, 0.0.0.0 or ::, in any notation."""
    if not host:
        return True
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class Connection(Protocol):
    """One open stream, as used by its handler."""

    peer: Address
    local: Address
    takes_ranges: bool
    """Whether ranges of files leave without being read into the process. A connection that encrypts reads them first."""

    def write(self, pieces: Sequence[Piece]) -> None:
        """Queue `pieces` in order, without copying large ones. Once closing, they are silently dropped."""

    def unsent_bytes(self) -> int: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Send what is queued, then close."""

    def abort(self) -> None:
        """Close immediately, and drop what is queued."""


class ConnectionHandler(Protocol):
    """Called by a stream: first `connected`, then any number of the others, then `disconnected` exactly once."""

    def connected(self, connection: Connection) -> None: ...

    def receive_buffer(self, size_hint: int) -> memoryview:
        """Return the buffer for the next bytes: writable, not empty. So a large frame arrives in its final buffer. Handlers may
        share a buffer: nothing else is received between this call and its `received`, if any comes."""

    def received(self, count: int) -> None:
        """Called when `count` bytes are at the start of the last `receive_buffer`."""

    def writing_paused(self) -> None:
        """Called when the peer reads slowly: more bytes than the high-water mark are unsent."""

    def writing_resumed(self) -> None: ...

    def disconnected(self, error: Exception | None) -> None: ...


class Listener(Protocol):
    address: Address

    def pause(self) -> None:
        """Accept no connection until `resume`. Those that are made wait, as many as the backlog holds."""

    def resume(self) -> None: ...

    async def close(self) -> None:
        """Stop accepting connections; open ones go on."""


class Network(Protocol):
    async def listen(self, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> Listener:
        """Listen on a host and port; port 0 picks a free one. Raises OSError."""

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        """Open a connection. Raises OSError."""
