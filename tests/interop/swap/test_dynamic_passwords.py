"""Dynamic passwords of one store: what Apache Kafka encrypted is decrypted here, and the other way round.

A broker that cannot decrypt a stored password leaves it out of what it describes as its own dynamic settings.
"""

from __future__ import annotations

import random

import pytest
from kazoo.client import KazooClient

from metadata.store.znodes import decode_config
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from security.password_encoder import EncoderSettings, PasswordEncoder
from tests.differential.wire import NoResponse, Wire
from tests.interop.conftest import need_java
from tests.oracle import tools
from tests.oracle.barnabas import Barnabas
from tests.oracle.kafka import KafkaServer
from tests.oracle.zookeeper import ZooKeeper

pytestmark = pytest.mark.interop

SECRET = {"password.encoder.secret": "an encoder's secret"}
NAME = "listener.name.internal.ssl.keystore.password"
BROKER, DYNAMIC_BROKER = 4, 2


@pytest.fixture(autouse=True)
def java() -> None:
    need_java()


def stored(zookeeper: ZooKeeper) -> dict[str, str]:
    kazoo = KazooClient(hosts=zookeeper.connect)
    kazoo.start(timeout=30)
    try:
        return decode_config(kazoo.get("/config/brokers/0")[0])
    finally:
        kazoo.stop()
        kazoo.close()


def described(port: int) -> dict[str, tuple[str | None, int]]:
    """The values and sources of the broker's settings of listeners."""
    wire = Wire("127.0.0.1", port)
    try:
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
        answer = wire.ask(request, 4, 60)
        assert not isinstance(answer, NoResponse)
        return {
            row.name: (row.value, row.config_source)
            for row in answer.results[0].configs
            if row.name.startswith("listener.name.")
        }
    finally:
        wire.close()


def alter(port: int, **settings: str) -> None:
    wire = Wire("127.0.0.1", port)
    try:
        configs = [
            AlterableConfig(name=f"listener.name.{key}", config_operation=0, value=text)
            for key, text in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="0", configs=configs)
        answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1, 60)
        assert [row.error_code for row in answer.responses] == [0]
    finally:
        wire.close()


FORMS = {
    "gcm": {"password.encoder.cipher.algorithm": "AES/GCM/NoPadding", "password.encoder.key.length": "256"},
    "sha1": {"password.encoder.keyfactory.algorithm": "PBKDF2WithHmacSHA1", "password.encoder.iterations": "2048"},
}


def test_passwords_of_either_are_read_by_the_other() -> None:
    with ZooKeeper() as zookeeper:
        ours = Barnabas(SECRET, zookeeper=zookeeper.connect)
        with ours:
            alter(
                ours.port,
                **{"internal.ssl.keystore.password": "of ours", "internal.plain.sasl.jaas.config": "X required;"},
            )
            assert described(ours.port)[NAME] == (None, DYNAMIC_BROKER)
        # Apache Kafka's own tool encrypts for a broker that does not run.
        for form, how in FORMS.items():
            given = {f"listener.name.{form}.ssl.key.password": f"{form} by the tool", **SECRET, **how}
            text = ",".join(f"{name}={value}" for name, value in given.items())
            entity = ["--zookeeper", zookeeper.connect, "--entity-type", "brokers", "--entity-name", "0"]
            tools.run("configs", [*entity, "--alter", "--add-config", text])
        texts = stored(zookeeper)
        encoder = PasswordEncoder(SECRET["password.encoder.secret"], EncoderSettings(), random.Random(1))
        assert encoder.decode(texts[NAME]) == "of ours"
        for form in FORMS:
            assert encoder.decode(texts[f"listener.name.{form}.ssl.key.password"]) == f"{form} by the tool"
        theirs = KafkaServer(zookeeper.connect, settings=SECRET)
        with theirs:
            names = {NAME, "listener.name.internal.plain.sasl.jaas.config"}
            assert {name for name, row in described(theirs.port).items() if row == (None, DYNAMIC_BROKER)} >= names
            alter(theirs.port, **{"internal.ssl.key.password": "of theirs"})
        assert encoder.decode(stored(zookeeper)["listener.name.internal.ssl.key.password"]) == "of theirs"
        other = Barnabas({"password.encoder.secret": "another"}, zookeeper=zookeeper.connect)
        with other:
            assert described(other.port) == {}
        with Barnabas(SECRET, zookeeper=zookeeper.connect) as again:
            rows = described(again.port)
            assert rows["listener.name.internal.ssl.key.password"] == rows[NAME] == (None, DYNAMIC_BROKER)
