"""Share consumers of real clients that log in with passwords, with and without the right to the group and the topic. The errors
are those that Apache Kafka 4.3.0 with the same rights gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from barnabas.embedded import EmbeddedBroker
from tests.interop.clients.java_clients import JavaError
from tests.interop.groups.conftest import NEWEST_LEVELS, QUICK_GROUPS, ShareConsumerOf
from tests.interop.groups.share_members import PATIENCE_S, AnyShareConsumer, error_name, values_of
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.oracle, pytest.mark.long]

ACLS = [
    "alice read topic orders",
    "alice read group g",
    "bob read group g",
    "carol read topic orders",
    "dave describe topic orders",
    "dave read group g",
]
OUTCOMES = {
    "alice": "record",
    "bob": "TOPIC_AUTHORIZATION",
    "carol": "GROUP_AUTHORIZATION",
    "dave": "TOPIC_AUTHORIZATION",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(["orders"], {**QUICK_GROUPS, **NEWEST_LEVELS}, acls=ACLS) as running:
        yield running


def first_outcome(consumer: AnyShareConsumer, write: Callable[[], None]) -> str:
    """What the first poll gives that gives something: "record", or the name of an error."""
    found: list[str] = []

    def is_something() -> bool:
        write()
        try:
            found.extend(values_of(consumer.poll()))
        except KafkaException as error:
            found.append(error.args[0].name().removesuffix("_FAILED"))
        except JavaError as error:
            found.append(error_name(error.kind) or "")
        return bool(found)

    assert wait_until(is_something, PATIENCE_S), "nothing happened"
    return found[0]


@pytest.mark.parametrize("client", ["librdkafka", "Java"])
@pytest.mark.parametrize("user", OUTCOMES)
def test_each_user_has_what_it_may_have(
    broker: EmbeddedBroker, share_consumer_of: ShareConsumerOf, client: str, user: str
) -> None:
    producer = Producer(broker.client_settings())

    def write() -> None:
        producer.produce("orders", "record")
        assert producer.flush(PATIENCE_S) == 0

    settings = (
        broker.client_settings(user) if client == "librdkafka" else broker.security.java_settings(user, in_line=True)
    )
    consumer = share_consumer_of(client, broker.bootstrap_servers, "g", "orders", **settings)
    assert first_outcome(consumer, write) == OUTCOMES[user]
    if user == "alice":
        consumer.close()
