"""Logging in at a provider, whose tokens the brokers take: what is let in, what is not, and how long."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.doubles.clock import ManualClock
from tests.interop.security.token_broker import CLIENTS, OAUTH_MODULE, secured
from tests.oracle.barnabas import Barnabas
from tests.oracle.kafka import ApacheKafka
from tests.security.sasl.bearer_tokens import rsa_key, rsa_row, signed, unsecured
from tests.web.access.fake_provider import ISSUER, KEYS, SETTINGS, FakeProvider
from tests.web.access.secured import Page, who
from tests.web.running import WRITES, app_client
from web.access.access import Access
from web.access.attempt import Attempt, AttemptCookies, page_of
from web.access.origins import OAUTH_CALLBACK
from web.surroundings import Surroundings

HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
CLIENT = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **WRITES}
FROM_PROVIDER = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "User-Agent": "Mozilla/5.0"}


def started(kind: str, folder: Any) -> tuple[Barnabas | ApacheKafka, str]:
    """A broker that takes the tokens of the provider, and its address."""
    keys = folder / "keys.json"
    keys.write_bytes(KEYS)
    given = {
        f"{CLIENTS}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{CLIENTS}.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        f"{CLIENTS}.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    return secured(kind, given)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker, bootstrap = started("barnabas", tmp_path_factory.mktemp("keys"))
    with broker:
        yield bootstrap


@asynccontextmanager
async def web(servers: str, provider: FakeProvider, clock: Any = None) -> AsyncIterator[httpx.AsyncClient]:
    around = (
        Surroundings(http=provider.client()) if clock is None else Surroundings(http=provider.client(), clock=clock)
    )
    async with app_client(servers, {**CLIENT, **SETTINGS}, around, router=who()) as client:
        yield client


def manual_clock() -> ManualClock:
    """The time of now, which stands still: what tokens say is of the real time."""
    return ManualClock(wall_ahead_ms=int(time.time() * 1000))


async def led_to_provider(client: httpx.AsyncClient, next_: str = "/ui/topics?filter=x") -> str:
    answer = await client.get("/api/oauth/login", params={"next": next_}, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 303
    return answer.headers["Location"]


async def logged_in(client: httpx.AsyncClient, provider: FakeProvider, **changed: str) -> httpx.Response:
    """Go through the login; what the browser comes back with may be `changed`. Returns the last answer."""
    back = {**provider.let_in(await led_to_provider(client)), **changed}
    return await client.get(OAUTH_CALLBACK, params=back, headers=FROM_PROVIDER)


async def life_of_a_session(servers: str) -> None:
    provider = FakeProvider()
    async with web(servers, provider) as client:
        page = Page(client)
        state = (await page.ask("GET", "/api/session")).json()
        assert (state["oauth"], state["takes_passwords"]) == ("login.example.com", False)
        answer = await logged_in(client, provider)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/ui/topics?filter=x")
        state = (await page.ask("GET", "/api/session")).json()
        assert state["user"] == "alice"
        page.csrf = state["csrf"]
        assert (await page.ask("POST", "/api/who")).json() == "alice"
        assert len(client.cookies.jar) == 1  # that of the login is gone
        await page.ask("DELETE", "/api/session")
        assert provider.revoked == ["refresh-alice"]
        assert (await page.ask("GET", "/api/who")).status_code == 401
        bearer = {"Authorization": f"Bearer {provider.access_token(sub='bob')}"}
        assert (await client.get("/api/who", headers=bearer)).json()["name"] == "bob"
        for wrong in (provider.access_token(aud="other"), provider.access_token(exp=1), unsecured(sub="bob"), "x"):
            assert (await client.get("/api/who", headers={"Authorization": f"Bearer {wrong}"})).status_code == 401
        by_password = await client.get("/api/who", headers={"Authorization": "Basic YTpi"})
        assert by_password.status_code == 401


async def test_a_session_of_this_broker(servers: str) -> None:
    await life_of_a_session(servers)


@pytest.mark.oracle
async def test_a_session_of_apache_kafka(tmp_path: Any) -> None:
    broker, bootstrap = started("kafka", tmp_path)
    with broker:
        await life_of_a_session(bootstrap)


def _id_token(text: str) -> Any:
    return lambda told: {**told, "id_token": text}


NONCE_OF_ANOTHER = signed(rsa_key(), key_id="one", sub="alice", aud="page", iss=ISSUER, exp=2**33, iat=1, nonce="other")


@pytest.mark.parametrize(
    ("changed", "broken", "word"),
    [
        ({"state": "of another browser"}, {}, "expired"),
        ({"state": ""}, {}, "expired"),
        ({"error": "access_denied"}, {}, "denied"),
        ({"error": "server_error", "code": ""}, {}, "provider"),
        ({"code": "of somebody else"}, {}, "provider"),
        ({"iss": "https://evil.example.com"}, {}, "provider"),
        ({}, {"token": _id_token(NONCE_OF_ANOTHER)}, "provider"),
        ({}, {"token": _id_token(unsecured(aud="page", iss=ISSUER, exp=2**33))}, "provider"),
        ({}, {"token": _id_token(signed("0" * 64, "HS256", aud="page", iss=ISSUER, exp=2**33))}, "provider"),
        ({}, {"token": lambda told: {**told, "id_token": None}}, "provider"),
        ({}, {"token": lambda told: {**told, "token_type": "mac"}}, "provider"),
        ({}, {"token": lambda told: {**told, "access_token": 1}}, "provider"),
        ({}, {"token": lambda _: [1]}, "provider"),
        ({}, {"token": lambda _: httpx.Response(200, text="<html>")}, "provider"),
        ({}, {"token": lambda _: httpx.Response(200, content=b" " * (1 << 21))}, "provider"),
        ({}, {"token": lambda _: httpx.Response(503)}, "unreachable"),
        ({}, {"token": lambda told: {**told, "access_token": "opaque"}}, "refused"),
        ({}, {"token": lambda told: {**told, "access_token": signed(rsa_key(1), key_id="one", aud="kafka")}}, "refused"),
    ],
)  # fmt: skip
async def test_who_is_not_let_in(
    servers: str, changed: dict[str, str], broken: dict[str, Any], word: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    provider = FakeProvider()
    provider.broken = broken
    async with web(servers, provider) as client:
        answer = await logged_in(client, provider, **changed)
        assert answer.headers["Location"] == f"/ui/?login_problem={word}"
        assert (await client.get("/api/session")).json()["user"] is None
    told = "".join(record.getMessage() for record in caplog.records if record.name != "httpx")  # the test's own client
    for secret in ("client:secret", "client%3Asecret", "refresh-alice", "eyJ", "code-0"):
        assert secret not in told


@pytest.mark.parametrize(
    ("name", "broken", "word"),
    [
        ("openid-configuration", lambda told: {**told, "issuer": "https://evil.example.com"}, "provider"),
        ("openid-configuration", lambda told: {**told, "authorization_endpoint": "http://login.example.com/"}, "provider"),
        ("openid-configuration", lambda told: {**told, "authorization_endpoint": "javascript:alert(1)"}, "provider"),
        ("openid-configuration", lambda told: {**told, "jwks_uri": None}, "provider"),
        ("openid-configuration", lambda _: httpx.Response(302, headers={"Location": "https://evil.example.com"}), "provider"),
        ("keys", lambda _: {"keys": [{"kty": "what"}]}, "provider"),
        ("keys", lambda _: {"keys": 1}, "provider"),
        ("keys", lambda _: httpx.Response(500), "unreachable"),
    ],
)  # fmt: skip
async def test_a_provider_that_does_not_describe_itself(name: str, broken: Any, word: str) -> None:
    provider = FakeProvider()
    provider.broken = {name: broken}
    async with web("127.0.0.1:1", provider) as client:
        assert await led_to_provider(client) == f"/ui/?login_problem={word}"


async def test_a_login_belongs_to_the_browser_that_began_it(servers: str) -> None:
    provider = FakeProvider()
    async with web(servers, provider) as client:
        back = provider.let_in(await led_to_provider(client))
        client.cookies.clear()  # another browser follows the link
        answer = await client.get(OAUTH_CALLBACK, params=back, headers=FROM_PROVIDER)
        assert answer.headers["Location"] == "/ui/?login_problem=expired"
        assert "token" not in provider.asked
        refused = await client.get("/api/oauth/login", headers={"Sec-Fetch-Site": "cross-site"})
        assert refused.status_code == 403  # no other site begins a login


async def test_new_keys_of_a_provider_are_asked_for(servers: str) -> None:
    clock = manual_clock()
    provider = FakeProvider()
    provider.broken = {"keys": lambda _: {"keys": [rsa_row(rsa_key(1), kid="old")]}}
    async with web(servers, provider, clock) as client:
        assert (await logged_in(client, provider)).headers["Location"].endswith("=provider")
        provider.broken = {}
        assert (await logged_in(client, provider)).headers["Location"].endswith("=provider")
        clock.now_ms += 61_000
        assert (await logged_in(client, provider)).headers["Location"] == "/ui/topics?filter=x"


async def test_a_session_lives_as_long_as_the_provider_prolongs_it(servers: str) -> None:
    clock, provider = manual_clock(), FakeProvider(life_s=1_000)
    async with web(servers, provider, clock) as client:
        page = Page(client)
        access: Access = client._transport.app.state.parts.access  # type: ignore[attr-defined]
        await logged_in(client, provider)
        [session] = access.sessions.all()
        first = session.identity
        for passed_ms, is_replaced in ((700_000, False), (200_000, True)):
            clock.now_ms += passed_ms
            provider.life_s = 2_000
            await access.look_after()
            assert (session.identity != first) is is_replaced
            assert (await page.ask("GET", "/api/who")).json()["name"] == "alice"
        provider.is_down = True
        for passed_ms, user in ((1_050_000, "alice"), (60_000, None)):
            clock.now_ms += passed_ms
            await access.look_after()
            assert (await page.ask("GET", "/api/session")).json()["user"] == user


async def test_without_a_provider_there_is_nothing_to_begin() -> None:
    async with app_client("127.0.0.1:1", CLIENT) as client:
        for path in ("/api/oauth/login", OAUTH_CALLBACK):
            assert (await client.get(path)).status_code == 404


def test_the_cookie_of_a_login_is_of_this_process() -> None:
    around = Surroundings()
    cookies, attempt = AttemptCookies(around.randomness), Attempt.begin("/ui/", around.randomness, 1_000)
    text = cookies.text(attempt)
    assert cookies.attempt(text) == attempt
    assert attempt.is_of(attempt.state, 1_000)
    for state, now_ms in (("x", 1_000), (attempt.nonce, 1_000), (attempt.state, 601_000), (attempt.state, 999)):
        assert not attempt.is_of(state, now_ms)
    for other in (
        "",
        ".",
        text[:-1],
        text[1:],
        f"{text.partition('.')[0]}.",
        AttemptCookies(around.randomness).text(attempt),
    ):
        assert cookies.attempt(other) is None
    assert not any(secret in repr(attempt) for secret in (attempt.state, attempt.nonce, attempt.verifier))


@pytest.mark.parametrize(
    ("next_", "page"),
    [
        ("/ui/topics/a%20b?filter=x", "/ui/topics/a%20b?filter=x"),
        *((other, "/ui/") for other in ("", "/", "//evil.example.com", "https://evil.example.com", "/ui/../api/x")),
        *((other, "/ui/") for other in ("/ui/\r\nX: y", "/ui/\\evil", "/ui", "/ui/" + "x" * 1_000)),
    ],
)
def test_where_a_browser_is_led_afterwards(next_: str, page: str) -> None:
    assert page_of(next_) == page
