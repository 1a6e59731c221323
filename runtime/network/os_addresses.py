"""The addresses of hosts, and sockets bound to them.

Rules: a listener binds every address of a host name, on one port: `localhost` is both loopbacks, an empty host is every
interface of both families, and so are 0.0.0.0 and :: (as in Java, whose sockets are of both families). Port 0 picks a port that
is free on all of them. A family that the machine lacks is skipped.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from runtime.network.transport import Address, is_every_interface

# Attempts to find a port that is free on every address of a listener.
PORT_ATTEMPTS = 32
# The errors of a machine without IPv6 (or IPv4) when that family's address is bound.
FAMILY_MISSING = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})


@dataclass(frozen=True, slots=True)
class BindAddress:
    """An address to bind. `scope` is the interface of a link-local IPv6 address, else 0."""

    family: socket.AddressFamily
    host: str
    scope: int = 0


async def bind_addresses(host: str) -> list[BindAddress]:
    """Return the addresses of `host`. Raises gaierror for an unknown name."""
    if is_every_interface(host):
        return [BindAddress(socket.AF_INET, "0.0.0.0"), BindAddress(socket.AF_INET6, "::")]  # noqa: S104  requested
    if host == "localhost":  # regardless of the hosts file: clients try either loopback first
        return [BindAddress(socket.AF_INET, "127.0.0.1"), BindAddress(socket.AF_INET6, "::1")]
    try:  # without a name lookup; uvloop would lose the interface of an address
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    addresses = (
        BindAddress(family, str(name[0]), int(cast(Sequence[int], name)[3]) if family == socket.AF_INET6 else 0)
        for family, _, _, _, name in found
    )
    return list(dict.fromkeys(addresses))


async def peer_addresses(host: str, port: int) -> list[str]:
    """Return the addresses to try one after another. Raises OSError for an unknown name.

    uvloop's `create_connection` would look names up too, but when cancelled it leaves an exception that is never retrieved.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    return [host]


def bind_all(addresses: list[BindAddress], port: int) -> list[socket.socket]:
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


def _bind(address: BindAddress, port: int) -> socket.socket:
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
