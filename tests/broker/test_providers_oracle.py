"""What DescribeConfigs tells of settings that config providers gave, beside a running Apache Kafka 3.9.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.differential.wire import Wire
from tests.oracle import java
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.oracle.zookeeper import ZooKeeper

PACKAGE = "org.apache.kafka.common.config.provider"
BROKER = 4
SECRET = "hunter2-hunter2"
SETTINGS = {
    "config.providers": "env,file",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
    "broker.rack": "${env:PROVIDED_RACK}",
    "num.partitions": "${env:PROVIDED_NUMBER}",
    "my.unknown.setting": "${env:PROVIDED_RACK}",
}


def ask(broker: Broker, request: Any, version: int) -> Any:
    wire = Wire("127.0.0.1", broker.port)
    try:
        return wire.ask(request, version, 30)
    finally:
        wire.close()


def told(broker: Broker, names: list[str]) -> dict[str, tuple[Any, ...]]:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=names)
    answer = ask(broker, DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
    return {
        row.name: (
            row.value,
            row.is_sensitive,
            row.read_only,
            int(row.config_source),
            row.config_type,
            [(synonym.name, synonym.value, int(synonym.source)) for synonym in row.synonyms],
        )
        for row in answer.results[0].configs
    }


def dynamic_value(broker: Broker) -> Any:
    return told(broker, ["ssl.cipher.suites"])["ssl.cipher.suites"][0]


@pytest.mark.oracle
def test_describe_configs_tells_the_same_of_provided_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    monkeypatch.setenv("PROVIDED_RACK", "rack-1")
    monkeypatch.setenv("PROVIDED_NUMBER", "3")
    (tmp_path / "secrets").write_text(f"password={SECRET}\n")
    secret = f"${{file:{tmp_path}/secrets:password}}"
    settings = SETTINGS | {"ssl.key.password": secret, "listener.name.plaintext.ssl.truststore.password": secret}
    port, found = lasting_port(), []
    with ZooKeeper() as zookeeper:
        for broker in (
            KafkaServer(f"{zookeeper.connect}/apache", broker_id=1, port=port, settings=settings),
            Barnabas(settings, zookeeper=f"{zookeeper.connect}/ours", broker_id=1, port=port),
        ):
            with broker:
                found.append(told(broker, list(settings)))
                change = AlterableConfig(name="ssl.cipher.suites", config_operation=0, value="${env:PROVIDED_RACK}")
                resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[change])
                answer = ask(broker, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
                assert answer.responses[0].error_code == 0
                # Apache Kafka resolves dynamic settings as well: a difference on purpose.
                expected = "rack-1" if broker.kind == "kafka" else "${env:PROVIDED_RACK}"
                assert wait_until(lambda broker=broker, expected=expected: dynamic_value(broker) == expected, 30)  # type: ignore[misc]
                assert SECRET not in broker.log_tail(10**9)
    assert found[0] == found[1]
    assert found[0]["broker.rack"][0] == "rack-1" and found[0]["ssl.key.password"][0] is None
