"""Records that clients make to do harm, over HTTP: each is told about, and the rest of the topic is shown."""

from __future__ import annotations

import asyncio
import json

import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.messages.live_stream import PATIENCE_S, live
from tests.web.messages.records import Row, Stream, make_topic, write
from tests.web.running import app_client
from web.messages import events, scan

BASE = "/api/topics/{}/messages"
BOMB_BYTES = 500_000


async def test_a_batch_that_grows_too_large_is_passed_over_and_told(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MAX_DECOMPRESSED_BYTES", BOMB_BYTES - 1)
    topic = make_topic(broker, "bomb")
    write(broker, topic, [Row(b"before")])
    write(broker, topic, [Row(bytes(BOMB_BYTES))], **{"compression.type": "zstd"})
    write(broker, topic, [Row(b"behind")])
    async with app_client(broker.bootstrap_servers) as client:
        found = Stream.of(await client.get(f"{BASE.format(topic)}/search"))
        assert [hit["value"]["text"] for hit in found.of_name("hit")] == ["before", "behind"]
        told = found.of_name("progress")[-1]
        notes = [row["note"] for each in found.of_name("progress") for row in each["partitions"]]
        assert told["records_read"] == 3 and "the records from 1 to 1 cannot be read" in notes[-1]
        assert "see partitions 0" in found.last[1]["message"]
        page = (await client.get(BASE.format(topic))).json()
        assert [each["value"]["text"] for each in page["records"]] == ["behind", "before"]
        missing = await client.get(f"{BASE.format(topic)}/0/1")
        assert missing.status_code == 404 and "cannot be read" in missing.json()["error"]["message"]


async def test_names_and_keys_that_are_no_text(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "no-text")
    write(broker, topic, [Row(b"\x00\xff", b"\xc3\x28", 0, [("\u202e<b>", b"\xff"), ("a:b%", b"1")])])
    async with app_client(broker.bootstrap_servers) as client:
        [record] = (await client.get(BASE.format(topic))).json()["records"]
        assert (record["key"]["format"], record["key"]["text"]) == ("hex", "c328")
        assert [each["name"] for each in record["headers"]] == ["\u202e<b>", "a:b%"]
        assert record["headers"][0]["value"]["text"] == "ff"
        found = Stream.of(await client.get(f"{BASE.format(topic)}/search", params={"where": "header:a%3Ab%25:is:1"}))
        assert len(found.of_name("hit")) == 1
        [line] = (await client.get(f"{BASE.format(topic)}/download")).text.splitlines()
        assert json.loads(line)["key_base64"] == "wyg="


@pytest.mark.parametrize("kind", ["search", "download"])
async def test_there_are_so_many_searches_and_downloads_at_a_time(broker: EmbeddedBroker, kind: str) -> None:
    topic = make_topic(broker, f"crowd-of-{kind}")
    write(broker, topic, [Row(b"a" * 1_000)])
    path = BASE.format(topic)
    settings = {"barnabas.web.search.max": "1", "barnabas.web.search.bytes.per.second": "1"}  # so that it does not end
    async with app_client(broker.bootstrap_servers, settings) as client:
        for _ in range(2):  # a place is free again when its reader has gone
            async with live(client, f"{path}/search") as stream:
                await stream.next("progress")
                refused = await client.get(f"{path}/{kind}")
                error = refused.json()["error"]
                assert (refused.status_code, error["code"], refused.headers["retry-after"]) == (429, "TOO_MANY", "5")
                assert error["message"] == "1 searches and downloads run already, which is the limit"
                assert "barnabas.web.search.max" in error["next"]
                assert (await client.get(path, params={"start": "offset", "offset": 1})).status_code == 200


@pytest.mark.parametrize("kind", ["search", "follow", "download"])
async def test_who_takes_nothing_is_given_up_and_holds_no_place(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(events, "PATIENCE_S", 0.01)
    topic = make_topic(broker, f"slow-{kind}")
    write(broker, topic, [Row(b"a" * 1_000) for _ in range(5_000)])
    path = f"{BASE.format(topic)}/{kind}"
    async with app_client(broker.bootstrap_servers) as client:
        parts = client._transport.app.state.parts.messages  # type: ignore[attr-defined]
        places = parts.followers if kind == "follow" else parts.searches
        async with live(client, path, {} if kind == "follow" else {"limit": "5000"}) as stream:
            while not stream.sent_bytes:
                await client.get(BASE.format(topic), params={"limit": 1})
            sent_bytes = stream.sent_bytes
            stream.is_read.clear()
            async with asyncio.timeout(PATIENCE_S):
                while places.taken:
                    write(broker, topic, [Row(b"more")])
                    await client.get(BASE.format(topic), params={"limit": 1})
            assert stream.sent_bytes == sent_bytes
