"""Apache Kafka 4.3.0 in KRaft mode on free loopback ports: one process that is broker and controller.

It is ready when it answers Metadata with a broker in it. Its directory is formatted before the first start, with the
newest level of every feature except those that `features` names.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.oracle import java
from tests.oracle.broker import Broker
from tests.oracle.ports import lasting_port
from tests.oracle.process import StartError, write_properties

CLUSTER_ID = "barnabasAAAAAAAAAAAAAA"
"""The same for every cluster: nothing here connects two of them."""
TELEMETRY_RECEIVER = Path(__file__).with_name("TelemetryReceiver.java")


class KraftKafka(Broker):
    """The second reference broker. `features` are levels by name, such as `{"group.version": 0}`."""

    name = "kafka-kraft"
    kind = "kafka"

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = java.QUICK_START,
        *,
        features: Mapping[str, int] | None = None,
        broker_id: int = 0,
        port: int | None = None,
        sasl_port: int | None = None,
        login: str | None = None,
        folder: Path | None = None,
        receives_telemetry: bool = False,
    ) -> None:
        """With `login`, settings of PLAIN whose user is the broker's own and a super user, it has an authorizer, and a listener
        for users at `sasl_port` beside the one for everybody. `receives_telemetry`: clients may push their metrics, which
        Apache Kafka allows when a plugin is there."""
        super().__init__(broker_id=broker_id, port=port, settings=settings, folder=folder)
        self.plugin = TELEMETRY_RECEIVER if receives_telemetry else None
        self.options = options
        self.features = dict(features or {})
        self.controller_port = 0
        self.sasl_port = sasl_port
        self.login = login

    def properties(self) -> dict[str, str]:
        """Chooses both ports."""
        of_all = super().properties()
        del of_all["broker.id"]
        self.controller_port = self.controller_port or lasting_port()
        client, controller = self.bootstrap_servers, f"127.0.0.1:{self.controller_port}"
        secured = {} if self.login is None else self._secured(client, controller, self.login)
        return {
            **of_all,
            "process.roles": "broker,controller",
            "node.id": str(self.broker_id),
            "controller.quorum.voters": f"{self.broker_id}@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{client},CONTROLLER://{controller}",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "3",
            **({"metric.reporters": self.plugin.stem} if self.plugin is not None else {}),
            **secured,
        }

    def _secured(self, client: str, controller: str, login: str) -> dict[str, str]:
        return {
            "listeners": f"PLAINTEXT://{client},SASL_PLAINTEXT://127.0.0.1:{self.sasl_port},CONTROLLER://{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            "listener.name.controller.plain.sasl.jaas.config": login,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        }

    def prepare(self) -> list[str]:
        arguments = write_properties(self.folder / "server.properties", {**self.properties(), **self.settings})
        if not (self.data / "meta.properties").exists():
            self._format(arguments)
        release = java.KRAFT_MODE
        return java.command(
            "kafka.Kafka",
            arguments,
            log_settings=release.server_log,
            options=self.options,
            release=release,
            plugin=self.plugin,
        )

    def _format(self, configuration: Sequence[str]) -> None:
        """Make the directory of a new cluster. Raises StartError with the words of the tool that does it."""
        arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", *configuration]
        for name, level in self.features.items():
            arguments += ["--feature", f"{name}={level}"]
        command = java.command("kafka.tools.StorageTool", arguments, release=java.KRAFT_MODE)
        run = subprocess.run(command, capture_output=True, text=True, timeout=self.start_timeout_s, check=False)
        if run.returncode != 0:
            raise StartError(f"the directory was not formatted:\n{run.stdout}{run.stderr}")
