"""The application as a whole: what every interface has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
from fastapi import APIRouter, Request

from barnabas.embedded import EmbeddedBroker
from tests.web.running import WRITES, app_client, running_web

PLAIN = {"content-type": "application/octet-stream"}
V2 = {"content-type": "application/vnd.kafka.v2+json"}


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


async def test_addresses_of_published_interfaces_may_end_with_a_slash_and_nobody_is_sent_to_a_host_of_the_request() -> (
    None
):
    settings = WRITES | {"barnabas.web.allowed.hosts": "other.example"}
    with EmbeddedBroker(topics={"orders": 1}) as broker:
        async with app_client(broker.bootstrap_servers, settings) as client:
            for path in ("/topics", "/topics/orders", "/brokers", "/v3/clusters"):
                bare, slash = await client.get(path), await client.get(f"{path}/")
                assert (bare.status_code, bare.content) == (slash.status_code, slash.content), path
                assert bare.is_success, path
            created = await client.post("/consumers/readers/", json={"name": "one"}, headers=V2)
            assert created.json()["instance_id"] == "one"
            for path, status in {"/v3/nothing/": 404, "/api/session/": 404, "/static": 404, "/ui": 307}.items():
                response = await client.get(path, headers={"host": "other.example"})
                assert response.status_code == status, path
                assert response.headers.get("location", "/ui/") == "/ui/", path


def test_a_process_serves_until_it_is_told_to_stop() -> None:
    with EmbeddedBroker() as broker:
        with running_web(broker.bootstrap_servers) as web:
            assert httpx.get(f"{web.url}/", follow_redirects=True).url.path == "/ui/"
            assert httpx.get(f"{web.url}/api/session").json()["user"] == "ANONYMOUS"
        assert web.process.returncode == 0


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
