"""`barnabas trace` on a broker of ours (and of Apache Kafka, in tests/interop), with records that other clients wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.embedded import EmbeddedBroker
from protocol.key_hashes import by_crc32, by_murmur2
from tests.tools.test_commands import Tool, broker, ok, tool

__all__ = ["broker", "tool"]


def write(broker: EmbeddedBroker, topic: str, *records: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
    for each in records:
        producer.produce(topic, **each)
    assert producer.flush(60) == 0


@contextmanager
def transaction(broker: EmbeddedBroker, name: str) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    yield producer


def source(topic: str, partition: int, offset: int, **more: str) -> list[tuple[str, bytes]]:
    names = {"topic": topic, "partition": str(partition), "offset": str(offset)}
    found = [(f"barnabas-source-{name}", value.encode()) for name, value in names.items()]
    return found + [(f"barnabas-{name}", value.encode()) for name, value in more.items()]


def commit(broker: EmbeddedBroker, group: str, topic: str, partition: int, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])]
    admin.alter_consumer_group_offsets(asked)[group].result(60)


def test_a_message_is_told_with_its_copies_and_its_readers(tool: Tool, broker: EmbeddedBroker) -> None:
    """The copy that failed has another key, and is found by the number of its source's partition."""
    ok(tool("topics", "create", "tr-orders", "--partitions", "3"))
    ok(tool("topics", "create", "tr-dead", "--partitions", "3"))
    at = by_murmur2(b"o-1", 3)
    write(broker, "tr-orders", *({"key": b"o-1", "value": b"v", "partition": at} for _ in range(2)))
    write(broker, "tr-orders", *({"key": b"other", "value": b"o-1", "partition": at} for _ in range(3)))
    elsewhere = next(each for each in range(3) if each not in (at, by_crc32(b"o-1", 3)))
    write(
        broker, "tr-dead", {"key": b"o-1", "value": b"v", "partition": elsewhere, "headers": source("tr-orders", at, 1)}
    )
    headers = source("tr-orders", at, 1, reason="no stock", attempt="2", id="m-7")
    write(broker, "tr-dead", {"key": b"o-1", "value": b"v", "partition": at, "headers": headers})
    commit(broker, "tr-before", "tr-orders", at, 1)
    commit(broker, "tr-past", "tr-orders", at, 2)
    found = ok(tool("trace", "--key", "o-1", "--json")).json
    assert found["problems"] == []
    first, second = found["messages"]
    assert [(each["topic"], each["partition"], each["offset"]) for each in (first, second)] == [
        ("tr-orders", at, 0), ("tr-orders", at, 1)
    ]  # fmt: skip
    groups = [(each["group"], each["committed_offset"], each["is_past"], each["lag"]) for each in second["groups"]]
    assert groups == [("tr-before", 1, False, 4), ("tr-past", 2, True, 3)]
    assert [each["is_past"] for each in first["groups"]] == [True, True]
    [copy] = second["copies"]
    assert first["copies"] == [] and (copy["reason"], copy["attempt"], copy["message_id"]) == ("no stock", 2, "m-7")
    text = ok(tool("trace", "tr-orders", "tr-dead", "--key", "o-1", "--everywhere"))
    assert f"├─ tr-dead-{elsewhere} offset 0" in text.out and f"└─ tr-dead-{at} offset 0" in text.out
    assert "id m-7, attempt 2, failed: no stock" in text.out
    assert "group tr-before (Empty) has not: it is at 1 offset before; its lag is 4" in text.out
    assert "4 hits in 7 records of 6 partitions" in text.err
    [followed] = ok(tool("trace", "--id", "m-7", "--topic", "tr-dead", "--json")).json["messages"]
    assert (followed["topic"], followed["offset"], followed["is_what_was_looked_for"]) == ("tr-orders", 1, False)
    assert [each["topic"] for each in followed["copies"]] == ["tr-dead"]


def test_the_fate_of_a_transaction_is_told(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "tr-fates"))
    names = ("tr-kept", "tr-undone", "tr-running")
    with (
        transaction(broker, names[0]) as kept,
        transaction(broker, names[1]) as undone,
        transaction(broker, names[2]) as running,
    ):
        for producer in (kept, undone, running):
            producer.produce("tr-fates", key=b"t", value=b"v")
            assert producer.flush(60) == 0
        kept.commit_transaction(60)
        undone.abort_transaction(60)
        ends = {}
        while len(ends) < 2:  # markers may come after the coordinator's answer
            found = ok(tool("trace", "tr-fates", "--key", "t", "--json")).json["messages"]
            ends = {each["offset"]: each["transaction_end"]["offset"] for each in found if each["transaction_end"]}
        assert sorted(ends) == [0, 1] and sorted(ends.values()) == [3, 4]
        write(broker, "tr-fates", {"key": b"t", "value": b"plain"})
        found = ok(tool("trace", "tr-fates", "--key", "t", "--json")).json["messages"]
        told = {each["offset"]: (each["transactional_id"], each["transaction"]) for each in found}
        assert told == {
            0: (names[0], "committed"), 1: (names[1], "aborted"), 2: (names[2], "open"), 5: (None, "none")
        }  # fmt: skip
        assert all(each["producer_id"] >= 0 and each["sequence"] == 0 for each in found[:3])
        assert found[3]["producer_id"] is None
        assert [each["is_hidden"] for each in found] == [False, False, True, True]
        kept.begin_transaction()
        kept.produce("tr-fates", key=b"late", value=b"v")
        kept.commit_transaction(60)
        late: dict[str, Any] = {"transaction": "open"}
        while late["transaction"] == "open":
            [late] = ok(tool("trace", "tr-fates", "--key", "late", "--json")).json["messages"]
        assert (late["transaction"], late["is_hidden"]) == ("committed", True)
        lines = ok(tool("trace", "tr-fates", "--key", "t")).out
        assert f"transaction of {names[1]}: aborted at offset {ends[1]}" in lines
        running.abort_transaction(60)


def test_a_trace_that_is_not_whole_fails_and_says_where_it_stopped(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "tr-many"))
    write(broker, "tr-many", *({"key": b"m", "value": b"%d" % each} for each in range(5)))
    run = tool("trace", "tr-many", "--key", "m", "--max-messages", "2", "--json")
    assert run.code == 1 and len(run.json["messages"]) == 2
    assert "the trace is incomplete: there are more than 2 hits" in run.err
    late = tool("trace", "tr-many", "--key", "m", "--max-duration", "0s")
    assert late.code == 1 and "the time was over" in late.err
    assert tool("trace", "tr-many").code == tool("trace", "--key", "m", "--relay", "no/name").code == 2
    none = ok(tool("trace", "tr-many", "--key", "absent", "--json"))
    assert (none.json, "0 hits in 5 records" in none.err) == ({"messages": [], "problems": []}, True)


def test_hostile_headers_are_told_and_lead_nowhere(tool: Tool, broker: EmbeddedBroker) -> None:
    ok(tool("topics", "create", "tr-hostile"))
    places = [("x" * 500, 0, 0), ("no/such topic\n", 0, 0), ("", 0, 0), ("tr-hostile", 2**40, 0), ("tr-hostile", 0, 2**63 - 1),
              ("tr-hostile", 0, 5), ("tr-hostile", 0, 1), ("__consumer_offsets", 0, 0)]  # fmt: skip
    write(broker, "tr-hostile", *({"key": b"h", "value": b"v", "headers": source(*place)} for place in places))
    found = ok(tool("trace", "tr-hostile", "--key", "h", "--json")).json["messages"]
    assert [each["offset"] for each in found] == [0, 1, 2, 3, 4, 5, 7]  # the sixth is a copy of itself, it says
    assert [each["offset"] for each in found[1]["copies"]] == [6]
    assert "\\n-0 offset 0" in ok(tool("trace", "tr-hostile", "--key", "h")).out


def test_mirrors_are_told_from_both_sides(tool: Tool, broker: EmbeddedBroker) -> None:
    """The pairs of the job `mirror`, with the cluster as its own target."""
    for topic in ("tr-from", "b.tr-from", "barnabas-offset-syncs"):
        ok(tool("topics", "create", topic))
    write(broker, "tr-from", *({"key": b"m-%d" % each, "value": b"v"} for each in range(3)))
    write(broker, "b.tr-from", *({"key": key, "value": b"v"} for key in (b"x", b"m-0", b"m-1", b"m-2")))
    pair = b'{"topic": "tr-from", "partition": 0, "sourceOffset": 0, "targetOffset": 1, "records": 3}'
    write(broker, "barnabas-offset-syncs", {"value": b"rubbish"}, {"value": pair})
    run = ok(tool("trace", "--key", "m-1", "--mirror-server", broker.bootstrap_servers, "--json"))
    by_topic = {each["topic"]: each for each in run.json["messages"]}
    assert by_topic["tr-from"]["mirrored_to"] == {"topic": "b.tr-from", "partition": 0, "offset": 2}
    assert [each["mirrored_from"] for each in by_topic.values()] == [None, None]  # either may be the mirror
    ok(tool("topics", "create", "c.tr-only"))
    write(broker, "c.tr-only", {"key": b"m-3", "value": b"v"})
    write(broker, "barnabas-offset-syncs", {"value": pair.replace(b"tr-from", b"tr-only").replace(b"1, ", b"0, ")})
    [mirror] = ok(tool("trace", "--key", "m-3", "--json")).json["messages"]
    assert mirror["mirrored_from"] == {"topic": "tr-only", "partition": 0, "offset": 0}
