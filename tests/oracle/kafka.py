"""Apache Kafka 3.9.1 in ZooKeeper mode on free loopback ports, ready when it answers Metadata with a broker in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.oracle import java
from tests.oracle.broker import Broker
from tests.oracle.process import write_properties
from tests.oracle.zookeeper import ZooKeeper


class KafkaServer(Broker):
    """One broker process over a ZooKeeper that is already there."""

    name = "kafka"
    kind = "kafka"

    def __init__(
        self,
        zookeeper: str,
        *,
        broker_id: int = 0,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        options: Sequence[str] = java.QUICK_START,
    ) -> None:
        super().__init__(zookeeper, broker_id=broker_id, port=port, settings=settings, folder=folder)
        self.options = options

    def prepare(self) -> list[str]:
        properties = {
            **self.properties(),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "3",
            **self.settings,
        }
        arguments = write_properties(self.folder / "server.properties", properties)
        log_settings = java.ZOOKEEPER_MODE.server_log
        return java.command("kafka.Kafka", arguments, log_settings=log_settings, options=self.options)


class ApacheKafka(KafkaServer):
    """One broker together with its own ZooKeeper: what most tests want."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = java.QUICK_START,
        *,
        port: int | None = None,
    ) -> None:
        self.own_zookeeper = ZooKeeper()
        super().__init__("", port=port, settings=settings, options=options)

    def __enter__(self) -> Self:
        self.own_zookeeper.__enter__()
        self.zookeeper = self.own_zookeeper.connect
        try:
            return super().__enter__()
        except BaseException:
            self.own_zookeeper.kill()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.own_zookeeper.__exit__(kind, error, trace)
