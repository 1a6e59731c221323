"""This broker as a child process, started and stopped like the reference."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.oracle.broker import Broker
from tests.oracle.process import write_properties

LEVELS = {"barnabas.initial.features": "none"}
"""It is compared with Apache Kafka 3.9.1, which has none."""
REPOSITORY = Path(__file__).resolve().parent.parent.parent


class Barnabas(Broker):
    """`barnabas start server.properties`; without `zookeeper` over its embedded store."""

    name = "barnabas"
    kind = "barnabas"

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
        *,
        zookeeper: str | None = None,
        broker_id: int = 0,
        port: int | None = None,
    ) -> None:
        super().__init__(
            zookeeper,
            broker_id=broker_id,
            port=port,
            settings=settings,
            folder=folder,
            environment={"PYTHONPATH": str(REPOSITORY), **(environment or {})},
        )

    def prepare(self) -> list[str]:
        arguments = write_properties(
            self.folder / "server.properties", {**LEVELS, **self.properties(), **self.settings}
        )
        return [sys.executable, "-m", "barnabas.cli", "start", *arguments]
