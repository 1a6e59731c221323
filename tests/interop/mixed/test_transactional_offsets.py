"""Offsets of transactions in a cluster with Apache Kafka 3.9.1, whose coordinators of transaction and group are of either kind.

The group's coordinator has the transaction verified by the other one, and gets its marker from it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.errors import ErrorCode
from tests.interop.conftest import need_java
from tests.interop.transactions.offsets_producer import (
    PARTITIONS,
    TOPIC,
    UNSTABLE,
    OffsetsProducer,
    coordinator_id,
    stable_offsets,
    wait_for,
)
from tests.oracle.admin import ask
from tests.oracle.cluster import KAFKA, OURS, Cluster

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

IDS = {KAFKA: 1, OURS: 2}
SETTINGS = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "zookeeper.session.timeout.ms": "30000",  # nobody leaves here
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_java()
    with Cluster((), settings=SETTINGS) as made:
        for kind, broker_id in IDS.items():
            made.add(broker_id, kind).start()
        made.wait_until_known()
        admin = AdminClient({"bootstrap.servers": made.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
        yield made


def name_coordinated_by(cluster: Cluster, kind: str, prefix: str, *, is_group: bool) -> str:
    for number in range(1000):
        name = f"{prefix}-{number}"
        if coordinator_id(cluster.brokers[IDS[KAFKA]], name, is_group=is_group) == IDS[kind]:
            return name
    raise AssertionError(f"no {prefix} is coordinated by {kind}")


@pytest.mark.parametrize(("of_transaction", "of_group"), [(OURS, KAFKA), (KAFKA, OURS), (OURS, OURS)])
def test_offsets_are_verified_pending_and_visible(cluster: Cluster, of_transaction: str, of_group: str) -> None:
    names = f"{of_transaction}-{of_group}"
    group = name_coordinated_by(cluster, of_group, f"group-{names}", is_group=True)
    transactional_id = name_coordinated_by(cluster, of_transaction, f"tx-{names}", is_group=False)
    coordinator, group_coordinator = cluster.brokers[IDS[of_transaction]], cluster.brokers[IDS[of_group]]
    producer = OffsetsProducer(group, transactional_id)
    producer.start(coordinator)

    refused = ask(group_coordinator, producer.committing(1))
    assert refused.topics[0].partitions[0].error_code == ErrorCode.TRANSACTION_ABORTABLE
    producer.add_group(coordinator)
    producer.commit(group_coordinator, 5, 6)
    assert stable_offsets(group_coordinator, group) == [UNSTABLE, UNSTABLE, -1, -1]
    producer.end(coordinator, committed=True)
    wait_for(group_coordinator, group, [5, 6, -1, -1])

    producer.add_group(coordinator)
    producer.commit(group_coordinator, 7, 8, partition=1)
    producer.end(coordinator, committed=False)
    wait_for(group_coordinator, group, [5, 6, -1, -1])

    zombie = OffsetsProducer(group, transactional_id, producer.producer_id, producer.epoch)
    producer.start(coordinator)
    fenced = ask(group_coordinator, zombie.committing(9))
    assert fenced.topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    producer.add_group(coordinator)
    producer.commit(group_coordinator, 10)
    producer.end(coordinator, committed=True)
    wait_for(group_coordinator, group, [10, 6, -1, -1])
