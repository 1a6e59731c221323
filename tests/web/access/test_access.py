"""Who asks, against brokers whose users log in: by a session of the page, by Basic, or nobody."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from tests.doubles.clock import ManualClock
from tests.web.access.secured import ACLS, BROWSER, SETTINGS, USERS, Page, basic, who
from tests.web.running import app_client
from web.access.failed_logins import LIMIT, WINDOW_MS
from web.surroundings import Surroundings

COOKIE = "barnabas-8082"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(["orders", "secrets"], security="sasl_plaintext", users=USERS, acls=ACLS) as one:
        yield one


@asynccontextmanager
async def web(broker: EmbeddedBroker, clock: ManualClock | None = None) -> AsyncIterator[httpx.AsyncClient]:
    surroundings = Surroundings() if clock is None else Surroundings(clock=clock)
    async with app_client(broker.bootstrap_servers, SETTINGS, surroundings, router=who()) as client:
        yield client


async def test_nobody_is_let_in_without_a_login(broker: EmbeddedBroker) -> None:
    async with web(broker) as client:
        state = (await client.get("/api/session")).json()
        assert (state["user"], state["wants_login"], state["takes_passwords"]) == (None, True, True)
        answer = await client.get("/api/who")
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "NOT_LOGGED_IN")
        assert answer.headers["WWW-Authenticate"].startswith("Basic")
        of_browser = await client.get("/api/who", headers=BROWSER)
        assert of_browser.status_code == 401
        assert "WWW-Authenticate" not in of_browser.headers  # the browser would ask for a password by itself


async def test_users_of_the_page_have_their_own_rights_until_they_log_out(broker: EmbeddedBroker) -> None:
    async with web(broker) as client:
        page = Page(client)
        answer = await page.log_in()
        assert (answer.status_code, answer.json()["user"]) == (200, "alice")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert (await page.ask("GET", "/api/who")).json() == {"name": "alice", "topics": ["orders"]}
        assert (await page.ask("GET", "/api/session")).json()["user"] == "alice"
        assert (await page.ask("DELETE", "/api/session")).json()["user"] is None
        client.cookies.set(COOKIE, cookie.partition("=")[2].partition(";")[0])  # of a thief
        assert (await page.ask("GET", "/api/who")).status_code == 401


async def test_each_login_is_a_new_session_and_ends_the_one_before(broker: EmbeddedBroker) -> None:
    async with web(broker) as client:
        page = Page(client)
        of_attacker = {"Cookie": f"{COOKIE}=chosen-by-an-attacker"}
        assert (await page.ask("GET", "/api/session", **of_attacker)).json()["user"] is None
        await page.log_in("alice", **of_attacker)
        first = client.cookies[COOKIE]
        await page.log_in("bob")
        assert len({first, client.cookies[COOKIE], "chosen-by-an-attacker"}) == 3
        assert (await page.ask("GET", "/api/who")).json()["name"] == "bob"
        client.cookies.clear()
        assert (await page.ask("GET", "/api/who", Cookie=f"{COOKIE}={first}")).status_code == 401


async def test_a_session_ends_when_its_user_does_nothing(broker: EmbeddedBroker) -> None:
    clock = ManualClock()
    async with web(broker, clock) as client:
        page = Page(client)
        idle_ms = (await page.log_in()).json()["idle_ms"]
        clock.now_ms += idle_ms - 1
        assert (await page.ask("GET", "/api/who")).status_code == 200
        clock.now_ms += idle_ms - 1
        assert (await page.ask("GET", "/api/who", **{"X-Barnabas-Background": "1"})).status_code == 200
        clock.now_ms += 1
        assert (await page.ask("GET", "/api/who")).status_code == 401


async def test_a_session_changes_something_only_with_its_own_secret(broker: EmbeddedBroker) -> None:
    async with web(broker) as client:
        page = Page(client)
        before = (await page.ask("GET", "/api/session")).json()["csrf"]
        await page.log_in()
        assert (await page.ask("POST", "/api/who")).json() == "alice"
        for csrf in ("", "x", before):
            answer = await page.ask("POST", "/api/who", **{"X-Barnabas-CSRF": csrf})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "REFUSED")


async def test_programs_ask_with_a_password_of_their_own(broker: EmbeddedBroker) -> None:
    async with web(broker) as client:
        for user, topics in (("alice", ["orders"]), ("bob", ["secrets"])):
            answer = await client.get("/api/who", headers=basic(user))
            assert answer.json() == {"name": user, "topics": topics}
            assert (await client.post("/api/who", headers=basic(user))).json() == user
        for wrong in (basic("alice", "bob-secret"), basic("alice", ""), {"Authorization": "Digest x"}):
            answer = await client.get("/api/who", headers=wrong)
            assert answer.status_code == 401
            assert "bob-secret" not in answer.text


async def test_an_address_that_fails_too_often_waits(broker: EmbeddedBroker) -> None:
    clock = ManualClock()
    async with web(broker, clock) as client:
        page = Page(client)
        assert (await client.get("/api/who", headers=basic("alice"))).status_code == 200
        answers = [await page.log_in("bob", f"guess-{number}") for number in range(LIMIT + 1)]
        assert [answer.status_code for answer in answers] == [401] * LIMIT + [429]
        assert answers[-1].headers["Retry-After"] == str(WINDOW_MS // 1000)
        assert (await page.log_in("bob")).status_code == 429
        assert (await client.get("/api/who", headers=basic("bob"))).status_code == 429
        assert (await client.get("/api/who", headers=basic("alice"))).status_code == 200, "it was accepted before"
        clock.now_ms += WINDOW_MS
        assert (await page.log_in("bob")).status_code == 200


async def test_no_secret_is_in_a_log_an_answer_or_a_cookie(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with web(broker) as client:
        page = Page(client)
        answers = [await page.log_in("alice", "wrong-secret"), await page.log_in(), await page.ask("GET", "/api/who")]
        answers += [await client.get("/api/who", headers=basic("bob", "wrong-secret"))]
        answers += [await page.ask("POST", "/api/session", {"user": "alice", "password": ["alice-secret"]})]
        answers += [await page.ask("POST", "/api/session", {"user": "a" * 2_000, "password": "alice-secret"})]
        told = "".join(f"{answer.headers}{answer.text}" for answer in answers) + caplog.text
    for secret in (*USERS.values(), "wrong-secret"):
        assert secret not in told


async def test_a_large_body_is_not_read_before_its_sender_is_known(broker: EmbeddedBroker) -> None:
    async with web(broker) as client:

        async def endless() -> AsyncIterator[bytes]:
            raise AssertionError("the body was asked for")
            yield b""

        page = Page(client)
        page.csrf = (await page.ask("GET", "/api/session")).json()["csrf"]
        for path, headers, status in (
            ("/api/session", {**BROWSER, "X-Barnabas-CSRF": page.csrf}, 413),
            ("/api/session", {**BROWSER, "X-Barnabas-CSRF": page.csrf, "Content-Length": "1000000"}, 413),
            ("/v3/clusters/x/topics", {}, 401),
            ("/topics/orders", basic("alice", "wrong"), 401),
        ):
            sent = {"Content-Type": "application/json", **headers}
            assert (await client.post(path, content=endless(), headers=sent)).status_code == status
