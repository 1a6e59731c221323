"""A balance of somebody who logs out ends in order, while the login still holds."""

from __future__ import annotations

import asyncio
import os

from confluent_kafka import Producer

from barnabas.embedded import EmbeddedBroker
from tests.web.access.secured import SETTINGS, USERS, Page
from tests.web.running import app_client

TIMEOUT_S = 30
TOKENS = {"delegation.token.secret.key": "the secret of tokens", "default.replication.factor": "1"}
OWN = {"sasl.username": "alice", "sasl.password": USERS["alice"]}


async def test_a_logout_takes_back_what_is_moving() -> None:
    with EmbeddedBroker({"large": 2}, TOKENS, brokers=2, security="sasl_plaintext", users=USERS) as broker:
        producer = Producer({**broker.client_settings("alice"), "bootstrap.servers": broker.bootstrap_servers})
        for number in range(1_000):  # more than a follower fetches before its throttle counts
            producer.produce("large", os.urandom(10_000), partition=number % 2)
        assert producer.flush(TIMEOUT_S) == 0
        async with app_client(broker.bootstrap_servers, {**SETTINGS, **OWN}) as client:
            page = Page(client)
            assert (await page.log_in()).status_code == 200
            options = {"topics": ["large"], "drain": [0], "sample_s": 0}
            plan = (await page.ask("POST", "/api/balance/plan", options)).json()
            assert plan["moves"], plan
            begun = {"plan_id": plan["plan_id"], "throttle_bytes_per_s": 1}
            assert (await page.ask("POST", "/api/balance/start", begun)).json()["state"] == "running"
            async with asyncio.timeout(TIMEOUT_S):
                while not (await page.ask("GET", "/api/reassignments")).json()["moving"]:  # noqa: ASYNC110  the cluster tells nobody
                    await asyncio.sleep(0.02)
            assert (await page.ask("DELETE", "/api/session")).status_code in (200, 204)
            assert (await page.log_in("bob")).status_code == 200
            ended = (await page.ask("GET", "/api/balance")).json()
            assert (ended["state"], ended["user"], ended["failure"]) == ("stopped", "alice", None)
            assert any(note.startswith("throttles are removed") for note in ended["notes"])
            assert (await page.ask("GET", "/api/reassignments")).json()["moving"] == []
