"""Consume, process, produce: what the members of a group read, they write with their offsets in one transaction.

Members join, leave and hang meanwhile; in the end every record has been processed exactly once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.interop.transactions.clients.clients import GROUP_CLIENTS, JAVA_CLIENTS, pairs
from tests.interop.transactions.clients.interface import Client
from tests.interop.transactions.clients.processing import PARTITIONS, PATIENCE_S, Feed, Worker, assert_processed_once
from tests.interop.transactions.clients.servers import NEWEST, Topic, created
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop]


@pytest.fixture
def feed(client: Client, source: Topic) -> Iterator[Feed]:
    made = Feed(client, source)
    yield made
    made.close()


@pytest.fixture
def source(bootstrap: str) -> Topic:
    return created(bootstrap, PARTITIONS)


@pytest.fixture
def target(bootstrap: str) -> Topic:
    return created(bootstrap, PARTITIONS)


@pytest.mark.parametrize(
    ("server_name", "client_name"),
    pairs(GROUP_CLIENTS, {"barnabas": GROUP_CLIENTS, "barnabas-cluster": GROUP_CLIENTS[:1]}),
)
def test_members_join_and_leave(client: Client, feed: Feed, source: Topic, target: Topic) -> None:
    group = f"g-{source.name}"
    first, second, third = (Worker(client, group, source, target) for _ in range(3))
    with first:
        feed.write(40)
        feed.wait_until_processed(first)
        with second:
            feed.write_until(lambda: bool(second.processed or second.has_ended))
            feed.wait_until_processed(first, second)
            feed.write(40)
            first.leave()
            with third:
                feed.write_until(lambda: bool(third.processed or third.has_ended))
                feed.write(40)
                second.leave()
                feed.wait_until_processed(first, second, third)
    assert_processed_once(client, feed, target)


@pytest.mark.parametrize(
    ("server_name", "client_name"),
    pairs(
        ("confluent-kafka", *JAVA_CLIENTS),
        {"barnabas": JAVA_CLIENTS[:1], NEWEST: JAVA_CLIENTS[1:], "barnabas-cluster": JAVA_CLIENTS[:1]},
    ),
)
def test_a_member_that_hangs_cannot_commit_when_others_have_its_partitions(
    client: Client, feed: Feed, source: Topic, target: Topic
) -> None:
    """It is out of the group when it goes on, in the middle of a transaction; what it has read, others have processed.

    kafka-python then sends its offsets with no member and no generation, which a broker must take.
    """
    group = f"g-{source.name}"
    hangs, goes_on = threading.Event(), threading.Event()

    def hang_once() -> None:
        if not hangs.is_set():
            hangs.set()
            assert goes_on.wait(PATIENCE_S)

    first = Worker(client, group, source, target, hang_once, max_poll_interval_ms=client.shortest_poll_interval_ms)
    second = Worker(client, group, source, target)
    feed.write(40)
    with first:
        assert hangs.wait(PATIENCE_S)
        try:
            with second:
                feed.wait_until_processed(second)
                goes_on.set()
                assert wait_until(lambda: bool(first.aborts or first.has_ended), PATIENCE_S), "its commit went well"
                feed.write(10)
                feed.wait_until_processed(first, second)
        finally:
            goes_on.set()
    assert_processed_once(client, feed, target)
