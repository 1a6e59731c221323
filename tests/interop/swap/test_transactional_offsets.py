"""Offsets of open, committed and aborted transactions when the data directory moves between Apache Kafka and this broker.

The broker that takes over has the same committed offsets and the same unstable ones, and it ends the open transaction.
"""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.swap.moved_directories import MovedDirectories, complaints_about_storage
from tests.interop.transactions.offsets_producer import (
    PARTITIONS,
    TOPIC,
    UNSTABLE,
    OffsetsProducer,
    coordinator_id,
    stable_offsets,
    wait_for,
)
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(400)]

GROUP = "copiers"


@pytest.mark.parametrize("end", ["stop", pytest.param("throw out", marks=pytest.mark.long)])
@pytest.mark.parametrize(("first", "second"), [(KafkaServer, Barnabas), (Barnabas, KafkaServer)])
def test_transactional_offsets_move_along(
    moved: MovedDirectories, first: type[Broker], second: type[Broker], end: str
) -> None:
    def leave() -> None:
        if end == "stop":
            moved.stop("stop")
        else:
            moved.kill()

    broker = moved.start(first)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
    closed, open_one = OffsetsProducer(GROUP, "closed"), OffsetsProducer(GROUP, "open")
    coordinator_id(broker, GROUP, is_group=True)
    for producer in (closed, open_one):
        coordinator_id(broker, producer.transactional_id, is_group=False)
        producer.start(broker)
    closed.add_group(broker)
    closed.commit(broker, 1, 2)
    closed.end(broker, committed=True)
    wait_for(broker, GROUP, [1, 2, -1, -1])
    closed.add_group(broker)
    closed.commit(broker, 5, 6)
    closed.end(broker, committed=False)
    wait_for(broker, GROUP, [1, 2, -1, -1])
    open_one.add_group(broker)
    open_one.commit(broker, 7, 8, partition=1)
    assert stable_offsets(broker, GROUP) == [1, UNSTABLE, UNSTABLE, -1]
    leave()

    broker = moved.start(second)
    wait_for(broker, GROUP, [1, UNSTABLE, UNSTABLE, -1])
    open_one.add_group(broker)
    open_one.commit(broker, 9, partition=3)
    assert stable_offsets(broker, GROUP) == [1, UNSTABLE, UNSTABLE, UNSTABLE]
    open_one.end(broker, committed=True)
    wait_for(broker, GROUP, [1, 7, 8, 9])
    open_one.add_group(broker)
    open_one.commit(broker, 10)
    if end == "stop":
        assert not complaints_about_storage(broker)
    leave()

    broker = moved.start(first)
    wait_for(broker, GROUP, [UNSTABLE, 7, 8, 9])
    open_one.end(broker, committed=False)
    wait_for(broker, GROUP, [1, 7, 8, 9])
    moved.stop("stop")
