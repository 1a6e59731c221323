"""The application as a whole: what every interface has."""

from __future__ import annotations

import httpx

from barnabas.embedded import EmbeddedBroker
from tests.web.running import WRITES, app_client, running_web


async def test_it_says_who_asks_and_what_is_allowed() -> None:
    with EmbeddedBroker() as broker:
        for settings, can_write in (({}, False), (WRITES, True)):
            async with app_client(broker.bootstrap_servers, settings) as client:
                state = (await client.get("/api/session")).json()
                assert (state["user"], state["wants_login"], state["can_write"]) == ("ANONYMOUS", False, can_write)


async def test_an_error_has_the_form_of_its_interface() -> None:
    async with app_client("127.0.0.1:1") as client:
        assert (await client.get("/api/nothing")).json() == {
            "error": {"code": "HTTP_404", "message": "Not Found", "next": ""}
        }
        assert (await client.get("/v3/nothing")).json() == {"error_code": 404, "message": "Not Found"}


def test_a_process_serves_until_it_is_told_to_stop() -> None:
    with EmbeddedBroker() as broker:
        with running_web(broker.bootstrap_servers) as web:
            assert httpx.get(f"{web.url}/", follow_redirects=True).url.path == "/ui/"
            assert httpx.get(f"{web.url}/api/session").json()["user"] == "ANONYMOUS"
        assert web.process.returncode == 0
