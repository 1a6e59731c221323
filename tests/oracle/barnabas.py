"""This broker as a child process, started and stopped like the reference."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.oracle.process import Server, free_port, write_properties
from tests.oracle.readiness import listed_brokers

REPOSITORY = Path(__file__).resolve().parent.parent.parent


class Barnabas(Server):
    """`barnabas start server.properties` on a free loopback port, over its embedded store."""

    name = "barnabas"
    start_timeout_s = 20.0

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        super().__init__(folder, {"PYTHONPATH": str(REPOSITORY), **(environment or {})})
        self.settings = dict(settings or {})
        self.port = 0
        self.data = self.folder / "data"

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        self.port = free_port()
        properties = {
            "broker.id": "0",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
            "offsets.topic.num.partitions": "5",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        arguments = write_properties(self.folder / "server.properties", properties)
        return [sys.executable, "-m", "barnabas.cli", "start", *arguments]

    def is_ready(self) -> bool:
        return listed_brokers("127.0.0.1", self.port) >= 1
