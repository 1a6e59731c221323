"""A cluster of ours that has used everything which feature levels open is one of Apache Kafka 3.9.1 again once they are
0: it joins it, and serves its directories. While a level is above 0 it ends at its start."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.commands import main
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.interop.conftest import need_java
from tests.oracle.admin import ask
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.kafka import KafkaServer
from tests.oracle.process import StartError
from tests.oracle.zookeeper import SMALL

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

TOPIC, GROUP, TRANSACTIONAL_ID = "orders", "billing", "writer"
PARTITIONS, RECORDS = 2, 200
NEWCOMER = 3
TWO_REPLICAS = {
    "default.replication.factor": "2",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}
PATIENCE_S = 60.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    need_java()
    with Cluster((OURS, OURS), settings=TWO_REPLICAS) as made:
        yield made


def test_apache_kafka_serves_what_has_used_every_level_and_is_at_0_again(cluster: Cluster) -> None:
    features(cluster, "upgrade", "group.version=1", "transaction.version=2", "share.version=1", "--execute")
    use(cluster)

    cluster.add(NEWCOMER, KAFKA)
    with pytest.raises(StartError):
        cluster.brokers[NEWCOMER].start()
    assert "feature" in cluster.brokers[NEWCOMER].log.read_text(encoding="utf-8").lower()
    assert NEWCOMER not in cluster.registered()

    features(cluster, "disable", "--all", "--execute")
    assert cluster.read("/feature") == {"features": {}, "version": 2, "status": 1}
    cluster.add(NEWCOMER, KAFKA).start()
    cluster.wait_until_known()
    for number in (1, 2):
        give_to_apache(cluster, number)
    cluster.wait_in_sync()
    assert {broker.kind for broker in cluster.brokers.values()} == {KAFKA}
    serves_what_was_written(cluster)
    for broker in cluster.brokers.values():
        log = broker.log.read_text(encoding="utf-8")
        assert [line for line in log.splitlines() if "] ERROR " in line and "(state.change.logger)" not in line] == []


def features(cluster: Cluster, *words: str) -> None:
    assert main(["features", *words, "--bootstrap-server", cluster.bootstrap_servers]) == 0


def use(cluster: Cluster) -> None:
    """Records, transactions of the second version, a consumer group with settings of its own."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 2)])[TOPIC].result(PATIENCE_S)
    setting = AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="50000")
    resource = AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=[setting])
    altered = ask(cluster.brokers[1], IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert altered.responses[0].error_code == 0
    transact(cluster, "before", is_committed=True)
    transact(cluster, "aborted", is_committed=False)
    members = [consumer(cluster, **{"group.protocol": "consumer", "group.remote.assignor": "range"}) for _ in range(2)]
    try:
        # The first member reads what the second one reads again: nothing is committed when partitions move.
        assert sorted(set(drain(members, RECORDS))) == wanted("before")
        for member in members:
            member.commit(asynchronous=False)
    finally:
        for member in members:
            member.close()


def transact(cluster: Cluster, name: str, *, is_committed: bool) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": TRANSACTIONAL_ID})
    producer.init_transactions(PATIENCE_S)
    for first in range(0, RECORDS, 50):
        producer.begin_transaction()
        for number in range(first, first + 50):
            producer.produce(TOPIC, f"{name} {number:03}".encode(), partition=number % PARTITIONS)
        if is_committed:
            producer.commit_transaction(PATIENCE_S)
        else:
            assert producer.flush(PATIENCE_S) == 0
            producer.abort_transaction(PATIENCE_S)


def give_to_apache(cluster: Cluster, number: int) -> None:
    """A broker of Apache Kafka takes the place of a stopped one of ours, with its directory."""
    ours = cluster.brokers[number]
    ours.stop()
    folder = cluster.folder / f"broker-{number}-taken"
    folder.mkdir()
    taken = KafkaServer(
        cluster.zookeeper.connect, broker_id=number, port=ours.port, settings=ours.settings, folder=folder, options=SMALL,
    )  # fmt: skip
    taken.data = ours.data
    cluster.brokers[number] = taken
    taken.start()
    cluster.wait_until_known()


def serves_what_was_written(cluster: Cluster) -> None:
    """The group goes on where it was, with the classic protocol; so does the transactional id."""
    transact(cluster, "after", is_committed=True)
    member = consumer(cluster)
    try:
        assert sorted(drain([member], RECORDS)) == wanted("after"), "what was committed is read once"
    finally:
        member.close()
    reader = consumer(cluster, **{"group.id": "another"})
    try:
        assert sorted(drain([reader], 2 * RECORDS)) == sorted(wanted("before") + wanted("after"))
    finally:
        reader.close()


def consumer(cluster: Cluster, **settings: str) -> Consumer:
    made = Consumer({
        "bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "isolation.level": "read_committed", **settings,
    })  # fmt: skip
    made.subscribe([TOPIC])
    return made


def drain(members: list[Consumer], count: int) -> list[str]:
    """Read until that many different records are there, and a moment longer: no more may come."""
    read: list[str] = []
    until = time.monotonic() + PATIENCE_S
    quiet = 0
    while quiet < 10 and time.monotonic() < until:
        for member in members:
            message = member.poll(0.2)
            if message is not None and message.error() is None:
                read.append(text_of(message))
        quiet = quiet + 1 if len(set(read)) >= count else 0
    return read


def text_of(message: Message) -> str:
    value = message.value()
    assert isinstance(value, bytes)
    return value.decode()


def wanted(name: str) -> list[str]:
    return [f"{name} {number:03}" for number in range(RECORDS)]
