"""Sessions with delegation tokens in place of passwords: of this broker, and of Apache Kafka 3.9.1."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from client.admin import delegation_tokens
from client.blocking.cluster_client import ClusterClient
from client.blocking.credentials import CREDENTIALS
from client.settings.parsing import parse_client
from client.settings.values import LoginSettings
from security.principal import USER_TYPE, Principal
from tests.interop.security.token_broker import CLIENTS, PLAIN_MODULE, SCRAM_MODULE, secured
from tests.web.access.secured import SETTINGS, USERS, Page, basic, who
from tests.web.running import app_client
from web.access import tokens
from web.surroundings import Surroundings

SECRET = {"delegation.token.secret.key": "the secret of tokens"}
ALL_USERS = {**USERS, "web": "web-secret"}
OWN = {"sasl.username": "web", "sasl.password": "web-secret"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(["orders"], SECRET, brokers=2, security="sasl_plaintext", users=ALL_USERS) as broker:
        yield broker.bootstrap_servers


def tokens_of(servers: str, user: str = "alice") -> list[delegation_tokens.Token]:
    given = {"bootstrap.servers": servers, **SETTINGS, "sasl.username": user, "sasl.password": USERS[user]}
    settings = parse_client(given)
    with ClusterClient(settings) as client:
        found = client.run(delegation_tokens.describe([Principal(USER_TYPE, user)]))
    assert settings.login is not None
    CREDENTIALS.forget(settings.login)
    return found


@asynccontextmanager
async def web(servers: str, given: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(servers, {**SETTINGS, **given}, router=who()) as client:
        yield client


def kept_logins() -> list[LoginSettings]:
    """Every login that is in memory."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, LoginSettings)]


async def life_of_a_session(servers: str) -> None:
    """A login makes a token, which the process may renew, and ends at logout; the password is gone."""
    async with web(servers, OWN) as client:
        page = Page(client)
        assert (await page.log_in()).status_code == 200
        assert (await page.ask("GET", "/api/who")).json()["name"] == "alice"
        assert [each.username for each in kept_logins() if each.password == USERS["alice"]] == []
        [token] = tokens_of(servers)
        assert token.renewers == (Principal(USER_TYPE, "web"),)
        assert token.expires_ms - token.issued_ms < 2 * tokens.PERIOD_MS
        await page.ask("DELETE", "/api/session")
        assert tokens_of(servers) == []
        await page.log_in()
        assert len(tokens_of(servers)) == 1
    assert tokens_of(servers) == []  # the process has ended its sessions


async def test_a_session_of_this_broker(servers: str) -> None:
    await life_of_a_session(servers)


@pytest.mark.oracle
async def test_a_session_of_apache_kafka() -> None:
    users = " ".join(f'user_{name}="{password}"' for name, password in ALL_USERS.items())
    given = {
        f"{CLIENTS}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{CLIENTS}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        f"{CLIENTS}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        **SECRET,
    }
    broker, bootstrap = secured("kafka", given)
    with broker:
        await life_of_a_session(bootstrap)


async def test_the_principal_that_samples_ends_tokens_too(servers: str) -> None:
    sampling = {f"barnabas.web.sampling.{name}": text for name, text in OWN.items()}
    async with web(servers, {**sampling, "barnabas.web.history.enable": "false"}) as client:
        page = Page(client)
        await page.log_in()
        assert [token.renewers for token in tokens_of(servers)] == [(Principal(USER_TYPE, "web"),)]
        await page.ask("DELETE", "/api/session")
        assert tokens_of(servers) == []


async def test_without_a_login_of_its_own_the_process_has_tokens_that_end_by_themselves(servers: str) -> None:
    async with web(servers, {}) as client:
        page = Page(client)
        await page.log_in("bob")
        [token] = tokens_of(servers, "bob")
        assert token.renewers == ()
        assert token.max_ms - token.issued_ms == 24 * 3_600_000
        assert (await page.ask("GET", "/api/who")).json()["name"] == "bob"
        assert (await client.get("/api/who", headers=basic("bob"))).json()["name"] == "bob"
        await page.ask("DELETE", "/api/session")


async def test_a_token_is_renewed_until_it_may_not_be(servers: str) -> None:
    given = {"bootstrap.servers": servers, **SETTINGS, **OWN}
    of_alice = {**given, "sasl.username": "alice", "sasl.password": USERS["alice"]}
    process = parse_client(given)
    own = tokens.SessionTokens(process, process, Surroundings(), 24 * 3_600_000)
    with ClusterClient(parse_client(of_alice)) as client:
        token = client.run(delegation_tokens.create([Principal(USER_TYPE, "web")]))
        assert await own.renewed(token) == token
        soon = replace(token, expires_ms=client.run(delegation_tokens.expire(token.hmac, 1_000_000)))
        renewed = await own.renewed(soon)
        assert renewed is not None
        assert renewed.expires_ms > soon.expires_ms + 1_000_000
        client.run(delegation_tokens.expire(token.hmac))
        assert await own.renewed(soon) is None
