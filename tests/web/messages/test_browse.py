"""Pages of records over HTTP, and one record."""

from __future__ import annotations

import json
from typing import Any

import httpx

from barnabas.embedded import EmbeddedBroker
from tests.web.messages.records import Row, make_topic, write
from tests.web.running import app_client

BROWSE = "/api/topics/{}/messages"
T0 = 1_700_000_000_000


async def page(client: httpx.AsyncClient, topic: str, **query: Any) -> dict[str, Any]:
    response = await client.get(BROWSE.format(topic), params=query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    assert found["is_whole"] and not found["reason"]
    return found


def values(found: dict[str, Any]) -> list[int]:
    return [int(each["value"]["text"]) for each in found["records"]]


async def test_pages_backward_and_forward_over_partitions(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "browsed", 3)
    write(broker, topic, [Row(b"%d" % n, partition=n % 3, timestamp_ms=T0 + n) for n in range(100)])
    async with app_client(broker.bootstrap_servers) as client:
        found = await page(client, topic, limit=30)
        assert values(found) == list(range(99, 69, -1)) and found["newer"] is None
        older = await page(client, topic, limit=60, cursor=found["older"])
        assert values(older) == list(range(69, 9, -1))
        oldest = await page(client, topic, limit=60, cursor=older["older"])
        assert values(oldest) == list(range(9, -1, -1)) and oldest["older"] is None
        assert values(await page(client, topic, limit=60, cursor=oldest["newer"])) == list(range(10, 70))
        first = await page(client, topic, start="beginning", limit=40)
        assert values(first) == list(range(40)) and first["older"] is None
        second = await page(client, topic, limit=500, cursor=first["newer"])
        assert values(second) == list(range(40, 100)) and second["newer"] is None
        assert values(await page(client, topic, limit=2, cursor=second["older"])) == [39, 38]
        assert values(await page(client, topic, since=str(T0 + 98))) == [98, 99]
        assert values(await page(client, topic, partitions="1", start="offset", offset=31)) == [94, 97]
        assert values(await page(client, topic, where="value:matches:^.$", limit=4)) == [9, 8, 7, 6]
        assert first["partitions"][0] == {"partition": 0, "first": 0, "end": 34, "note": ""}


async def test_a_topic_of_a_few_records_and_many_offsets(broker: EmbeddedBroker) -> None:
    from confluent_kafka import Producer

    topic = make_topic(broker, "markers")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "many"})
    producer.init_transactions()
    for n in range(30):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % n)
        producer.flush()
        producer.abort_transaction() if n % 2 else producer.commit_transaction()
    async with app_client(broker.bootstrap_servers) as client:
        found = await page(client, topic, limit=5, isolation="committed")
        assert values(found) == [28, 26, 24, 22, 20]
        rest = await page(client, topic, limit=50, isolation="committed", cursor=found["older"])
        assert values(rest) == list(range(18, -1, -2))


async def test_an_empty_topic(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "empty", 2)
    async with app_client(broker.bootstrap_servers) as client:
        for start in ("last", "beginning"):
            found = await page(client, topic, start=start)
            assert (found["records"], found["older"], found["newer"]) == ([], None, None)


async def test_one_record_in_all_its_forms(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "details")
    value = b'{"a":[1,2.50],"b":{}}'
    write(broker, topic, [Row(value, b"\x00\x01", headers=[("h", b"<script>"), ("none", None)]), Row(None)])
    async with app_client(broker.bootstrap_servers) as client:
        found = (await client.get(f"{BROWSE.format(topic)}/0/0")).json()
        assert found["key"]["text"] == "0001" and found["key_forms"]["text"]["text"] == "\x00\x01"
        assert found["value_forms"]["json"]["text"] == '{\n  "a": [\n    1,\n    2.50\n  ],\n  "b": {}\n}'
        assert found["value_forms"]["hex"]["text"] == value.hex() and found["value_forms"]["schema"] is None
        assert [each["value"] and each["value"]["text"] for each in found["headers"]] == ["<script>", None]
        assert (await client.get(f"{BROWSE.format(topic)}/0/1")).json()["value_forms"] is None
        for part, data in (("value", value), ("key", b"\x00\x01"), ("headers/0", b"<script>")):
            whole = await client.get(f"{BROWSE.format(topic)}/0/0/{part}")
            assert whole.content == data and whole.headers["content-type"] == "application/octet-stream"
            assert whole.headers["content-disposition"].startswith("attachment; filename=")
        for place, said in (("0/2", "ends at 2"), ("0/1/value", "has none"), ("0/0/headers/1", "has none")):
            missing = await client.get(f"{BROWSE.format(topic)}/{place}")
            assert missing.status_code == 404 and said in missing.json()["error"]["message"]
        assert (await client.get(f"{BROWSE.format(topic)}/1/0")).status_code == 404


async def test_why_there_is_no_record(broker: EmbeddedBroker) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = make_topic(broker, "missing")
    write(broker, topic, [Row(b"a"), Row(b"b")])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    next(iter(admin.delete_records([TopicPartition(topic, 0, 1)]).values())).result(30)
    async with app_client(broker.bootstrap_servers) as client:
        missing = await client.get(f"{BROWSE.format(topic)}/0/0")
        assert "was deleted: the partition begins at 1" in missing.json()["error"]["message"]


async def test_committed_offsets_are_readable(broker: EmbeddedBroker) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic = make_topic(broker, "consumed")
    write(broker, topic, [Row(b"a")])
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    async with app_client(broker.bootstrap_servers) as client:
        where = ["key_json:data.group:is:readers", f"key_json:data.topic:is:{topic}"]
        [found] = (await page(client, "__consumer_offsets", where=where))["records"]
        assert json.loads(found["value"]["text"])["data"]["offset"] == 1
        assert found["key"]["format"] == "internal"
