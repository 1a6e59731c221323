"""The pytest plugin: `kafka_broker`, one broker for the whole run.

    def test_orders(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})

Started when the first test asks for it. Tests keep apart by naming topics and groups of their own; a project that wants
other settings overrides the fixture `kafka_broker_settings` in its conftest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from barnabas.embedded import EmbeddedBroker


@pytest.fixture(scope="session")
def kafka_broker_settings() -> Mapping[str, object]:
    """Broker settings for `kafka_broker`, by their Kafka names: override this fixture to set some."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker(kafka_broker_settings: Mapping[str, object]) -> Iterator[EmbeddedBroker]:
    """A Kafka broker for the whole run; `kafka_broker.bootstrap_servers` is its address.

    It is started by the first test that asks for it, on a free port, with the settings of `kafka_broker_settings`; topics are
    created by their first use. It is ended, and its data is deleted, after the last test. Tests share it: they name topics and
    groups of their own.
    """
    with EmbeddedBroker(settings=kafka_broker_settings) as broker:
        yield broker
