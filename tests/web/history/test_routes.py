"""`GET /api/history` of a running broker."""

from __future__ import annotations

import asyncio

from barnabas.embedded import EmbeddedBroker
from tests.web.running import app_client

OFTEN = {"barnabas.web.history.interval.ms": "100"}


async def test_the_last_hour_of_a_topic_of_a_group_and_of_the_cluster() -> None:
    with EmbeddedBroker({"orders": 2}) as broker:
        async with app_client(broker.bootstrap_servers, OFTEN) as client:
            answer = {"lines": []}
            while [line["measure"] for line in answer["lines"]] != ["records", "bytes", "size"]:
                await asyncio.sleep(0.02)
                answer = (await client.get("/api/history", params={"topic": "orders"})).json()
            assert answer["problem"] == "" and answer["left_out"] == 0
            assert [line["unit"] for line in answer["lines"]] == ["records/s", "bytes/s", "bytes"]
            count = len(answer["times_ms"])
            assert all(len(line["values"]) == count for line in answer["lines"])
            whole = (await client.get("/api/history", params={"points": 1})).json()
            assert [line["measure"] for line in whole["lines"]] == ["records", "bytes", "size"]
            assert len(whole["times_ms"]) == len(whole["lines"][0]["values"]) == 1
            group = (await client.get("/api/history", params={"group": "nobody"})).json()
            assert group["lines"] == []


async def test_what_cannot_be_told_is_said() -> None:
    with EmbeddedBroker(["orders"]) as broker:
        async with app_client(broker.bootstrap_servers, {"barnabas.web.history.enable": "false"}) as client:
            unknown = await client.get("/api/history", params={"topic": "unknown"})
            assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
            both = await client.get("/api/history", params={"topic": "orders", "group": "g"})
            assert both.status_code == 422
            off = (await client.get("/api/history")).json()
            assert "barnabas.web.history.enable" in off["problem"] and off["times_ms"] == []
