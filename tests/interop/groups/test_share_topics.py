"""Share groups while what they read changes: topics that grow, are deleted and made again, transactions, where a group begins,
fewer records than there are, a broker that is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.interop.conftest import BROKERS, need_java
from tests.interop.groups.conftest import NEWEST_LEVELS, QUICK_GROUPS, ShareConsumerOf
from tests.interop.groups.share_members import (
    ACCEPT,
    IMPLICIT,
    PATIENCE_S,
    RELEASE,
    create_topic,
    polled,
    set_group,
    take,
    values_of,
    write,
)
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kraft import KraftKafka

pytestmark = pytest.mark.interop

Fresh = Callable[[str], str]
CLIENT = "librdkafka"
QUICK_METADATA = {
    "Java": {"metadata.max.age.ms": 1000, "allow.auto.create.topics": "false"},
    "librdkafka": {"topic.metadata.refresh.interval.ms": 1000},
}
"""How soon a client sees that a topic has changed. It does not create what was deleted."""
EVERY_CLIENT = pytest.mark.parametrize("client", ["librdkafka", pytest.param("Java", marks=pytest.mark.long)])


@pytest.fixture
def group(newer: str, fresh: Fresh) -> str:
    """One that begins at the first record of a topic."""
    name = fresh("g")
    set_group(newer, name, auto_offset_reset="earliest")
    return name


@EVERY_CLIENT
def test_partitions_that_a_topic_gets_are_read(
    newer: str, fresh: Fresh, group: str, share_consumer_of: ShareConsumerOf, client: str
) -> None:
    topic = create_topic(newer, fresh("t"), 1)
    consumer = share_consumer_of(client, newer, group, topic, **QUICK_METADATA[client])
    write(newer, topic, ["first"])
    assert values_of(take(consumer)) == ["first"]
    admin = AdminClient({"bootstrap.servers": newer})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    for partition in range(3):
        write(newer, topic, [partition], partition)
    assert sorted(values_of(take(consumer, 3))) == ["0", "1", "2"]
    consumer.close()


@EVERY_CLIENT
def test_a_topic_that_is_made_again_is_read_from_its_start(
    newer: str, fresh: Fresh, group: str, share_consumer_of: ShareConsumerOf, client: str
) -> None:
    topic = create_topic(newer, fresh("t"), 1)
    consumer = share_consumer_of(client, newer, group, topic, **QUICK_METADATA[client])
    write(newer, topic, range(5))
    assert len(take(consumer, 5)) == 5
    consumer.commit()
    admin = AdminClient({"bootstrap.servers": newer})
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    consumer.poll()
    create_topic(newer, topic, 1)
    write(newer, topic, ["again"])
    (record,) = take(consumer)
    assert (record.value, record.offset, record.count) == ("again", 0, 1)
    consumer.close()


def test_what_a_transaction_aborted_is_not_given(
    newer: str, fresh: Fresh, group: str, share_consumer_of: ShareConsumerOf
) -> None:
    topic = create_topic(newer, fresh("t"), 1)
    set_group(newer, group, isolation_level="read_committed")
    producer = Producer({"bootstrap.servers": newer, "transactional.id": fresh("tx")})
    producer.init_transactions(PATIENCE_S)
    consumer = share_consumer_of(CLIENT, newer, group, topic)
    for number in range(6):
        producer.begin_transaction()
        for value in ("a", "b"):
            producer.produce(topic, f"{number}{value}", partition=0)
        producer.flush(PATIENCE_S)
        if number == 0:
            assert not consumer.poll(1000)  # the transaction is open
        if number % 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    assert values_of(take(consumer, 6)) == ["0a", "0b", "2a", "2b", "4a", "4b"]
    write(newer, topic, ["end"])
    assert values_of(take(consumer)) == ["end"]
    consumer.close()


@EVERY_CLIENT
def test_records_that_are_deleted_are_not_given(
    newer: str, fresh: Fresh, group: str, share_consumer_of: ShareConsumerOf, client: str
) -> None:
    """Also while a member holds some of them."""
    topic = create_topic(newer, fresh("t"), 1)
    admin = AdminClient({"bootstrap.servers": newer})
    write(newer, topic, range(10))
    delete_before(admin, topic, 3)
    consumer = share_consumer_of(client, newer, group, topic)
    held = polled(consumer)
    assert values_of(held) == [str(value) for value in range(3, 10)]
    delete_before(admin, topic, 6)
    consumer.acknowledge(held, RELEASE)
    assert consumer.commit() == {(topic, 0): None}
    again = take(consumer, 4)
    assert [(record.value, record.count) for record in again] == [(str(value), 2) for value in range(6, 10)]
    consumer.close()


def delete_before(admin: AdminClient, topic: str, offset: int) -> None:
    admin.delete_records([TopicPartition(topic, 0, offset)])[TopicPartition(topic, 0, offset)].result(PATIENCE_S)


def test_a_group_without_settings_begins_at_the_end(
    newer: str, fresh: Fresh, share_consumer_of: ShareConsumerOf
) -> None:
    topic, group = create_topic(newer, fresh("t"), 1), fresh("g")
    write(newer, topic, ["before"])
    consumer = share_consumer_of(CLIENT, newer, group, topic)
    seen: list[str] = []
    while not seen:  # until the group has its place
        write(newer, topic, ["after"])
        records = consumer.poll()
        consumer.acknowledge(records, ACCEPT)
        seen += values_of(records)
    assert set(seen) == {"after"}
    consumer.close()


@pytest.mark.oracle
def test_no_more_records_are_acquired_than_the_client_asks_for(
    newer: str, fresh: Fresh, group: str, share_consumer_of: ShareConsumerOf
) -> None:
    """One batch of records is shared by two members, each of which gets as many as it asks for (KIP-1206)."""
    topic = create_topic(newer, fresh("t"), 1)
    write(newer, topic, range(10))
    limits = {"share.acquire.mode": "record_limit", "max.poll.records": 3}
    first, second = (share_consumer_of("Java", newer, group, topic, **limits) for _ in range(2))
    assert values_of(polled(first)) == ["0", "1", "2"]
    others = polled(second)
    assert values_of(others) == ["3", "4", "5"]
    first.close()
    second.acknowledge(others, ACCEPT)
    assert values_of(take(second)) == ["0", "1", "2"]
    second.close()


@pytest.fixture(params=[pytest.param(name, id=name) for name in BROKERS])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """One that a test may kill."""
    one: Broker
    if request.param == "barnabas":
        one = Barnabas({**QUICK_GROUPS, **NEWEST_LEVELS})
    else:
        need_java()
        one = KraftKafka(QUICK_GROUPS)
    with one:
        yield one


@pytest.mark.long
@EVERY_CLIENT
def test_a_broker_that_is_killed_knows_what_was_accepted(
    broker: Broker, fresh: Fresh, share_consumer_of: ShareConsumerOf, client: str
) -> None:
    servers = broker.bootstrap_servers
    topic, group = create_topic(servers, fresh("t"), 1), fresh("g")
    set_group(servers, group, auto_offset_reset="earliest")
    write(servers, topic, range(10))
    consumer = share_consumer_of(client, servers, group, topic)
    records = polled(consumer)
    assert len(records) == 10
    consumer.acknowledge(records[:3] + records[6:8], ACCEPT)
    consumer.acknowledge(records[5:6], RELEASE)
    assert consumer.commit() == {(topic, 0): None}
    broker.kill()
    broker.start()
    other = share_consumer_of(client, servers, group, topic)
    again = take(other, 5)
    assert [(record.value, record.count) for record in again] == [("3", 1), ("4", 1), ("5", 2), ("8", 1), ("9", 1)]
    assert other.commit() == {(topic, 0): None}
    other.close()
    consumer.acknowledge(records[3:5] + records[8:], ACCEPT)
    consumer.close()
    write(servers, topic, ["end"])
    last = share_consumer_of(client, servers, group, topic, mode=IMPLICIT)
    assert values_of(polled(last)) == ["end"]
    last.close()
