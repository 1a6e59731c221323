"""What users with few rights see of the cluster, and what they are told that they may not do."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.access.secured import ACLS, SETTINGS, USERS, basic
from tests.web.page.asking import PageClient
from tests.web.running import app_client

DENIED = "CLUSTER_AUTHORIZATION_FAILED"
SHOWN: list[tuple[str, dict[str, Any]]] = [
    ("groups", {"groups": [], "missing": []}),
    ("transactions", {"transactions": []}),
]
"""A list has what its reader may see."""
REFUSED: list[tuple[str, Any, str]] = [
    ("users", None, DENIED),
    ("quotas", None, DENIED),
    ("reassignments", None, DENIED),
    ("transactions/hanging", None, "TOPIC_AUTHORIZATION_FAILED"),
    ("groups/details?group=g", None, "GROUP_AUTHORIZATION_FAILED"),
    ("users", {"name": "eve", "password": "p"}, DENIED),
    ("quotas", {"entity": {"user": "eve"}, "quotas": {"producer_byte_rate": 1}}, DENIED),
    ("groups/delete", {"group": "g"}, "GROUP_AUTHORIZATION_FAILED"),
    ("groups/offsets", {"group": "g", "to": "latest", "topics": ["orders"]}, "GROUP_AUTHORIZATION_FAILED"),
    ("leaders/elect", {"partitions": [{"topic": "orders", "partition": 0}]}, DENIED),
    ("balance/plan", {"sample_s": 0}, DENIED),
]


@pytest.fixture(scope="module")
def servers() -> Any:
    with EmbeddedBroker(["orders", "secrets"], security="sasl_plaintext", users=USERS, acls=ACLS) as broker:
        yield broker.bootstrap_servers


async def test_a_user_sees_and_changes_what_the_cluster_allows(servers: str) -> None:
    async with app_client(servers, SETTINGS) as http:
        assert (await http.get("/api/groups")).status_code == 401
        http.headers.update(basic("alice"))
        page = PageClient(http)
        for path, shown in SHOWN:
            assert await page.get(path) == shown
        assert (await page.get("leaders"))["partitions_count"] == 1
        for path, body, code in REFUSED:
            response = await (http.get(f"/api/{path}") if body is None else http.post(f"/api/{path}", json=body))
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (403, code), (path, body, error)
            assert USERS["alice"] not in response.text
        health = await page.get("health")
        assert any(DENIED in each for each in health["not_seen"])


async def test_a_health_check_is_of_its_reader(servers: str) -> None:
    async with app_client(servers, SETTINGS) as http:
        seen = {}
        for user in USERS:
            found = (await http.get("/api/health", headers=basic(user))).json()
            seen[user] = found["checked_ms"], found["partitions_count"]
        assert seen["alice"] != seen["bob"]
        assert {count for _, count in seen.values()} == {1}
