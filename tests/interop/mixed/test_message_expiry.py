"""A topic with `barnabas.message.ttl.ms` beside Apache Kafka 3.9.1: as controller, follower and leader, and in our directory.

Brokers of Apache Kafka do not know the setting: they serve the topic as any other, take over where its records begin, and
refuse to alter it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.interop.cluster.cluster_load import QUICK
from tests.interop.conftest import need_java
from tests.oracle.admin import Admin, ask
from tests.oracle.broker import Broker
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

KAFKA_ID, OURS_ID = 1, 2
TTL, TTL_MS = "barnabas.message.ttl.ms", "2000"
TOPIC, SET = 2, 0
TIMEOUT_S = 60
HOUR_MS = 3_600_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Apache Kafka controls, since it was first."""
    need_java()
    factors = ("default.replication.factor", "offsets.topic.replication.factor", "min.insync.replicas")
    with Cluster((), settings=dict.fromkeys(factors, "1")) as made:
        made.add(KAFKA_ID, KAFKA).start()
        made.add(OURS_ID, OURS).start()
        made.wait_until_known()
        assert made.controller_id == KAFKA_ID
        yield made


def alter(broker: Broker, topic: str, name: str, value: str) -> tuple[ErrorCode, str | None]:
    row = AlterableConfig(name=name, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[row])
    answer = ask(broker, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    return ErrorCode(answer.responses[0].error_code), answer.responses[0].error_message


def produce(cluster: Cluster, topic: str, count: int, *, age_ms: int) -> None:
    producer = Producer({**QUICK, "bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=int(time.time() * 1000) - age_ms)
    assert producer.flush(TIMEOUT_S) == 0


def begins_at(admin: Admin, topic: str, offset: int) -> bool:
    return wait_until(lambda: admin.start_offset(topic, 0) == offset, TIMEOUT_S)


def is_checkpointed(folder: Path, line: str) -> bool:
    checkpoint = folder / "log-start-offset-checkpoint"
    return wait_until(lambda: checkpoint.exists() and line in checkpoint.read_text().splitlines(), 90)


def test_records_expire_while_a_broker_of_ours_leads(cluster: Cluster) -> None:
    admin, kafka, ours = Admin(cluster), cluster.brokers[KAFKA_ID], cluster.brokers[OURS_ID]
    admin.create("offers", {0: [OURS_ID, KAFKA_ID]})
    assert alter(kafka, "offers", TTL, TTL_MS) == (ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {TTL}")
    assert alter(ours, "offers", TTL, TTL_MS) == (ErrorCode.NONE, None)

    produce(cluster, "offers", 50, age_ms=0)
    assert begins_at(admin, "offers", 50)
    assert is_checkpointed(kafka.data, "offers 0 50"), "the follower has heard of it"

    kafka.stop()
    kafka.start()
    cluster.wait_until_known()
    cluster.wait_in_sync("offers")
    admin.move_leader("offers", KAFKA_ID)
    assert admin.start_offset("offers", 0) == 50
    produce(cluster, "offers", 10, age_ms=HOUR_MS)
    assert admin.start_offset("offers", 0) == 50, "Apache Kafka keeps them"
    error, message = alter(kafka, "offers", "retention.ms", "-1")
    assert (error, TTL in (message or "")) == (ErrorCode.INVALID_CONFIG, True)
    assert alter(ours, "offers", "retention.ms", "-1") == (ErrorCode.NONE, None)

    admin.move_leader("offers", OURS_ID)
    assert begins_at(admin, "offers", 60)
    admin.delete("offers")


def test_apache_kafka_serves_a_directory_whose_records_have_expired(cluster: Cluster) -> None:
    admin, ours = Admin(cluster), cluster.brokers[OURS_ID]
    admin.create("offers", {0: [OURS_ID]})
    assert alter(ours, "offers", TTL, TTL_MS) == (ErrorCode.NONE, None)
    produce(cluster, "offers", 20, age_ms=HOUR_MS)
    assert begins_at(admin, "offers", 20)
    ours.stop()

    heir = cluster.add(OURS_ID, KAFKA, {"log.dirs": str(ours.data)})
    heir.start()
    cluster.wait_until_known()
    produce(cluster, "offers", 5, age_ms=HOUR_MS)  # it leads when this is acknowledged
    assert admin.start_offset("offers", 0) == 20
    heir.stop()

    again = cluster.add(OURS_ID, OURS, {"log.dirs": str(ours.data)})
    again.start()
    cluster.wait_until_known()
    produce(cluster, "offers", 5, age_ms=HOUR_MS)
    assert begins_at(admin, "offers", 30)
