"""ACLs written by Apache Kafka's tools and brokers are in force here, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from tests.differential.wire import Wire
from tests.interop.conftest import BROKERS, need_java
from tests.oracle import tools
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.kafka import ApacheKafka
from tests.oracle.process import wait_until

SETTINGS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
PATIENCE_S = 60
ANY, TOPIC, MATCH, LITERAL, PREFIXED, READ, ALLOW = 1, 2, 2, 3, 4, 3, 3


@pytest.fixture(scope="module", params=BROKERS)
def server(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Arguments of a tool for one broker with an authorizer."""
    need_java()
    with Barnabas(SETTINGS) if request.param == "barnabas" else ApacheKafka(SETTINGS) as broker:
        yield ["--bootstrap-server", broker.bootstrap_servers]


def acls(*arguments: str) -> str:
    return tools.run("acls", arguments)


def entry(principal: str, operation: str, permission: str = "ALLOW", host: str = "*") -> str:
    """As the tool lists it."""
    return f"(principal={principal}, host={host}, operation={operation}, permissionType={permission})"


def test_acls_are_added_listed_and_removed(server: list[str]) -> None:
    topic = ["--topic", "orders"]
    acls(*server, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--operation", "Write", *topic)
    acls(*server, "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "All", *topic)
    listed = acls(*server, "--list", *topic)
    assert entry("User:alice", "READ") in listed and entry("User:alice", "WRITE") in listed
    assert entry("User:bob", "ALL", "DENY", "10.0.0.1") in listed
    acls(*server, "--remove", "--force", "--allow-principal", "User:alice", "--operation", "Read", *topic)
    listed = acls(*server, "--list", *topic)
    assert entry("User:alice", "READ") not in listed and entry("User:alice", "WRITE") in listed
    acls(*server, "--remove", "--force", *topic)
    assert "principal=" not in acls(*server, "--list", *topic)


def test_patterns_and_roles(server: list[str]) -> None:
    prefixed = ["--topic", "pre", "--resource-pattern-type", "prefixed"]
    acls(*server, "--add", "--allow-principal", "User:carol", "--producer", "--idempotent", *prefixed)
    acls(*server, "--add", "--allow-principal", "User:carol", "--consumer", "--topic", "*", "--group", "g")
    acls(
        *server,
        "--add",
        "--allow-principal",
        "User:carol",
        "--operation",
        "DescribeTokens",
        "--user-principal",
        "User:x",
    )
    everything = acls(*server, "--list", "--principal", "User:carol")
    for pattern in (
        "resourceType=TOPIC, name=pre, patternType=PREFIXED",
        "resourceType=TOPIC, name=*, patternType=LITERAL",
        "resourceType=GROUP, name=g, patternType=LITERAL",
        "resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL",
    ):
        assert pattern in everything
    assert entry("User:carol", "IDEMPOTENT_WRITE") in everything
    matching = acls(*server, "--list", "--topic", "prefix", "--resource-pattern-type", "match")
    assert "name=pre," in matching and "name=*," in matching


# --- both in one cluster ---


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_java()
    with Cluster((KAFKA, OURS, OURS), settings=SETTINGS) as made:
        yield made


def create(broker: Broker, name: str, principal: str, *, pattern_type: int = LITERAL) -> None:
    creation = AclCreation(
        resource_type=TOPIC, resource_name=name, resource_pattern_type=pattern_type, principal=principal, host="*",
        operation=READ, permission_type=ALLOW,
    )  # fmt: skip
    wire = Wire("127.0.0.1", broker.port)
    [result] = wire.ask(CreateAclsRequest(creations=[creation]), 3, PATIENCE_S).results  # type: ignore[union-attr]
    wire.close()
    assert result.error_code == 0


def delete(broker: Broker, name: str) -> int:
    """Return how many ACLs were removed."""
    asked = DeleteAclsFilter(
        resource_type_filter=TOPIC, resource_name_filter=name, pattern_type_filter=ANY, principal_filter=None,
        host_filter=None, operation=ANY, permission_type=ANY,
    )  # fmt: skip
    wire = Wire("127.0.0.1", broker.port)
    [result] = wire.ask(DeleteAclsRequest(filters=[asked]), 3, PATIENCE_S).filter_results  # type: ignore[union-attr]
    wire.close()
    assert result.error_code == 0
    return len(result.matching_acls)


def principals(broker: Broker, name: str) -> list[str]:
    """Return who has an ACL for a topic, as this broker knows it."""
    asked = DescribeAclsRequest(
        resource_type_filter=TOPIC, resource_name_filter=name, pattern_type_filter=MATCH, principal_filter=None,
        host_filter=None, operation=ANY, permission_type=ANY,
    )  # fmt: skip
    wire = Wire("127.0.0.1", broker.port)
    answer = wire.ask(asked, 3, PATIENCE_S)
    wire.close()
    return sorted(acl.principal for resource in answer.resources for acl in resource.acls)  # type: ignore[union-attr]


def everywhere(cluster: Cluster, name: str, expected: list[str]) -> None:
    for number, broker in cluster.brokers.items():
        assert wait_until(lambda broker=broker: principals(broker, name) == expected, PATIENCE_S), (number, name)  # type: ignore[misc]


@pytest.mark.oracle
@pytest.mark.parametrize("pattern_type", [LITERAL, PREFIXED])
def test_every_broker_follows_every_other(cluster: Cluster, pattern_type: int) -> None:
    name = f"followed-{pattern_type}"
    expected: list[str] = []
    for number, broker in cluster.brokers.items():
        expected.append(f"User:{number}")
        create(broker, name, expected[-1], pattern_type=pattern_type)
        everywhere(cluster, name, expected)
    for number, broker in cluster.brokers.items():
        assert delete(broker, name) == len(expected)
        everywhere(cluster, name, [])
        for creator, other in cluster.brokers.items():
            create(other, name, f"User:{creator}", pattern_type=pattern_type)
            everywhere(cluster, name, [f"User:{each}" for each in cluster.brokers if each <= creator])
        if number == max(cluster.brokers):
            assert delete(broker, name) == len(expected)


@pytest.mark.oracle
def test_the_tool_that_writes_to_zookeeper_is_heard(cluster: Cluster) -> None:
    store = [
        "--authorizer", "kafka.security.authorizer.AclAuthorizer",
        "--authorizer-properties", f"zookeeper.connect={cluster.zookeeper.connect}",
    ]  # fmt: skip
    topic = ["--topic", "by-zookeeper"]
    create(cluster.brokers[2], "by-zookeeper", "User:ours")
    acls(*store, "--add", "--allow-principal", "User:alice", "--operation", "Read", *topic)
    everywhere(cluster, "by-zookeeper", ["User:alice", "User:ours"])
    assert entry("User:ours", "READ") in acls(*store, "--list", *topic)
    acls(*store, "--remove", "--force", *topic)
    everywhere(cluster, "by-zookeeper", [])


@pytest.mark.oracle
def test_nodes_and_notifications_are_byte_for_byte_the_same(cluster: Cluster) -> None:
    written = []
    for broker in (cluster.brokers[1], cluster.brokers[2]):
        for pattern_type in (LITERAL, PREFIXED):
            create(broker, "same é", 'User:"é"', pattern_type=pattern_type)
            create(broker, "same é", "User:b", pattern_type=pattern_type)
            folder = "/kafka-acl" if pattern_type == LITERAL else "/kafka-acl-extended/prefixed"
            changes = "/kafka-acl-changes" if pattern_type == LITERAL else "/kafka-acl-extended-changes"
            node, stat = cluster.kazoo.get(f"{folder}/Topic/same é")
            last = max(cluster.kazoo.get_children(changes))
            change, _ = cluster.kazoo.get(f"{changes}/{last}")
            written.append((pattern_type, node, stat.version, change))
        assert delete(broker, "same é") == 4
        everywhere(cluster, "same é", [])
        assert cluster.kazoo.exists("/kafka-acl/Topic/same é") is None
    assert written[:2] == written[2:]


@pytest.mark.oracle
def test_a_broker_that_comes_back_knows_everything(cluster: Cluster) -> None:
    create(cluster.brokers[1], "before", "User:before")
    everywhere(cluster, "before", ["User:before"])
    ours = cluster.brokers[3]
    ours.stop()
    create(cluster.brokers[1], "meanwhile", "User:meanwhile")
    assert delete(cluster.brokers[2], "before") == 1
    ours.start()
    assert principals(ours, "meanwhile") == ["User:meanwhile"], "all are loaded before the port is served"
    assert principals(ours, "before") == []
    create(cluster.brokers[1], "meanwhile", "User:later")
    everywhere(cluster, "meanwhile", ["User:later", "User:meanwhile"])
