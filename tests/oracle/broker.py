"""What the brokers under test have in common, whoever wrote them: an id, a port that stays, a data directory, settings."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.oracle.ports import lasting_port
from tests.oracle.process import Server
from tests.oracle.readiness import listed_brokers


class Broker(Server):
    """One broker on a loopback port, over its own store or the ZooKeeper that `zookeeper` names.

    Its port is `port`, or one that its first start chooses; it keeps it over its starts.
    """

    kind = ""
    """"kafka" or "barnabas"."""

    def __init__(
        self,
        zookeeper: str | None = None,
        *,
        broker_id: int = 0,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        super().__init__(folder, environment)
        self.zookeeper = zookeeper
        self.broker_id = broker_id
        self.settings = dict(settings or {})
        self.data = self.folder / "data"
        self.port = port or 0

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def properties(self) -> dict[str, str]:
        """The start of server.properties; chooses the port."""
        self.port = self.port or lasting_port()
        properties = {
            "broker.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
            "offsets.topic.num.partitions": "5",
            "group.initial.rebalance.delay.ms": "0",
        }
        if self.zookeeper is not None:
            properties |= {"zookeeper.connect": self.zookeeper, "zookeeper.session.timeout.ms": "6000"}
        return properties

    def is_ready(self) -> bool:
        return listed_brokers("127.0.0.1", self.port) >= 1

    def lose_data(self) -> None:
        """An empty directory, as after a broken disk. The broker must not run."""
        assert self.process is None or self.process.poll() is not None, "the broker still runs"
        shutil.rmtree(self.data, ignore_errors=True)
