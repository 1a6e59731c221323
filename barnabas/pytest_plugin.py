"""The pytest plugin: `kafka_broker`, one broker for the whole run, and `kafka_cluster`, three of them.

    def test_orders(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})

Started when the first test asks for it. Tests keep apart by naming topics and groups of their own; a project that wants
other settings overrides the fixture `kafka_broker_settings` in its conftest. What a test did to brokers (`kill`, `pause`,
`inject` and so on) is undone after it. With pytest-xdist each process of it has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from barnabas.embedded import EmbeddedBroker

CLUSTER_BROKERS = 3
_FIXTURES = ("kafka_broker", "kafka_cluster")


@pytest.fixture(scope="session")
def kafka_broker_settings() -> Mapping[str, object]:
    """Broker settings for `kafka_broker` and `kafka_cluster`, by their Kafka names: override this fixture to set some."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_broker_settings: Mapping[str, object]) -> Iterator[EmbeddedBroker]:
    """A Kafka broker for the whole run; `kafka_broker.bootstrap_servers` is its address.

    It is started by the first test that asks for it, on a free port, with the settings of `kafka_broker_settings`; topics are
    created by their first use. It is ended, and its data is deleted, after the last test. Tests share it: they name topics and
    groups of their own. After each test it runs, and no injected fault is left.
    """
    with EmbeddedBroker(settings=kafka_broker_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_cluster(kafka_broker_settings: Mapping[str, object]) -> Iterator[EmbeddedBroker]:
    """Three Kafka brokers for the whole run; `kafka_cluster.bootstrap_servers` are their addresses.

    As `kafka_broker`; topics have three replicas, and their records must be on two. A test may kill, pause and restart brokers:
    after each test all of them run, and no injected fault is left.
    """
    with EmbeddedBroker(settings=kafka_broker_settings, brokers=CLUSTER_BROKERS) as cluster:
        yield cluster


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Undo what a test did to the brokers that others share."""
    used: Mapping[str, object] = getattr(item, "funcargs", None) or {}
    for name in _FIXTURES:
        broker = used.get(name)
        if isinstance(broker, EmbeddedBroker) and broker.is_running:
            broker.restore()
