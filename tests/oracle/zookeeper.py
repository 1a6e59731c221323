"""The ZooKeeper that Apache Kafka 3.9.1 was built with, as one server on a free loopback port."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.oracle import java
from tests.oracle.process import Server, free_port, write_properties


class ZooKeeper(Server):
    name = "zookeeper"

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.port = 0

    @property
    def connect(self) -> str:
        """The value of `zookeeper.connect`."""
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        self.port = free_port()
        properties = {
            "dataDir": str(self.folder / "zookeeper-data"),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
            "tickTime": "500",
            "4lw.commands.whitelist": "ruok,srvr",
            "forceSync": "no",
        }
        arguments = write_properties(self.folder / "zookeeper.properties", properties)
        return java.command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            arguments,
            log_settings=java.HERE / "server-log4j.properties",
            options=("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms32m", "-Xmx256m"),
        )

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                connection.settimeout(1)
                return b"Mode: standalone" in connection.recv(1000)
        except OSError:
            return False
