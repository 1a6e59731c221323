"""The store server (`barnabas store`) as a child process, in the place of a ZooKeeper."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.oracle.barnabas import REPOSITORY
from tests.oracle.ports import lasting_port
from tests.oracle.process import Server, write_properties


class StoreServerProcess(Server):
    """It keeps its port and its folder over its starts; `properties` are added to its settings."""

    name = "store"

    def __init__(self, folder: Path | None = None, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, {"PYTHONPATH": str(REPOSITORY)})
        self.port = lasting_port()
        self._properties = dict(properties or {})

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        properties = {
            "dataDir": str(self.folder / "store-data"),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": "0",
            "tickTime": "500",
            "maxSessionTimeout": "300000",
            **self._properties,
        }
        arguments = write_properties(self.folder / "store.properties", properties)
        return [sys.executable, "-m", "barnabas.cli", "store", *arguments]

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"ruok")
                connection.settimeout(1)
                return connection.recv(4) == b"imok"
        except OSError:
            return False
