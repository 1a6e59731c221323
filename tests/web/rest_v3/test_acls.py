"""ACLs over REST v3."""

from __future__ import annotations

from typing import Any

from barnabas.embedded import EmbeddedBroker
from tests.web.running import WRITES, app_client

ENTRY = {
    "resource_type": "TOPIC", "resource_name": "pay ments", "pattern_type": "PREFIXED", "principal": "User:alice",
    "host": "*", "operation": "READ", "permission": "ALLOW",
}  # fmt: skip
ALL = {"resource_type": "ANY", "pattern_type": "ANY", "operation": "ANY", "permission": "ANY"}


async def test_they_are_made_found_and_deleted() -> None:
    authorizer = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(settings=authorizer) as broker:
        async with app_client(broker.bootstrap_servers, WRITES) as client:
            cluster = (await client.get("/v3/clusters")).json()["data"][0]
            here = cluster["acls"]["related"]
            made = await client.post(here, json=ENTRY)
            assert made.status_code == 201 and not made.content
            batch = [{**ENTRY, "operation": each} for each in ("WRITE", "describe_configs")]
            assert (await client.post(f"{here}:batch", json={"data": batch})).status_code == 201
            assert [row["operation"] for row in (await client.get(made.headers["Location"])).json()["data"]] == ["READ"]
            found = (await client.get(here, params={"principal": "User:alice"})).json()
            assert [row["operation"] for row in found["data"]] == ["DESCRIBE_CONFIGS", "READ", "WRITE"]
            assert {name: found["data"][1][name] for name in ENTRY} == ENTRY
            deleted = await client.delete(here, params={**ALL, "operation": "READ"})
            assert [row["operation"] for row in deleted.json()["data"]] == ["READ"]
            assert len((await client.delete(here, params=ALL)).json()["data"]) == 2
            assert (await client.get(here)).json()["data"] == []


async def test_what_is_refused() -> None:
    with EmbeddedBroker() as broker:
        async with app_client(broker.bootstrap_servers, WRITES) as client:
            here = (await client.get("/v3/clusters")).json()["data"][0]["acls"]["related"]

            async def refused(method: str, code: int, **options: Any) -> None:
                response = await client.request(method, here, **options)
                assert (response.status_code, response.json()["error_code"]) == (400, code), response.text

            await refused("POST", 40002, json=ENTRY)  # the broker has no authorizer
            await refused("POST", 40002, json={**ENTRY, "operation": "ANY"})
            await refused("POST", 40002, json={**ENTRY, "resource_type": "PLANET"})
            await refused("POST", 40002, json={**ENTRY, "principal": ""})
            await refused("POST", 400, json={**ENTRY, "more": 1})
            await refused("DELETE", 400)
            await refused("GET", 40002, params={"permission": "PERHAPS"})
