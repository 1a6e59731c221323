"""The servers in `zookeeper.connect`, and the order in which they are tried.

Rules: pure. The order is shuffled once, so that the brokers of a cluster spread over the servers, and then goes round.
Source: ZooKeeper ConnectStringParser, StaticHostProvider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.errors import ConfigError
from runtime.network.transport import Address
from runtime.randomness import Randomness

DEFAULT_PORT: Final = 2181


@dataclass(frozen=True, slots=True)
class ConnectString:
    """The parsed setting. `chroot` is the path of the cluster's root node, "" for the whole tree."""

    servers: tuple[Address, ...]
    chroot: str = ""

    @classmethod
    def parse(cls, text: str) -> ConnectString:
        """Parse "host:port,host:port/path". Raises ConfigError."""
        hosts, slash, path = text.partition("/")
        chroot = f"/{path}".rstrip("/") if slash else ""
        if "//" in chroot or any(part in (".", "..") for part in chroot.split("/")):
            raise ConfigError(f"zookeeper.connect={text}: {chroot} is no path")
        servers = tuple(_server(each.strip(), text) for each in hosts.split(",") if each.strip())
        if not servers:
            raise ConfigError(f"zookeeper.connect={text}: it names no server")
        return cls(servers, chroot)


def _server(each: str, text: str) -> Address:
    host, port = each, ""
    if each.startswith("["):
        host, bracket, port = each[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ConfigError(f"zookeeper.connect={text}: {each} is not [address]:port")
        port = port[1:]
    elif each.count(":") == 1:
        host, _, port = each.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536)):
        raise ConfigError(f"zookeeper.connect={text}: {each} is not host:port")
    return Address(host, int(port) if port else DEFAULT_PORT)


class Rotation:
    """Iterates over the servers repeatedly. `round_is_over`: all of them were tried since the last success."""

    def __init__(self, servers: tuple[Address, ...], randomness: Randomness) -> None:
        shuffled = list(servers)
        randomness.shuffle(shuffled)
        self._servers = shuffled
        self._next = 0
        self._tries = 0

    def __len__(self) -> int:
        return len(self._servers)

    def next(self) -> Address:
        server = self._servers[self._next]
        self._next = (self._next + 1) % len(self._servers)
        self._tries += 1
        return server

    @property
    def round_is_over(self) -> bool:
        return self._tries > 0 and self._tries % len(self._servers) == 0

    def succeeded(self) -> None:
        self._tries = 0
