"""The ZooKeeper that Apache Kafka 3.9.1 was built with, on loopback ports: one server, or an ensemble.

A tick is 500 ms, so that sessions of 6 s expire within half a second of their time.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.oracle import java
from tests.oracle.ports import lasting_port
from tests.oracle.process import Server, write_properties

SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms32m", "-Xmx256m")


class ZooKeeper(Server):
    """A server. It keeps its port over its starts; `properties` are added to its configuration."""

    name = "zookeeper"

    def __init__(
        self, folder: Path | None = None, *, port: int | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder)
        self.port = port or 0
        self.data = self.folder / "zookeeper-data"
        self._properties = dict(properties or {})

    @property
    def connect(self) -> str:
        """The value of `zookeeper.connect`."""
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        self.port = self.port or lasting_port()
        properties = {
            "dataDir": str(self.data),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
            "tickTime": "500",
            "maxSessionTimeout": "300000",
            "4lw.commands.whitelist": "ruok,srvr",
            "forceSync": "no",
            **self._properties,
        }
        arguments = write_properties(self.folder / "zookeeper.properties", properties)
        return java.command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            arguments,
            log_settings=java.ZOOKEEPER_MODE.server_log,
            options=SMALL,
        )

    def is_ready(self) -> bool:
        return self.mode() is not None

    def mode(self) -> str | None:
        """ "standalone", "leader" or "follower"; None while it does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                connection.settimeout(1)
                answer = b"".join(iter(lambda: connection.recv(1000), b"")).decode()
        except OSError:
            return None
        return next((line[6:] for line in answer.splitlines() if line.startswith("Mode: ")), None)


class Ensemble:
    """`size` servers of ZooKeeper that elect their leader; any of them can be killed and started again."""

    def __init__(self, folder: Path, size: int = 3) -> None:
        ports = {number: (lasting_port(), lasting_port()) for number in range(1, size + 1)}
        members = {f"server.{number}": f"127.0.0.1:{one}:{two}" for number, (one, two) in ports.items()}
        self.servers: dict[int, ZooKeeper] = {}
        for number in range(1, size + 1):
            own = folder / f"zookeeper-{number}"
            own.mkdir(parents=True, exist_ok=True)
            limits = {"initLimit": "20", "syncLimit": "8"}
            server = ZooKeeper(own, port=lasting_port(), properties={} if size == 1 else {**limits, **members})
            server.data.mkdir(exist_ok=True)
            (server.data / "myid").write_text(str(number))
            self.servers[number] = server

    @property
    def connect(self) -> str:
        return ",".join(server.connect for server in self.servers.values())

    @property
    def leader(self) -> ZooKeeper:
        """The server that leads now. Raises LookupError when there is none."""
        for server in self.servers.values():
            if server.mode() in ("leader", "standalone"):
                return server
        raise LookupError("the ensemble has no leader")

    def start(self) -> None:
        """All at once: the first is ready only when it has a quorum."""
        with ThreadPoolExecutor(len(self.servers)) as pool:
            list(pool.map(lambda server: server.start(), self.servers.values()))

    def kill(self) -> None:
        for server in self.servers.values():
            server.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
