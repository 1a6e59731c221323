"""The brokers of these tests have the newest feature levels: ours, and Apache Kafka 4.3.0, which shows that a test is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.interop.clients.java_clients import JavaClients
from tests.interop.conftest import BROKERS, need_java
from tests.interop.groups.members import (
    NEWEST_JAVA,
    AnyConsumer,
    FranzConsumer,
    Group,
    JavaConsumer,
    LibrdkafkaConsumer,
)
from tests.interop.groups.share_members import (
    EXPLICIT,
    AnyShareConsumer,
    JavaShareConsumer,
    LibrdkafkaShareConsumer,
)
from tests.oracle.barnabas import Barnabas
from tests.oracle.kraft import KraftKafka

QUICK_GROUPS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.assignment.interval.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "3000",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
}
NEWEST_LEVELS = {"barnabas.initial.features": "newest"}


@pytest.fixture(scope="session", params=[pytest.param(name, id=name) for name in BROKERS])
def newer(request: pytest.FixtureRequest) -> Iterator[str]:
    """`host:port` of the broker under test."""
    if request.param == "barnabas":
        with Barnabas({**QUICK_GROUPS, **NEWEST_LEVELS}) as ours:
            yield ours.bootstrap_servers
    else:
        need_java()
        with KraftKafka(QUICK_GROUPS) as reference:
            yield reference.bootstrap_servers


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    need_java()
    with JavaClients(NEWEST_JAVA, tmp_path_factory.mktemp("java") / "log") as clients:
        yield clients


@pytest.fixture(scope="session")
def share_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    need_java()
    with JavaClients(NEWEST_JAVA, tmp_path_factory.mktemp("java") / "share-log", "ShareClients") as clients:
        yield clients


ShareConsumerOf = Callable[..., AnyShareConsumer]
"""Of the client's name, `host:port` of a broker, the group, the topics, and settings of the client."""


@pytest.fixture
def share_consumer_of(request: pytest.FixtureRequest) -> ShareConsumerOf:
    """Makes share consumers that have subscribed; explicit acknowledgements unless `mode` says IMPLICIT."""

    def make(
        client: str, bootstrap: str, group: str, *topics: str, mode: str = EXPLICIT, **settings: Any
    ) -> AnyShareConsumer:
        if client == "Java":
            jvm = request.getfixturevalue("share_jvm")
            return JavaShareConsumer(jvm, bootstrap, group, topics, mode, **settings)
        assert client == "librdkafka"
        return LibrdkafkaShareConsumer(bootstrap, group, topics, mode, **settings)

    return make


GroupOf = Callable[[str, str, str, int], Group]
"""Of the group `g` that reads a topic: the client's name, `host:port` of a broker, the topic, how many partitions it has."""


@pytest.fixture
def group_of(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> GroupOf:
    """Makes groups without members. What the client needs is built or started when it is first asked for."""

    def make(client: str, bootstrap: str, topic: str, partitions: int) -> Group:
        name = fresh("g")
        consumer: Callable[[str], AnyConsumer]
        if client == "Java":
            consumer = partial(JavaConsumer, request.getfixturevalue("jvm"), bootstrap, name, topic)
        elif client == "franz-go":
            consumer = partial(FranzConsumer, request.getfixturevalue("tours"), bootstrap, name, topic)
        else:
            assert client == "librdkafka"
            consumer = partial(LibrdkafkaConsumer, bootstrap, name, topic)
        return Group(name, partitions, consumer)

    return make
