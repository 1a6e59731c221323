"""Writing one record over HTTP, and copying one."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.messages.records import Row, make_topic, write
from tests.web.running import WRITES, app_client

MESSAGES = "/api/topics/{}/messages"
T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def refusing(broker: EmbeddedBroker) -> str:
    return make_topic(broker, "refusing")


async def details(client: httpx.AsyncClient, written: dict[str, Any]) -> dict[str, Any]:
    path = MESSAGES.format(written["topic"]) + f"/{written['partition']}/{written['offset']}"
    found: dict[str, Any] = (await client.get(path)).json()
    return found


async def test_a_record_is_written_as_it_was_sent(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "written", 3)
    sent = {
        "partition": 2,
        "key": {"base64": "AAE="},
        "value": {"json": {"ä": 1}},
        "headers": [{"name": "h", "value": {"hex": "6869"}}, {"name": "none", "value": None}],
        "timestamp_ms": T0,
    }
    async with app_client(broker.bootstrap_servers, WRITES) as client:
        made = await client.post(MESSAGES.format(topic), json=sent)
        assert made.status_code == 201
        assert made.json() == {"topic": topic, "partition": 2, "offset": 0, "timestamp_ms": T0}
        found = await details(client, made.json())
        assert (found["key_forms"]["hex"]["text"], found["value"]["text"]) == ("0001", '{"ä":1}')
        assert [(each["name"], each["value"] and each["value"]["text"]) for each in found["headers"]] == [
            ("h", "hi"),
            ("none", None),
        ]
        tombstone = await client.post(MESSAGES.format(topic), json={"key": {"text": "k"}})
        assert (await details(client, tombstone.json()))["value"] is None


async def test_a_copy_has_the_same_bytes(broker: EmbeddedBroker) -> None:
    source, target = make_topic(broker, "source"), make_topic(broker, "target", 2)
    row = Row(b"\xff\x00value", b"\xfekey", headers=[("h", b"\x80"), ("none", None)], timestamp_ms=T0)
    write(broker, source, [row])
    origin = {"topic": source, "partition": 0, "offset": 0}
    async with app_client(broker.bootstrap_servers, WRITES) as client:
        for body, timestamp_ms in (({"partition": 1, "keep_timestamp": True}, T0), ({}, None)):
            made = await client.post(f"{MESSAGES.format(target)}/copy", json={"from": origin, **body})
            assert made.status_code == 201, made.text
            found = await details(client, made.json())
            assert found["value_forms"]["hex"]["text"] == b"\xff\x00value".hex()
            assert [each["value"] and each["value"]["text"] for each in found["headers"]] == ["80", None]
            assert (found["timestamp_ms"] == T0) is (timestamp_ms is not None)
        again = await client.post(f"{MESSAGES.format(source)}/copy", json={"from": origin})
        assert (again.json()["topic"], again.json()["offset"]) == (source, 1)
        missing = await client.post(f"{MESSAGES.format(source)}/copy", json={"from": {**origin, "offset": 9}})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "MESSAGE_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"value": {"text": "a", "hex": "00"}}, 422),
        ({"value": {}}, 422),
        ({"value": {"hex": "0"}}, 422),
        ({"value": {"base64": "?"}}, 422),
        ({"value": {"text": "\ud800"}}, 422),
        ({"value": {"json": float("nan")}}, 422),
        ({"valu": None}, 422),
        ({"partition": 7}, 404),
        ({"value": {"text": "x" * 2_000_000}}, 413),
    ],
)
async def test_what_is_refused(broker: EmbeddedBroker, refusing: str, body: dict[str, Any], status: int) -> None:
    async with app_client(broker.bootstrap_servers, WRITES) as client:
        given = {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}
        refused = await client.post(MESSAGES.format(refusing), **given)
        assert refused.status_code == status, refused.text


async def test_it_is_off_by_default(broker: EmbeddedBroker, refusing: str) -> None:
    copy = {"from": {"topic": refusing, "partition": 0, "offset": 0}}
    async with app_client(broker.bootstrap_servers) as client:
        for path, body in (("", {"value": {"text": "a"}}), ("/copy", copy)):
            refused = await client.post(MESSAGES.format(refusing) + path, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "READ_ONLY")
