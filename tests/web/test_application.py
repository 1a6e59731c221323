"""The application as a whole: what every interface has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
from fastapi import APIRouter, Request

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


PLAIN = {"content-type": "application/octet-stream"}


async def test_a_body_that_is_too_long_is_refused() -> None:
    router = APIRouter()

    @router.post("/api/test/bytes")
    async def count(request: Request) -> int:
        return len(await request.body())

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 100

    settings = WRITES | {"barnabas.web.request.max.bytes": "1024"}
    async with app_client("127.0.0.1:1", settings, router=router) as client:
        assert (await client.post("/api/test/bytes", content=b"x" * 1024, headers=PLAIN)).json() == 1024
        for content in (b"x" * 1025, parts()):
            assert (await client.post("/api/test/bytes", content=content, headers=PLAIN)).status_code == 413
