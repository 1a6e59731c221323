"""The ports of a layout: free ones that stay so, and those that another process has.

Rules: a free port is bound, and not listened on, as long as the command runs: the kernel gives it to nobody else, and who
has it may listen on it again after a restart (SO_REUSEADDR on both sides).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from barnabas.listening import is_free, listening_processes, names_of
from barnabas.supervisor.layout import PortUse
from runtime.network.os_addresses import bind_addresses, bind_all


class PortInUseError(OSError):
    """Another process listens on a port; the text names both."""


class ReservedPorts:
    """The free ports of one command."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def free_port(self, host: str) -> int:
        """Return a port that is free on all addresses of `host`. Raises OSError. Before an event loop runs."""
        bound = bind_all(asyncio.run(bind_addresses(host)), 0)
        self._sockets += bound
        return int(bound[0].getsockname()[1])

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets.clear()


def require_free(uses: Iterable[PortUse]) -> None:
    """Raises PortInUseError."""
    for use in uses:
        if not is_free(use.address.port):
            others = names_of(listening_processes(use.address.port))
            raise PortInUseError(f"port {use.address.port} of {use.owner} is taken by {others}")
