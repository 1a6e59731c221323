"""REST v3 on a secured cluster: each user may do what their ACLs allow, and is told what not."""

from __future__ import annotations

import json
from typing import Any

from barnabas.embedded import EmbeddedBroker
from tests.web.access.secured import SETTINGS, USERS, basic
from tests.web.running import app_client

ACLS = ["alice write topic orders", "bob describe topic orders", "bob describe topic secrets"]
RECORD = json.dumps({"value": {"type": "STRING", "data": "x"}}) * 2
JSON = {"content-type": "application/json"}


async def test_what_a_user_may_do_is_what_the_acls_say() -> None:
    with EmbeddedBroker(["orders", "secrets"], users=USERS, acls=ACLS) as broker:
        async with app_client(broker.bootstrap_servers, SETTINGS) as client:

            async def ask(user: str, method: str, path: str, **options: Any) -> tuple[int, Any]:
                headers = {**basic(user), **JSON}
                response = await client.request(method, f"{here}{path}", headers=headers, **options)
                return response.status_code, response.text

            def code(answer: tuple[int, Any]) -> tuple[int, int]:
                return answer[0], json.loads(answer[1].splitlines()[0])["error_code"]

            nobody = await client.get("/v3/clusters")
            assert (nobody.status_code, nobody.json()["error_code"]) == (401, 40101)
            wrong = await client.get("/v3/clusters", headers=basic("alice", "wrong"))
            assert (wrong.status_code, wrong.json()["error_code"]) == (401, 40101)
            clusters = (await client.get("/v3/clusters", headers=basic("alice"))).json()["data"]
            here = f"/v3/clusters/{clusters[0]['cluster_id']}"

            status, text = await ask("alice", "POST", "/topics/orders/records", content=RECORD)
            assert status == 200 and [json.loads(line)["offset"] for line in text.splitlines()] == [0, 1]
            assert code(await ask("alice", "POST", "/topics/secrets/records", content=RECORD)) == (403, 40301)
            assert code(await ask("alice", "DELETE", "/topics/orders")) == (403, 40301)
            assert code(await ask("alice", "GET", "/topics/orders/configs")) == (403, 40301)
            assert code(await ask("alice", "GET", "/acls")) == (403, 40301)
            topics = json.loads((await ask("alice", "GET", "/topics"))[1])["data"]
            assert [row["topic_name"] for row in topics] == ["orders"]

            status, text = await ask("bob", "POST", "/topics/orders/records", content=RECORD)
            assert status == 200 and [json.loads(line)["error_code"] for line in text.splitlines()] == [40301, 40301]
            given = broker.client_settings()
            acl = {
                "resource_type": "TOPIC",
                "resource_name": "orders",
                "pattern_type": "LITERAL",
                "principal": "User:bob",
            }
            acl |= {"host": "*", "operation": "WRITE", "permission": "ALLOW"}
            admin = basic(given["sasl.username"], given["sasl.password"])
            assert (await client.post(f"{here}/acls", json=acl, headers=admin)).status_code == 201
            status, text = await ask("bob", "POST", "/topics/orders/records", content=RECORD)
            assert [json.loads(line)["error_code"] for line in text.splitlines()] == [200, 200], text
