"""Records that are produced over HTTP, to a broker of ours."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.embedded import EmbeddedBroker
from tests.web.rest_v3.v3_client import V3Client, v3_client
from tests.web.running import WRITES, running_web
from web.rest_v3.records import sending

TEXT = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    settings = {"auto.create.topics.enable": "false", "message.max.bytes": str(8 << 20)}
    with EmbeddedBroker({"one": 1, "three": 3}, settings) as broker:
        yield broker.bootstrap_servers


def stored(servers: str, topic: str, partition: int, offset: int) -> Any:
    """The record at an offset."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none"})
    consumer.assign([TopicPartition(topic, partition, offset)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None and message.error() is None
    return message


async def produce(v3: V3Client, topic: str, content: Any, status: int = 200) -> list[dict[str, Any]]:
    response = await v3.http.post(f"/v3/clusters/{v3.cluster_id}/topics/{topic}/records", content=content, headers=TEXT)
    assert response.status_code == status, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def value(text: str, **fields: Any) -> str:
    return json.dumps({"value": {"type": "STRING", "data": text}, **fields})


async def test_one_record(servers: str) -> None:
    record = {
        "partition_id": 2,
        "headers": [{"name": "h", "value": base64.b64encode(b"x").decode()}],
        "key": {"type": "BINARY", "data": base64.b64encode(b"key").decode()},
        "value": {"type": "JSON", "data": {"amount": 7}},
        "timestamp": "2021-02-05T19:14:42Z",
    }
    async with v3_client(servers) as v3:
        [report] = await produce(v3, "three", json.dumps(record))
        assert report == {
            "error_code": 200,
            "cluster_id": v3.cluster_id,
            "topic_name": "three",
            "partition_id": 2,
            "offset": 0,
            "timestamp": "2021-02-05T19:14:42.000Z",
            "key": {"type": "BINARY", "size": 3},
            "value": {"type": "JSON", "size": 12},
        }
    message = stored(servers, "three", 2, 0)
    assert (message.key(), message.value(), message.headers()) == (b"key", b'{"amount":7}', [("h", b"x")])
    assert message.timestamp()[1] == 1612552482000


async def test_many_records_and_some_that_are_refused(servers: str) -> None:
    wrong = [value("x", partition_id=9), value("x", more=1), '{"value": {"data": 1}}']
    texts = [value(str(index)) for index in range(3_000)]

    async def chunks() -> AsyncIterator[bytes]:
        for begin in range(0, len(texts), 100):
            yield "".join(texts[begin : begin + 100]).encode()
        yield "\n".join(wrong).encode()

    async with v3_client(servers) as v3:
        reports = await produce(v3, "one", chunks())
        assert [each["error_code"] for each in reports] == [*(200 for _ in texts), 40403, 400, 42206]
        offsets = [each["offset"] for each in reports[: len(texts)]]
        assert offsets == list(range(offsets[0], offsets[0] + len(texts)))
        [first, last] = await produce(v3, "one", value("x") + '{"value": tru}' + value("never"))
        assert (first["error_code"], last["error_code"]) == (200, 400)


async def test_what_cannot_begin(servers: str) -> None:
    async with v3_client(servers) as v3:
        assert (await produce(v3, "absent", value("x"), 404))[0]["error_code"] == 40403
        assert (await produce(v3, "one", b"", 422))[0]["error_code"] == 42206
        here = f"/v3/clusters/{v3.cluster_id}/topics/one/records"
        for kind in ({}, {"content-type": "text/plain"}):
            assert (await v3.http.post(here, content=value("x"), headers=kind)).status_code in (403, 415)


async def test_records_as_large_as_the_topic_and_the_process_allow(servers: str) -> None:
    async with v3_client(servers, {**WRITES, "barnabas.web.request.max.bytes": str(10 << 20)}) as v3:
        reports = await produce(v3, "one", b"".join(value("x" * (size << 20)).encode() for size in (6, 9, 7)))
        assert [each["error_code"] for each in reports] == [200, 413, 200]
        [report] = await produce(v3, "one", value("x" * (11 << 20)))
        assert report["error_code"] == 413 and str(10 << 20) in report["message"]
    assert len(stored(servers, "one", 0, reports[2]["offset"]).value()) == 7 << 20


async def test_a_topic_that_is_deleted_while_a_stream_is_open(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MAX_AGE_MS", -1)
    async with v3_client(servers) as v3:
        await v3.ask("POST", "/topics", 201, json={"topic_name": "short"})

        async def chunks() -> AsyncIterator[bytes]:
            yield b" "
            await v3.ask("DELETE", "/topics/short", 204)
            yield value("behind").encode()

        assert [each["error_code"] for each in await produce(v3, "short", chunks())] == [40403]


async def test_a_batch(servers: str) -> None:
    good = {"id": "a", "value": {"type": "STRING", "data": "x"}}
    bad = {"id": "b", "partition_id": 7}
    async with v3_client(servers) as v3:
        found = await v3.ask("POST", "/topics/one/records:batch", 207, json={"entries": [good, bad]})
        assert [(row["id"], row["value"]["size"]) for row in found["successes"]] == [("a", 1)]
        assert [(row["id"], row["error_code"]) for row in found["failures"]] == [("b", 40403)]
        for entries in ([], [good, good], [{**good, "id": "no spaces"}], [{"value": None}], "x", [good] * 1_001):
            refused = await v3.ask("POST", "/topics/one/records:batch", 422, json={"entries": entries})
            assert refused["error_code"] == 42206


class OpenStream:
    """A connection over which records are produced for as long as it is open."""

    @classmethod
    async def open(cls, url: str, topic: str) -> OpenStream:
        host, port = url.removeprefix("http://").split(":")
        self = cls()
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        await self._ask("GET /v3/clusters HTTP/1.1")
        cluster = json.loads(await self._reader.readuntil(b"]}"))["data"][0]["cluster_id"]
        path = f"/v3/clusters/{cluster}/topics/{topic}/records"
        kind = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue"
        assert b" 100 Continue" in await self._ask(f"POST {path} HTTP/1.1\r\n{kind}")
        assert b" 200 OK" in await self._reader.readuntil(b"\r\n\r\n")
        return self

    async def _ask(self, head: str) -> bytes:
        line, _, rest = head.partition("\r\n")
        self._writer.write(f"{line}\r\nHost: localhost\r\n{rest}{rest and chr(13) + chr(10)}\r\n".encode())
        return await self._reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> bytes:
        size = int(await self._reader.readline(), 16)
        return (await self._reader.readexactly(size + 2))[:-2]

    def say(self, content: bytes) -> None:
        self._writer.write(b"%x\r\n%s\r\n" % (len(content), content))

    async def close(self) -> None:
        """End the request, and see the answer end."""
        self.say(b"")
        assert await self.answer() == b""
        self._writer.close()
        await self._writer.wait_closed()


async def test_each_record_is_answered_while_more_come(servers: str) -> None:
    with running_web(servers, WRITES) as web:
        stream = await OpenStream.open(web.url, "one")
        offsets = []
        for text in ("first", "second"):
            content = value(text).encode()
            stream.say(content[:10])
            stream.say(content[10:])
            report = json.loads(await stream.answer())
            assert report["error_code"] == 200
            offsets.append(report["offset"])
        assert offsets[1] == offsets[0] + 1
        await stream.close()


async def test_a_stream_goes_on_when_the_broker_has_been_away() -> None:
    with EmbeddedBroker(["away"]) as broker, running_web(broker.bootstrap_servers, WRITES) as web:
        stream = await OpenStream.open(web.url, "away")
        stream.say(value("before").encode())
        assert json.loads(await stream.answer())["offset"] == 0
        broker.kill()
        stream.say(value("meanwhile").encode())
        broker.restart()
        report = json.loads(await stream.answer())
        assert (report["error_code"], report["offset"]) == (200, 1)
        await stream.close()
