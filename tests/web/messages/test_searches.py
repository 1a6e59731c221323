"""Searches over HTTP: what is found, how far they have looked, and how they go on."""

from __future__ import annotations

import json
from typing import Any

from barnabas.embedded import EmbeddedBroker
from tests.web.messages.records import Row, Stream, make_topic, write
from tests.web.running import app_client

SEARCH = "/api/topics/{}/messages/search"


def orders(count: int, partitions: int) -> list[Row]:
    return [
        Row(
            json.dumps({"order": {"id": number}}).encode(),
            b"order-%d" % number,
            number % partitions,
            [("parity", b"odd" if number % 2 else b"even")],
            1_700_000_000_000 + number,
        )
        for number in range(count)
    ]


async def searched(broker: EmbeddedBroker, topic: str, settings: dict[str, str] | None = None, **query: Any) -> Stream:
    async with app_client(broker.bootstrap_servers, settings) as client:
        return Stream.of(await client.get(SEARCH.format(topic), params=query))


async def test_every_partition_is_looked_at_to_its_end(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "whole", 3)
    write(broker, topic, orders(300, 3), **{"compression.type": "lz4"})
    found = await searched(broker, topic, where=["json:order.id:is:217", "header:parity:is:odd"])
    [hit] = found.of_name("hit")
    assert (hit["partition"], hit["offset"], hit["key"]["text"]) == (1, 72, "order-217")
    assert (hit["timestamp_ms"], hit["value"]["format"]) == (1_700_000_000_217, "json")
    assert hit["headers"] == [{"name": "parity", "value": hit["headers"][0]["value"]}]
    assert found.last == ("end", {"reason": "complete", "message": "Every record up to the end was looked at."})
    assert found.positions() == {0: (0, 100, 100), 1: (0, 100, 100), 2: (0, 100, 100)}
    assert found.of_name("progress")[-1]["records_read"] == 300


async def test_it_pauses_and_goes_on_until_it_has_seen_everything(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "pages", 2)
    write(broker, topic, orders(50, 2))
    seen: list[tuple[int, int]] = []
    cursor = ""
    while True:
        found = await searched(broker, topic, where="header:parity:exists", limit=7, cursor=cursor)
        seen += [(hit["partition"], hit["offset"]) for hit in found.of_name("hit")]
        name, data = found.last
        if name == "end":
            break
        assert (name, data["reason"]) == ("paused", "hits")
        cursor = data["cursor"]
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(25)]


async def test_where_it_begins(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "starts")
    write(broker, topic, orders(20, 1))
    for query, offsets in (
        ({"start": "offset", "offset": 17}, [17, 18, 19]),
        ({"since": "1700000000018"}, [18, 19]),
        ({"since": "2023-11-14T22:13:20.018Z", "until": "1700000000019"}, [18]),
        ({"until": "1700000000002"}, [0, 1]),
        ({"since": "1800000000000"}, []),
        ({"partitions": "0", "start": "offset", "offset": 99}, []),
    ):
        found = await searched(broker, topic, **query)
        assert [hit["offset"] for hit in found.of_name("hit")] == offsets, query
        assert found.last[0] == "end"


async def test_records_of_transactions_that_were_aborted(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "transactions")
    write(broker, topic, [Row(b"before")])
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "aborting"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    producer.flush()
    producer.abort_transaction()
    for isolation, values in (("committed", ["before"]), ("uncommitted", ["before", "aborted"])):
        found = await searched(broker, topic, isolation=isolation)
        assert [hit["value"]["text"] for hit in found.of_name("hit")] == values
        assert found.positions() == {0: (0, 3, 3)}


async def test_large_values_are_searched_too(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "large")
    write(broker, topic, [Row(b"x" * 700_000 + b"needle"), Row(b"y" * 700_000)])
    found = await searched(broker, topic, where="value:contains:needle")
    [hit] = found.of_name("hit")
    assert (hit["value"]["size_bytes"], len(hit["value"]["text"]), hit["value"]["is_cut"]) == (700_006, 4_096, True)


async def test_it_pauses_after_its_time(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "time")
    write(broker, topic, orders(10, 1))
    found = await searched(
        broker, topic, {"barnabas.web.search.max.ms": "1", "barnabas.web.search.bytes.per.second": "100"}
    )
    assert found.last[1]["reason"] == "time" and found.last[1]["cursor"]


async def test_what_is_refused(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "refused", 2)
    async with app_client(broker.bootstrap_servers) as client:
        cursor = Stream.of(await client.get(SEARCH.format(topic))).of_name("progress")[0]["cursor"]
        for query, status, code in (
            ({"where": "body:is:x"}, 400, "INVALID_CONDITION"),
            ({"where": "value:matches:("}, 400, "INVALID_CONDITION"),
            ({"partitions": "0-"}, 400, "INVALID_PARAMETER"),
            ({"partitions": "2"}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
            ({"start": "last"}, 400, "INVALID_PARAMETER"),
            ({"start": "offset"}, 400, "INVALID_PARAMETER"),
            ({"since": "yesterday"}, 400, "INVALID_PARAMETER"),
            ({"since": "2026-01-31T10:00:00"}, 400, "INVALID_PARAMETER"),
            ({"since": "5", "until": "5"}, 400, "INVALID_PARAMETER"),
            ({"limit": 0}, 400, "INVALID_PARAMETER"),
            ({"value_format": "xml"}, 400, "INVALID_PARAMETER"),
            ({"isolation": "none"}, 400, "INVALID_PARAMETER"),
            ({"cursor": "AAAA"}, 400, "INVALID_CURSOR"),
            ({"cursor": cursor, "where": "key:exists"}, 400, "INVALID_CURSOR"),
        ):
            response = await client.get(SEARCH.format(topic), params=query)
            assert (response.status_code, response.json()["error"]["code"]) == (status, code), query
        missing = await client.get(SEARCH.format("none"))
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
