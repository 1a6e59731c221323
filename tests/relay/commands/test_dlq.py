"""Dead letters on a broker of their own: written by other clients, and brought back in transactions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.commands import main
from barnabas.embedded import EmbeddedBroker
from client.event_loop.cluster_client import AsyncClusterClient
from client.event_loop.connector import Connector
from relay.dead_letters.fates import RequeueRule
from relay.dead_letters.marks import MARKS_TOPIC, Marks
from relay.dead_letters.requeue import Requeue
from relay.dead_letters.selection import LetterSelection
from runtime.clock import SystemClock
from runtime.network.os_transport import OsNetwork
from runtime.network.transport import Address
from tests.client.letters.test_headers import CONNECT, OURS, SPRING
from tests.tools.test_commands import Run, Tool, broker, ok, tool

__all__ = ["broker", "tool"]

Headers = Sequence[tuple[str, bytes | None]]


def put(broker: EmbeddedBroker, topic: str, *records: tuple[str, Headers], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for text, headers in records:
        producer.produce(topic, text.encode(), f"key-{text}".encode(), partition, headers=list(headers))
    assert producer.flush(30) == 0


def got(broker: EmbeddedBroker, topic: str, partition: int = 0) -> list[tuple[str, Any]]:
    """The committed records of a partition, to its end."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "reads", "enable.partition.eof": True}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[tuple[str, Any]] = []
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF"
                return found
            found.append((message.value().decode(), message.headers()))
    finally:
        consumer.close()


def make(tool: Tool, *topics: str, partitions: int = 1) -> None:
    for topic in topics:
        ok(tool("topics", "create", topic, "--partitions", str(partitions)))


def from_topic(topic: str, reason: str = "no JSON", partition: int = 0) -> Headers:
    return [
        ("barnabas-reason", reason.encode()),
        ("barnabas-source-topic", topic.encode()),
        ("barnabas-source-partition", b"%d" % partition),
        ("barnabas-attempt", b"3"),
    ]


def targets(run: Run) -> dict[str, int]:
    return {row["target"]: row["letters"] for row in ok(run).json}


def test_dead_letters_are_listed_counted_and_shown(broker: EmbeddedBroker, tool: Tool) -> None:
    make(tool, "listed-dead")
    put(broker, "listed-dead", ("a", [("trace", b"1"), *OURS]), ("b", SPRING), ("c", CONNECT), ("d", []), ("e", OURS))
    rows = [_json(line) for line in ok(tool("dlq", "list", "listed-dead", "--json")).lines]
    assert [(row["offset"], row["source_topic"], row["source_offset"], row["attempts"]) for row in rows] == [
        (0, "orders", 41, 2), (1, "payments", (1 << 32) + 7, 0), (2, "lines", 3, 0), (3, None, None, 0), (4, "orders", 41, 2),
    ]  # fmt: skip
    text = ok(tool("dlq", "list", "listed-dead", "--reason", "BOOM"))
    assert len(text.lines) == 1
    assert text.lines[0].startswith("listed-dead-0@1  ") and "from=payments-5@4294967303" in text.lines[0]
    assert text.lines[0].endswith("Listener failed; boom")
    counted = ok(tool("dlq", "list", "listed-dead", "--by", "reason", "--json")).json
    assert counted[0]["reason"] == "no JSON" and counted[0]["letters"] == 2 and len(counted) == 4
    assert len(ok(tool("dlq", "list", "listed-dead", "--source-topic", "orders", "--max-messages", "1")).lines) == 1
    assert ok(tool("dlq", "list", "listed-dead", "--until-time", "1h")).lines == []
    shown = ok(tool("dlq", "show", "listed-dead", "--partition", "0", "--offset", "1", "--json")).json
    assert shown["letter"]["headers"]["kafka_dlt-original-partition"] == 5
    assert (shown["letter"]["group"], shown["record"]["key"]) == ("billing", "key-b")
    plain = ok(tool("dlq", "show", "listed-dead", "--partition", "0", "--offset", "0")).out
    assert "trace" in plain and "no JSON" in plain and "key-a" in plain
    missing = tool("dlq", "show", "listed-dead", "--partition", "0", "--offset", "9")
    assert (missing.code, "has no record at 9" in missing.err) == (1, True)


def test_letters_come_back_once_as_they_were_sent(broker: EmbeddedBroker, tool: Tool) -> None:
    make(tool, "back-dead", "back-orders", "back-bills", partitions=2)
    sent: Headers = [("trace", b"1"), ("barnabas-id", b"7")]
    put(
        broker,
        "back-dead",
        ("a", [*sent, *from_topic("back-orders", partition=1)]),
        ("b", from_topic("back-bills", "late")),
    )
    put(broker, "back-dead", ("c", from_topic("back-orders", "late", 1)), ("d", from_topic("gone")), ("e", []),
        ("f", [("barnabas-expires-at", b"5"), *from_topic("back-orders")]), ("g", from_topic("back-dead")),
        partition=1)  # fmt: skip
    dry = tool("dlq", "requeue", "back-dead", "--json")
    assert targets(dry) == {"back-bills": 1, "back-orders": 2}
    for part in ("1 letter expired", "1 letter of topic gone", "1 letter without a source", "whose source is this topic itself",
                 "--execute"):  # fmt: skip
        assert part in dry.err
    assert targets(tool("dlq", "requeue", "back-dead", "--reason", "LATE", "--execute", "--json")) == {
        "back-bills": 1, "back-orders": 1,
    }  # fmt: skip
    assert got(broker, "back-orders", 1) == [("c", None)]
    again = tool("dlq", "requeue", "back-dead", "--execute", "--json")
    assert targets(again) == {"back-orders": 1}
    assert "2 letters brought back before" in again.err
    assert got(broker, "back-orders", 1) == [("c", None), ("a", sent)]
    assert got(broker, "back-bills") == [("b", None)]
    assert targets(tool("dlq", "requeue", "back-dead", "--execute", "--json")) == {}
    left = [_json(line)["offset"] for line in ok(tool("dlq", "list", "back-dead", "--json")).lines]
    assert left == [1, 2, 3, 4]
    assert len(ok(tool("dlq", "list", "back-dead", "--all")).lines) == 7
    chosen = ("--partitions", "1", "--from-offset", "3", "--until-offset", "4", "--include-expired", "--keep-attempts")
    assert targets(tool("dlq", "requeue", "back-dead", *chosen, "--to", "back-bills", "--execute", "--json")) == {
        "back-bills": 1
    }
    came = [*got(broker, "back-bills"), *got(broker, "back-bills", 1)]
    assert ("f", [("barnabas-expires-at", b"5"), ("barnabas-attempt", b"3")]) in came
    assert tool("dlq", "requeue", "back-dead", "--to", "back-dead").code == 2


def test_what_was_brought_back_or_has_expired_is_deleted(broker: EmbeddedBroker, tool: Tool) -> None:
    make(tool, "purged-dead", "purged-orders")
    expired = [("barnabas-expires-at", b"5"), *from_topic("purged-orders")]
    put(broker, "purged-dead", ("a", from_topic("purged-orders")), ("b", expired), ("c", from_topic("purged-orders", "bad")),
        ("d", from_topic("purged-orders", "late")), ("e", from_topic("purged-orders", "bad")))  # fmt: skip
    ok(tool("dlq", "requeue", "purged-dead", "--max-messages", "1", "--execute"))
    dry = ok(tool("dlq", "purge", "purged-dead", "--json"))
    assert [(row["first_offset"], row["new_first_offset"], row["letters"]) for row in dry.json] == [(0, 2, 2)]
    assert "nothing was deleted" in dry.err
    chosen = ok(tool("dlq", "purge", "purged-dead", "--reason", "bad", "--execute", "--json"))
    assert [(row["new_first_offset"], row["letters"]) for row in chosen.json] == [(3, 3)]
    assert "letters before them stay: 1 letter" in chosen.err
    assert [_json(line)["offset"] for line in ok(tool("dlq", "list", "purged-dead", "--json")).lines] == [3, 4]
    assert tool("dlq", "purge", "purged-dead", "--reason", "bad", "--all").code == 2
    ok(tool("dlq", "purge", "purged-dead", "--all", "--execute"))
    assert ok(tool("dlq", "list", "purged-dead")).lines == []
    assert targets(tool("dlq", "requeue", "purged-dead", "--execute", "--json")) == {}


def test_a_letter_that_cannot_be_written_is_named_and_nothing_of_its_transaction_is_there(
    broker: EmbeddedBroker, tool: Tool
) -> None:
    make(tool, "large-dead", "large-orders")
    ok(tool("configs", "alter", "--topic", "large-orders", "--add-config", "max.message.bytes=1000"))
    put(broker, "large-dead", ("a", from_topic("large-orders")), ("b" * 2_000, from_topic("large-orders")))
    refused = tool("dlq", "requeue", "large-dead", "--execute")
    assert refused.code == 1
    assert "large-dead-0 at 1 cannot go to large-orders" in refused.err
    assert len(ok(tool("dlq", "list", "large-dead")).lines) == 2, "neither came back"
    ok(tool("dlq", "requeue", "large-dead", "--until-offset", "1", "--execute"))
    assert got(broker, "large-orders") == [("a", None)]


def test_rights_are_those_of_the_page_and_none_to_create_what_is_there(tmp_path: Path) -> None:
    acls = [
        "ann read topic dead", "ann write topic orders", "ann read topic barnabas-dlq-handled",
        "ann write topic barnabas-dlq-handled", "ann write transactional-id barnabas-dlq-dead", "ann delete topic dead",
    ]  # fmt: skip
    with EmbeddedBroker({"dead": 1, "orders": 1}, users=["ann", "bob"], acls=[*acls, "bob read topic dead"]) as running:
        producer = Producer(running.client_settings())
        producer.produce("dead", b"a", headers=list(from_topic("orders")))
        assert producer.flush(30) == 0

        def run(user: str, *arguments: str) -> int:
            path = tmp_path / f"{user}.properties"
            path.write_text("".join(f"{name}={value}\n" for name, value in running.java_client_settings(user).items()))
            return main([*arguments, "--command-config", str(path)])

        marks = ("topics", "create", MARKS_TOPIC, "--config", "cleanup.policy=compact")
        assert (run("bob", "dlq", "list", "dead"), run("bob", "dlq", "requeue", "dead")) == (0, 1)
        assert (run("ann", "dlq", "requeue", "dead", "--execute"), run("admin", *marks)) == (1, 0)
        assert (
            run("bob", "dlq", "requeue", "dead", "--execute"),
            run("ann", "dlq", "requeue", "dead", "--execute"),
        ) == (1, 0)
        assert (run("bob", "dlq", "purge", "dead", "--execute"), run("ann", "dlq", "purge", "dead", "--execute")) == (
            1,
            0,
        )


@pytest.mark.parametrize("committed", [0, 1, 2])
async def test_a_run_that_was_killed_goes_on_where_its_last_transaction_ended(
    broker: EmbeddedBroker, tool: Tool, committed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, orders = f"killed-dead-{committed}", f"killed-orders-{committed}"
    make(tool, dead, orders)
    ok(tool("topics", "create", MARKS_TOPIC, "--if-not-exists", "--config", "cleanup.policy=compact"))
    put(broker, dead, *((str(number), from_topic(orders)) for number in range(5)))
    monkeypatch.setattr("relay.dead_letters.requeue.TRANSACTION_LETTERS", 2)
    host, _, port = broker.bootstrap_servers.rpartition(":")
    clients: list[AsyncClusterClient] = []

    def new_client() -> AsyncClusterClient:
        clients.append(AsyncClusterClient(Connector(OsNetwork()), [Address(host, int(port))], "dlq", random.Random(1)))
        return clients[-1]

    def run_of(marks: Marks) -> Requeue:
        key = (dead, 0)
        return Requeue(
            RequeueRule(dead, LetterSelection()),
            marks,
            {key: 0},
            {key: 0},
            {key: 5},
            new_client,
            SystemClock(),
            random.Random(2),
        )

    try:
        killed = run_of(Marks(dead, "id"))
        record, left = killed.marks.record, committed

        def dies(partition: int, offsets: Any) -> tuple[bytes, bytes]:
            nonlocal left
            left -= 1
            if left < 0:
                raise ZeroDivisionError  # letters were sent, and neither mark nor commit
            return record(partition, offsets)

        monkeypatch.setattr(Marks, "record", lambda _, partition, offsets: dies(partition, offsets))
        with pytest.raises(ZeroDivisionError):
            await killed.bring_back()
        monkeypatch.undo()
        assert killed.targets.total() == 2 * committed
        second = run_of(Marks(dead, "id"))
        await second.bring_back()
        assert second.targets.total() == 5 - 2 * committed
        fenced = run_of(Marks(dead, "id"))
        await asyncio.gather(fenced.bring_back(), run_of(Marks(dead, "id")).bring_back(), return_exceptions=True)
    finally:
        for client in clients:
            await client.close()
    assert sorted(text for text, _ in got(broker, orders)) == ["0", "1", "2", "3", "4"]


def _json(line: str) -> Any:
    return Run(0, line, "").json
