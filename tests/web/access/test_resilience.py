"""What happens to a session when brokers end, when rights are taken away, and when its user is removed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.embedded import EmbeddedBroker
from client.admin import acls, scram_users
from client.admin.acls import AclWords
from client.blocking.cluster_client import ClusterClient
from client.settings.parsing import parse_client
from security.sasl.scram import MECHANISMS
from tests.web.access.secured import ACLS, SETTINGS, USERS, Page, basic, who
from tests.web.running import app_client

SCRAM = MECHANISMS["SCRAM-SHA-256"]
QUICK = {**SETTINGS, "default.api.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(["orders", "secrets"], security="sasl_plaintext", users=USERS, acls=ACLS) as one:
        yield one


def administered(broker: EmbeddedBroker, steps: acls.Steps[object]) -> None:
    with ClusterClient(parse_client(broker.client_settings("admin"))) as client:
        client.run(steps)


async def test_a_session_outlives_its_brokers(broker: EmbeddedBroker) -> None:
    async with app_client(broker.bootstrap_servers, QUICK, router=who()) as client:
        page = Page(client)
        await page.log_in()
        broker.kill()
        answer = await page.ask("GET", "/api/who")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "UNREACHABLE")
        assert (await page.ask("GET", "/api/session")).json()["user"] == "alice"
        assert (await client.get("/api/who", headers=basic("bob"))).status_code == 503  # no failed login of bob's
        broker.restart()
        assert (await page.ask("GET", "/api/who")).json() == {"name": "alice", "topics": ["orders"]}
        assert (await client.get("/api/who", headers=basic("bob"))).json()["name"] == "bob"


async def test_rights_that_are_taken_away_and_given_back(broker: EmbeddedBroker) -> None:
    right = AclWords("topic", "orders", "literal", "User:alice", "*", "describe", "allow")
    async with app_client(broker.bootstrap_servers, SETTINGS, router=who()) as client:
        page = Page(client)
        await page.log_in()
        administered(broker, acls.delete(right))
        assert (await page.ask("GET", "/api/who")).json() == {"name": "alice", "topics": []}
        administered(broker, acls.create([right]))
        assert (await page.ask("GET", "/api/who")).json() == {"name": "alice", "topics": ["orders"]}


async def test_the_session_of_a_user_who_is_removed_ends_with_its_connections(broker: EmbeddedBroker) -> None:
    salted = SCRAM.salted_password("carol-secret", b"salt", 4096)
    administered(broker, scram_users.set_credential("carol", SCRAM, salted, b"salt", 4096))
    async with app_client(broker.bootstrap_servers, {**QUICK, "sasl.mechanism": SCRAM.name}, router=who()) as client:
        page = Page(client)
        assert (await page.log_in("carol", "carol-secret")).status_code == 200
        by_password = basic("carol", "carol-secret")
        for headers in ({}, by_password):
            assert (await client.get("/api/who", headers=headers)).json()["name"] == "carol"
        administered(broker, scram_users.delete("carol", [SCRAM]))
        broker.restart()
        for headers in ({}, by_password):
            answer = await client.get("/api/who", headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "LOGIN_REFUSED")
        assert (await page.ask("GET", "/api/session")).json()["user"] is None
        assert (await page.log_in("carol", "carol-secret")).status_code == 401
