"""With `zookeeper.set.acl` the nodes of either broker have the same access lists."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.differential.wire import NoResponse, Wire
from tests.interop.conftest import need_java
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer
from tests.oracle.process import wait_until
from tests.oracle.zookeeper import ZooKeeper

pytestmark = pytest.mark.interop

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
SETTINGS = {"zookeeper.set.acl": "true", "delegation.token.secret.key": "secret"}
BROKER = 4
SUPER_USER = "super:word"
SUPER_DIGEST = "super:" + base64.b64encode(hashlib.sha1(SUPER_USER.encode()).digest()).decode()
"""Of the one who may read every node of ZooKeeper."""
Access = dict[str, list[tuple[int, str, str]]]


@pytest.fixture(autouse=True)
def java() -> None:
    need_java()


def used(broker: Broker) -> None:
    """Make nodes of topics and of settings."""
    wire = Wire("127.0.0.1", broker.port)
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])

    def is_created() -> bool:
        answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7, 60)
        return not isinstance(answer, NoResponse) and answer.topics[0].error_code in (0, 36)

    try:
        assert wait_until(is_created, 60)
        config = AlterableConfig(name="max.connections", config_operation=0, value="1000")
        for name in ("0", ""):
            resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=[config])
            answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1, 60)
            assert answer.responses[0].error_code == 0
    finally:
        wire.close()


def access(zookeeper: ZooKeeper, chroot: str) -> Access:
    """The access list of each node; numbers in names are left out."""
    kazoo = KazooClient(hosts=zookeeper.connect, auth_data=[("digest", SUPER_USER)])
    kazoo.start(timeout=30)
    found: Access = {}

    def walk(path: str) -> None:
        rows, _ = kazoo.get_acls(chroot + path)
        name = path.rstrip("0123456789")
        found[name] = sorted((row.perms, row.id.scheme, row.id.id) for row in rows)
        for child in kazoo.get_children(chroot + path):
            walk(f"{path}/{child}")

    try:
        walk("")
    finally:
        kazoo.stop()
        kazoo.close()
    return found


def test_nodes_of_either_have_the_same_access_lists(tmp_path: Path) -> None:
    server_jaas, client_jaas = tmp_path / "server.jaas", tmp_path / "client.jaas"
    server_jaas.write_text(f'Server {{ {MODULE} required user_broker="secret"; }};')
    client_jaas.write_text(f'Client {{ {MODULE} required username="broker" password="secret"; }};')
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    zookeeper = ZooKeeper(properties={"authProvider.1": provider})
    zookeeper.environment = {
        "JAVA_TOOL_OPTIONS": f"-Djava.security.auth.login.config={server_jaas} "
        f"-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"
    }
    with zookeeper:
        theirs = KafkaServer(f"{zookeeper.connect}/theirs", settings=SETTINGS)
        theirs.environment = {"JAVA_TOOL_OPTIONS": f"-Djava.security.auth.login.config={client_jaas}"}
        with theirs:
            used(theirs)
            of_theirs = access(zookeeper, "/theirs")
        own = {"barnabas.zookeeper.sasl.username": "broker", "barnabas.zookeeper.sasl.password": "secret"}
        with Barnabas({**SETTINGS, **own}, zookeeper=f"{zookeeper.connect}/ours") as ours:
            used(ours)
            of_ours = access(zookeeper, "/ours")
    assert {path: of_ours.get(path) for path in of_theirs} == of_theirs
    assert of_ours.keys() == of_theirs.keys()
    assert of_ours["/config/brokers/"] == [(31, "sasl", "broker")]
    assert of_ours["/brokers/topics/orders"] == [(1, "world", "anyone"), (31, "sasl", "broker")]
