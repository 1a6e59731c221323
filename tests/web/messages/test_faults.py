"""What happens under an open stream of messages: brokers end, a topic is deleted, rights are taken away, the user logs out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from barnabas.embedded import EmbeddedBroker
from client.admin import acls, topics
from client.admin.acls import AclWords
from client.blocking.cluster_client import ClusterClient
from client.settings.parsing import parse_client
from tests.web.access.secured import SETTINGS, USERS, Page
from tests.web.messages.live_stream import LiveStream, live
from tests.web.running import app_client
from web.messages.reading import NO_ANSWER, NO_LEADER

LIMIT_MS = 30_000
LARGE_RECORDS = 5
SLOW = {**SETTINGS, "barnabas.web.search.bytes.per.second": "2000000", "default.api.timeout.ms": "1000"}
"""A search takes more than a second."""
FOUND = {"search": "hit", "follow": "record"}
modes = pytest.mark.parametrize("mode", FOUND)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(security="sasl_plaintext", users=USERS, acls=["alice read topic *"]) as one:
        yield one


def made(broker: EmbeddedBroker, topic: str) -> str:
    """Make a topic that no single fetch brings; its path in the API."""
    broker.create_topic(topic)
    write(broker, topic, [b"x" * 700_000] * LARGE_RECORDS)
    return f"/api/topics/{topic}/messages"


def write(broker: EmbeddedBroker, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = Producer(broker.client_settings())
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def administration(broker: EmbeddedBroker) -> ClusterClient:
    return ClusterClient(parse_client(broker.client_settings()))


async def notes_until(stream: LiveStream, partition: int, *, is_waiting: bool) -> str:
    """Return the note of the partition, as soon as there is one, or none."""
    while True:
        for row in (await stream.next("progress"))["partitions"]:
            if row["partition"] == partition and bool(row["note"]) is is_waiting:
                return str(row["note"])


@modes
async def test_it_says_that_no_broker_answers_and_goes_on(broker: EmbeddedBroker, mode: str) -> None:
    path = made(broker, f"killed-{mode}")
    async with app_client(broker.bootstrap_servers, SLOW) as client:
        await Page(client).log_in()
        async with live(client, f"{path}/{mode}") as stream:
            await stream.next("progress")
            broker.kill()
            assert await notes_until(stream, 0, is_waiting=True) == NO_ANSWER
            broker.restart()
            await notes_until(stream, 0, is_waiting=False)
            if mode == "search":
                assert (await stream.next("end"))["reason"] == "complete"
            else:
                write(broker, f"killed-{mode}", [b"afterwards"])
                assert (await stream.next("record"))["value"]["text"] == "afterwards"


@modes
@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("delete", "UNKNOWN_TOPIC_OR_PARTITION", "does not exist any more"),
        ("deny", "TOPIC_AUTHORIZATION_FAILED", "authorization failed"),
        ("logout", "NOT_LOGGED_IN", "logged out"),
    ],
)
async def test_it_ends_with_a_plain_reason(
    broker: EmbeddedBroker, mode: str, fault: str, code: str, words: str
) -> None:
    topic = f"{fault}-{mode}"
    path = made(broker, topic)
    async with app_client(broker.bootstrap_servers, SLOW) as client:
        page = Page(client)
        await page.log_in()
        async with live(client, f"{path}/{mode}") as stream:
            await stream.next("progress")
            if fault == "logout":
                assert (await page.ask("DELETE", "/api/session")).status_code == 200
            else:
                with administration(broker) as cluster:
                    if fault == "delete":
                        cluster.run(topics.delete([topic], LIMIT_MS))
                    else:
                        right = AclWords("topic", topic, "literal", "User:alice", "*", "read", "deny")
                        cluster.run(acls.create([right]))
            problem = await stream.next("problem")
            assert problem["is_final"] and problem["error"]["code"] == code
            assert words in problem["error"]["message"]


async def test_a_follow_says_which_partition_waits_while_others_go_on() -> None:
    with EmbeddedBroker(brokers=2) as broker:
        broker.create_topic("spread", 2, replicas=1)
        async with (
            app_client(broker.bootstrap_servers) as client,
            live(client, "/api/topics/spread/messages/follow") as stream,
        ):
            await stream.next("progress")
            with administration(broker) as cluster:
                leaders = {
                    number: row.leader_id for number, row in cluster.topics(["spread"])["spread"].partitions.items()
                }
            broker.kill(leaders[0])
            assert await notes_until(stream, 0, is_waiting=True) in (NO_ANSWER, NO_LEADER)
            write(broker, "spread", [b"meanwhile"], partition=1)
            assert (await stream.next("record"))["value"]["text"] == "meanwhile"
            broker.restart(leaders[0])
            await notes_until(stream, 0, is_waiting=False)
