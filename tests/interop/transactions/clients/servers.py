"""The brokers that the tests of transactions are run against: one of ours without feature levels and one with the newest, three
of ours, and Apache Kafka 3.9.1, which shows that the tests are right.

INTEROP_BROKERS chooses among barnabas, which stands for both, barnabas-cluster, kafka and kafka-cluster.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.conftest import need_java
from tests.interop.retried_requests import answered, end_of
from tests.oracle.barnabas import Barnabas
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.kafka import ApacheKafka
from tests.oracle.process import wait_until

NEWEST = "barnabas-newest"
_CHOSEN = os.environ.get("INTEROP_BROKERS", "barnabas,barnabas-cluster,kafka").split(",")
SERVERS = [name for each in _CHOSEN for name in ((each, NEWEST) if each == "barnabas" else (each,))]
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200", "auto.create.topics.enable": "false"}
PATIENCE_S = 60.0


@contextmanager
def server(name: str, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """`host:port` of the broker, or of all brokers of the cluster. `more` is added to the settings."""
    settings = {**SETTINGS, **(more or {})}
    if name in ("barnabas", NEWEST):
        with Barnabas(settings | ({"barnabas.initial.features": "newest"} if name == NEWEST else {})) as ours:
            yield ours.bootstrap_servers
    elif name == "kafka":
        need_java()
        with ApacheKafka(settings) as reference:
            yield reference.bootstrap_servers
    else:
        need_java()
        kind = {"barnabas-cluster": OURS, "kafka-cluster": KAFKA}[name]
        with Cluster([kind] * 3, settings=settings) as cluster:
            yield cluster.bootstrap_servers


class Servers:
    """What starts servers by name. Each is started when it is first needed, and serves all that come after."""

    def __init__(self, stack: ExitStack, settings: Mapping[str, str]) -> None:
        self._stack = stack
        self._settings = settings
        self._started: dict[str, str] = {}

    def bootstrap(self, name: str) -> str:
        if name not in self._started:
            self._started[name] = self._stack.enter_context(server(name, self._settings))
        return self._started[name]


@contextmanager
def all_servers(settings: Mapping[str, str] | None = None) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack, settings or {})


@dataclass(frozen=True)
class Topic:
    """A new topic and what is asked about it."""

    bootstrap: str
    name: str

    def wait_until_ends_at(self, *offsets: int) -> None:
        """Until the markers are there, too: a coordinator answers before they are written."""
        for partition, offset in enumerate(offsets):
            assert wait_until(lambda p=partition, o=offset: end_of(self.bootstrap, self.name, p) >= o, PATIENCE_S), (  # type: ignore[misc]
                f"{self.name}-{partition} ends at {end_of(self.bootstrap, self.name, partition)}, not at {offset}"
            )

    def committed(self, group: str, partition: int = 0) -> int:
        """The committed offset of a group, once no transaction that commits one is open; -1001 when there is none."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(self.name, partition)])

        def ask() -> int:
            answer = admin.list_consumer_group_offsets([asked], require_stable=True)[group].result(PATIENCE_S)
            (place,) = answer.topic_partitions
            if place.error is not None:
                raise KafkaException(place.error)
            return int(place.offset)

        return answered(ask)


def created(bootstrap: str, partitions: int = 1) -> Topic:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, -1)])[name].result(PATIENCE_S)
    assert wait_until(lambda: _is_led(admin, name, partitions), PATIENCE_S), f"{name} has no leaders"
    return Topic(bootstrap, name)


def _is_led(admin: AdminClient, name: str, partitions: int) -> bool:
    found = admin.list_topics(name, PATIENCE_S).topics[name].partitions
    return len(found) == partitions and all(one.leader >= 0 for one in found.values())
