"""Transactions of every client library: commit, abort, fencing, timeouts, isolation, offsets in a transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.interop.retried_requests import end_of
from tests.interop.transactions.clients.clients import CLIENTS, NEWER_JAVA, OLDER_JAVA, pairs
from tests.interop.transactions.clients.interface import Client, FencedError, Member, Producer, Record
from tests.interop.transactions.clients.servers import NEWEST, PATIENCE_S, created
from tests.oracle.process import wait_until

SOME = ("confluent-kafka", f"Java {OLDER_JAVA}")
PAIRS = pairs(CLIENTS, {"barnabas": CLIENTS, NEWEST: (f"Java {NEWER_JAVA}",), "barnabas-cluster": SOME})

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.parametrize(("server_name", "client_name"), PAIRS)]

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


@pytest.fixture
def produce(client: Client) -> Iterator[Callable[..., Producer]]:
    """Makes producers of the client, which are closed in the end."""
    made: list[Producer] = []

    def make(transactional_id: str, timeout_ms: int = 60_000) -> Producer:
        made.append(client.producer(transactional_id, timeout_ms))
        made[-1].init()
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def join(client: Client) -> Iterator[Callable[[str, str], Member]]:
    """Makes members of groups, which are closed in the end."""
    made: list[Member] = []

    def make(group: str, topic: str) -> Member:
        made.append(client.member(group, topic))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def name() -> str:
    """A transactional id or group that no other test uses."""
    return f"n-{uuid.uuid4().hex[:8]}"


Produce = Callable[..., Producer]
Join = Callable[[str, str], Member]


def test_only_what_is_committed_is_seen(client: Client, bootstrap: str, name: str, produce: Produce) -> None:
    topic = created(bootstrap, 2)
    committed: list[list[str]] = [[], []]
    everything: list[list[str]] = [[], []]
    producer = produce(name)
    for turn in range(6):
        producer.begin()
        for partition in range(2):
            values = [f"{turn}-{partition}-{number}" for number in range(3)]
            producer.send(topic.name, partition, *values)
            everything[partition] += values
            if turn % 3:
                committed[partition] += values
        producer.commit() if turn % 3 else producer.abort()
    topic.wait_until_ends_at(24, 24)
    assert client.read(topic.name, COMMITTED) == committed
    assert client.read(topic.name, UNCOMMITTED) == everything


def test_an_open_transaction_hides_itself_and_what_follows(
    client: Client, bootstrap: str, name: str, produce: Produce
) -> None:
    topic = created(bootstrap)
    first, second = produce(name), produce(f"{name}-other")
    first.begin()
    first.send(topic.name, 0, "open")
    second.begin()
    second.send(topic.name, 0, "behind it")
    second.commit()
    topic.wait_until_ends_at(3)
    assert client.read(topic.name, COMMITTED) == [[]]
    assert client.read(topic.name, UNCOMMITTED) == [["open", "behind it"]]
    first.commit()
    topic.wait_until_ends_at(4)
    assert client.read(topic.name, COMMITTED) == [["open", "behind it"]]


def test_an_older_producer_is_fenced(client: Client, bootstrap: str, name: str, produce: Produce) -> None:
    """By one of the same id, which also has its transaction aborted."""
    topic = created(bootstrap)
    older = produce(name)
    older.begin()
    older.send(topic.name, 0, "of the older")
    newer = produce(name)
    newer.begin()
    newer.send(topic.name, 0, "of the newer")
    with pytest.raises(FencedError):
        older.commit()
    newer.commit()
    topic.wait_until_ends_at(4)
    assert client.read(topic.name, COMMITTED) == [["of the newer"]]


def test_an_older_producer_cannot_send(client: Client, bootstrap: str, name: str, produce: Produce) -> None:
    topic = created(bootstrap, 2)
    older = produce(name)
    older.begin()
    older.send(topic.name, 0, "first")
    older.commit()
    older.begin()
    newer = produce(name)
    with pytest.raises(FencedError):
        send_and_commit(older, topic.name, 1, "of the older")
    newer.begin()
    newer.send(topic.name, 1, "of the newer")
    newer.commit()
    topic.wait_until_ends_at(2, 2)
    assert client.read(topic.name, UNCOMMITTED) == [["first"], ["of the newer"]]


def test_a_transaction_that_takes_too_long_is_aborted(
    client: Client, bootstrap: str, name: str, produce: Produce
) -> None:
    topic = created(bootstrap)
    slow = produce(name, timeout_ms=5000)  # its records are there before that on a busy machine, too
    slow.begin()
    slow.send(topic.name, 0, "too late")
    assert wait_until(lambda: end_of(bootstrap, topic.name) == 2, PATIENCE_S), "no marker came"
    with pytest.raises(FencedError):
        slow.commit()
    again = produce(name)
    again.begin()
    again.send(topic.name, 0, "in time")
    again.commit()
    topic.wait_until_ends_at(4)
    assert client.read(topic.name, COMMITTED) == [["in time"]]


def test_offsets_are_a_part_of_the_transaction(
    client: Client, bootstrap: str, name: str, produce: Produce, join: Join
) -> None:
    source, target = created(bootstrap), created(bootstrap)
    values = [f"value {number}" for number in range(60)]
    feeder = produce(f"{name}-feeds")
    feeder.begin()
    feeder.send(source.name, 0, *values)
    feeder.commit()
    source.wait_until_ends_at(61)
    member, producer = join(name, source.name), produce(name)
    read = 0
    for aborts in (False, True, False):
        records = polled(member)
        assert [each.offset for each in records] == list(range(read, read + len(records)))
        producer.begin()
        producer.send(target.name, 0, *(each.value.upper() for each in records))
        producer.send_offsets({(source.name, 0): records[-1].offset + 1}, member)
        if aborts:
            producer.abort()
            assert source.committed(name) == read
            member.rewind()
        else:
            producer.commit()
            read += len(records)
            assert source.committed(name) == read
    member.close()
    successor = join(name, source.name)
    assert polled(successor)[0].offset == read
    target.wait_until_ends_at(read)
    assert client.read(target.name, COMMITTED) == [[each.upper() for each in values[:read]]]


def send_and_commit(producer: Producer, topic: str, partition: int, value: str) -> None:
    """Some libraries tell of an error of the first when the second is asked."""
    producer.send(topic, partition, value)
    producer.commit()


def polled(member: Member) -> list[Record]:
    records: list[Record] = []

    def is_read() -> bool:
        records.extend(member.poll())
        return bool(records)

    assert wait_until(is_read, PATIENCE_S), "nothing to read"
    return records
