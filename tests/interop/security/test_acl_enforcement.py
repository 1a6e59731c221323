"""Users of real clients, granted and denied by ACLs, on brokers of ours and of Apache Kafka in one cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from protocol.messages.describe_acls import DescribeAclsRequest
from tests.differential.wire import Wire
from tests.interop.conftest import need_java
from tests.oracle import tools
from tests.oracle.broker import Broker
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

PATIENCE_S = 60
USERS = " ".join(f'user_{name}="{name}-secret"' for name in ("admin", "alice", "bob"))
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ANYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def secured(broker: Broker, audit: Path) -> int:
    """Give a broker that has not started a second listener, for users; returns its port."""
    port = lasting_port()
    broker.settings |= {
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},CLIENTS://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_LOGIN} {USERS};",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",  # brokers are nobody to each other, on a listener of their own
    }
    if broker.kind == OURS:
        broker.settings["barnabas.audit.log"] = str(audit)
    return port


def acls_of(broker: Broker) -> list[object]:
    """Return the ACLs that one broker knows, as it tells another broker."""
    asked = DescribeAclsRequest(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    wire = Wire("127.0.0.1", broker.port)
    try:
        return list(wire.ask(asked, 3, PATIENCE_S).resources)  # type: ignore[union-attr]
    finally:
        wire.close()


class Secured:
    """Broker 1 is Apache Kafka's, the others are ours."""

    def __init__(self, folder: Path) -> None:
        self._admins: dict[str, AdminClient] = {}
        self.cluster = Cluster((KAFKA, OURS, OURS))
        self.audits = {number: folder / f"audit-{number}.log" for number in self.cluster.brokers}
        self.ports = {number: secured(broker, self.audits[number]) for number, broker in self.cluster.brokers.items()}

    def client(self, user: str) -> dict[str, object]:
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.ports.values()),
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": user,
            "sasl.password": f"{user}-secret", "topic.metadata.refresh.interval.ms": 500,
            "topic.metadata.propagation.max.ms": 0,
        }  # fmt: skip

    def admin(self, user: str = "admin") -> AdminClient:
        if user not in self._admins:
            self._admins[user] = AdminClient(self.client(user))  # its futures fail when it is no longer there
        return self._admins[user]

    def allow(self, *bindings: AclBinding) -> None:
        for future in self.admin().create_acls(list(bindings)).values():
            future.result(PATIENCE_S)

    def forget(self) -> None:
        """Remove all ACLs; returns when no broker has any."""
        for future in self.admin().delete_acls([ANYTHING]).values():
            future.result(PATIENCE_S)
        for broker in self.cluster.brokers.values():
            assert wait_until(lambda broker=broker: not acls_of(broker), PATIENCE_S)  # type: ignore[misc]

    def produce(self, user: str, topic: str, partition: int, *, acks: str = "all") -> KafkaError | None:
        """Return the error of one record."""
        outcome: list[KafkaError | None] = []
        producer = Producer({**self.client(user), "acks": acks, "message.timeout.ms": 20_000})
        producer.produce(topic, b"value", partition=partition, on_delivery=lambda error, _: outcome.append(error))
        assert producer.flush(PATIENCE_S) == 0
        return outcome[0]

    def may_produce(self, user: str, topic: str, partition: int) -> bool:
        answers: list[KafkaError | None] = []

        def is_answered() -> bool:
            """librdkafka fails records itself when the topic vanishes between two of its requests."""
            answers.append(self.produce(user, topic, partition))
            return answers[-1] is None or answers[-1].code() >= 0

        assert wait_until(is_answered, PATIENCE_S), answers
        error = answers[-1]
        codes = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        assert error is None or error.code() in codes, error
        return error is None

    def read(self, user: str, topic: str, group: str) -> KafkaError | int:
        """Return how many records a member of a group reads, or the error."""
        consumer = Consumer(
            {
                **self.client(user),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "enable.auto.commit": False,  # an attempt that fails in the middle is begun again
            }
        )
        consumer.subscribe([topic])
        count, ended, until = 0, 0, time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < until and ended < len(self.ports):
                message = consumer.poll(1)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    count += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended += 1
                else:
                    return error
        except KafkaException as error:
            return error.args[0]
        finally:
            consumer.close()
        return count


def binding(
    name: str,
    operation: AclOperation,
    *,
    user: str = "alice",
    kind: ResourceType = TOPIC,
    pattern: ResourcePatternType = LITERAL,
    permission: AclPermissionType = ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A cluster with topics of one partition on each broker. Only one test writes to `receipts`, which it counts."""
    need_java()
    made = Secured(tmp_path_factory.mktemp("audits"))
    with made.cluster as cluster:
        for topic in ("orders", "payments", "receipts"):
            leaders = [[number] for number in cluster.brokers]
            [created] = made.admin().create_topics([NewTopic(topic, len(leaders), replica_assignment=leaders)]).values()
            created.result(PATIENCE_S)
        yield made


@pytest.fixture
def world(secure: Secured) -> Iterator[Secured]:
    yield secure
    secure.forget()


def partitions(secure: Secured) -> range:
    """One for each broker, which leads it."""
    return range(len(secure.ports))


def test_nobody_may_anything_before_the_first_acl(world: Secured) -> None:
    for partition in partitions(world):
        assert world.may_produce("admin", "orders", partition)
        assert not world.may_produce("alice", "orders", partition)
    error = world.read("alice", "orders", "alice-app")
    assert isinstance(error, KafkaError)
    [created] = world.admin("alice").create_topics([NewTopic("mine", 1, 1)]).values()
    with pytest.raises(KafkaException, match=r"AUTHORIZATION_FAILED"):
        created.result(PATIENCE_S)


def test_an_acl_is_in_force_on_every_broker_and_so_is_its_removal(world: Secured) -> None:
    for _ in range(2):
        world.allow(binding("orders", WRITE))
        for partition in partitions(world):
            assert wait_until(lambda one=partition: world.may_produce("alice", "orders", one), PATIENCE_S)  # type: ignore[misc]
            assert not world.may_produce("alice", "payments", partition)
            assert not world.may_produce("bob", "orders", partition)
        world.forget()
        for partition in partitions(world):
            assert wait_until(lambda one=partition: not world.may_produce("alice", "orders", one), PATIENCE_S)  # type: ignore[misc]


def test_a_group_is_read_with_both_of_its_acls(world: Secured) -> None:
    for partition in partitions(world):
        assert world.may_produce("admin", "receipts", partition)
    world.allow(binding("rec", READ, pattern=PREFIXED))

    def lacks_only_the_group() -> bool:
        error = world.read("alice", "receipts", "alice-app")
        return isinstance(error, KafkaError) and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED

    assert wait_until(lacks_only_the_group, PATIENCE_S)
    world.allow(binding("alice-", READ, kind=GROUP, pattern=PREFIXED))
    assert wait_until(lambda: world.read("alice", "receipts", "alice-app") == len(world.ports), 2 * PATIENCE_S)
    assert isinstance(world.read("bob", "receipts", "alice-other"), KafkaError)


def test_a_denial_is_stronger(world: Secured) -> None:
    """The two are of different patterns, so that a broker may hear of one before the other."""
    world.allow(binding("*", ALL))
    for partition in partitions(world):
        assert wait_until(lambda one=partition: world.may_produce("alice", "payments", one), PATIENCE_S)  # type: ignore[misc]
    world.allow(binding("pay", WRITE, pattern=PREFIXED, permission=DENY))
    for partition in partitions(world):
        assert wait_until(lambda one=partition: not world.may_produce("alice", "payments", one), PATIENCE_S)  # type: ignore[misc]
        assert world.may_produce("alice", "orders", partition)


def test_what_the_tool_writes_to_zookeeper_is_in_force(world: Secured) -> None:
    store = [
        "--authorizer", "kafka.security.authorizer.AclAuthorizer",
        "--authorizer-properties", f"zookeeper.connect={world.cluster.zookeeper.connect}",
    ]  # fmt: skip
    tools.run("acls", [*store, "--add", "--allow-principal", "User:alice", "--operation", "Write", "--topic", "orders"])
    for partition in partitions(world):
        assert wait_until(lambda one=partition: world.may_produce("alice", "orders", one), PATIENCE_S)  # type: ignore[misc]
    tools.run("acls", [*store, "--remove", "--force", "--topic", "orders"])
    for partition in partitions(world):
        assert wait_until(lambda one=partition: not world.may_produce("alice", "orders", one), PATIENCE_S)  # type: ignore[misc]


def test_denials_and_administration_are_in_the_audit_log(world: Secured) -> None:
    number, partition = 2, 1  # leads it
    world.allow(binding("payments", AclOperation.DESCRIBE, user="bob"))

    def lines() -> list[dict[str, str]]:
        return [json.loads(line) for line in world.audits[number].read_text(encoding="utf-8").splitlines()]

    def is_written() -> bool:
        """A produce reaches the leader once it knows the ACL."""
        assert not world.may_produce("bob", "payments", partition)
        denied = [line for line in lines() if line["event"] == "denied" and line["principal"] == "User:bob"]
        wanted = {"api": "Produce", "operation": "WRITE", "resource_type": "TOPIC", "resource": "payments"}
        wanted |= {"listener": "CLIENTS", "address": "127.0.0.1", "client_id": "rdkafka"}
        return any(wanted.items() <= line.items() for line in denied)

    assert wait_until(is_written, PATIENCE_S)
    written = [path.read_text(encoding="utf-8") for number, path in world.audits.items() if number != 1]
    assert any('"event":"action"' in text for text in written)
    assert not any("-secret" in text for text in written)
