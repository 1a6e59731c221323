"""The clusters a flow in the browser runs over: embedded brokers, and, where Java is, as many of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.embedded import EmbeddedBroker
from tests.interop.conftest import need_java
from tests.oracle.cluster import KAFKA, Cluster

LIMIT_S = 30


@contextmanager
def embedded(topics: Mapping[str, int], settings: Mapping[str, str], brokers: int = 1) -> Iterator[str]:
    """Brokers with these topics, each replicated to all of them; their addresses."""
    with EmbeddedBroker(topics, settings, brokers=brokers) as broker:
        yield broker.bootstrap_servers


@contextmanager
def apache_kafka(topics: Mapping[str, int], settings: Mapping[str, str], brokers: int = 1) -> Iterator[str]:
    """The same of Apache Kafka."""
    need_java()
    replicas = {
        "default.replication.factor": str(brokers),
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.replication.factor": str(brokers),
    }
    cluster = Cluster((), settings={**settings, **replicas})
    for number in range(brokers):
        cluster.add(number, KAFKA)
    with cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        wanted = [NewTopic(name, count, brokers) for name, count in topics.items()]
        for future in admin.create_topics(wanted).values():
            future.result(LIMIT_S)
        yield cluster.bootstrap_servers


BOTH_KINDS = [
    embedded,
    pytest.param(apache_kafka, marks=[pytest.mark.long, pytest.mark.oracle, pytest.mark.interop]),
]
