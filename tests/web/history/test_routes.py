"""`GET /api/history` of a running broker."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from barnabas.embedded import EmbeddedBroker
from tests.web.access.secured import ACLS, SETTINGS, USERS, basic
from tests.web.running import app_client

OFTEN = {"barnabas.web.history.interval.ms": "100"}
DESCRIBE_ONLY = ["plots describe topic *", "plots describe group *", "plots describe cluster"]
PRINCIPAL = {"barnabas.web.sampling.sasl.username": "plots", "barnabas.web.sampling.sasl.password": "plots-secret"}


async def answer_with(
    client: httpx.AsyncClient, measures: list[str], user: dict[str, str], **query: str
) -> dict[str, Any]:
    """The history that a user sees, once it has these measures."""
    while True:
        response = await client.get("/api/history", params=query, headers=user)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        if [line["measure"] for line in answer["lines"]] == measures:
            return answer
        await asyncio.sleep(0.02)


async def test_the_last_hour_of_a_topic_of_a_group_and_of_the_cluster() -> None:
    with EmbeddedBroker({"orders": 2}) as broker:
        async with app_client(broker.bootstrap_servers, OFTEN) as client:
            answer = await answer_with(client, ["records", "bytes", "size"], {}, topic="orders")
            assert (answer["problem"], answer["left_out"]) == ("", 0)
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
            assert "barnabas.web.history.enable" in off["problem"]
            assert off["times_ms"] == []


async def test_a_principal_that_may_only_describe_samples_and_users_see_what_they_may() -> None:
    users, acls = {**USERS, "plots": "plots-secret"}, [*ACLS, *DESCRIBE_ONLY]
    with EmbeddedBroker(["orders", "secrets"], security="sasl_plaintext", users=users, acls=acls) as broker:
        async with app_client(broker.bootstrap_servers, {**SETTINGS, **OFTEN, **PRINCIPAL}) as client:
            assert (await client.get("/api/history")).status_code == 401
            await answer_with(client, ["records"], basic("alice"), topic="orders")
            await answer_with(client, ["records"], basic("bob"), topic="secrets")
            for query in ({"topic": "secrets"}, {"group": "any"}):
                hidden = await client.get("/api/history", params=query, headers=basic("alice"))
                assert hidden.status_code == 403
            assert (await answer_with(client, ["records"], basic("alice")))["problem"] == ""
            await answer_with(client, ["records", "bytes", "size"], basic("plots", "plots-secret"), topic="secrets")


async def test_without_such_a_principal_sampling_begins_with_the_first_user() -> None:
    with EmbeddedBroker(["orders"], security="sasl_plaintext", users=USERS, acls=ACLS) as broker:
        async with app_client(broker.bootstrap_servers, {**SETTINGS, **OFTEN}) as client:
            answer = await answer_with(client, ["records"], basic("alice"), topic="orders")
            assert answer["problem"] == ""
