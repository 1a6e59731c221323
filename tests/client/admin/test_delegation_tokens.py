"""Delegation tokens, against a broker, and against Apache Kafka 3.9.1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.embedded import EmbeddedBroker
from client.admin import delegation_tokens as tokens
from client.admin.brokers import cluster
from client.blocking.cluster_client import ClusterClient
from client.errors import LoginRefused
from client.settings.parsing import parse_client
from client.settings.values import ClientSettings, LoginSettings
from protocol.errors import ErrorCode, KafkaError
from security.principal import USER_TYPE, Principal
from tests.interop.security.token_broker import CLIENTS, PLAIN_MODULE, SCRAM_MODULE, secured

SECRET = {"delegation.token.secret.key": "the secret of tokens"}
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
ALICE, BOB = (Principal(USER_TYPE, name) for name in PASSWORDS)
HOUR_MS = 3_600_000


def settings_of(servers: str, user: str) -> ClientSettings:
    given = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
    }
    return parse_client(given)


def lives_of_a_token(servers: str) -> None:
    """A token is made, seen, used, renewed by another and ended."""
    of_alice = settings_of(servers, "alice")
    with ClusterClient(of_alice) as alice, ClusterClient(settings_of(servers, "bob")) as bob:
        token = alice.run(tokens.create([BOB], 24 * HOUR_MS))
        assert token.owner == ALICE
        assert token.max_ms - token.issued_ms == 24 * HOUR_MS
        assert token.hmac.hex() not in repr(token)
        assert str(token.hmac) not in repr(token)
        for seen in (alice.run(tokens.describe()), bob.run(tokens.describe([ALICE]))):
            assert [replace(each, renewers=()) for each in seen] == [token]
            assert seen[0].renewers == (BOB,)
        assert alice.run(tokens.describe([BOB])) == alice.run(
            tokens.describe([ALICE])
        )  # who may renew it counts as well
        by_token = replace(of_alice, login=token.login("SCRAM-SHA-512"))
        with ClusterClient(by_token) as client:
            assert client.run(cluster()).brokers
            with pytest.raises(KafkaError) as failed:
                client.run(tokens.expire(token.hmac))
            assert failed.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        sooner_ms = alice.run(tokens.expire(token.hmac, HOUR_MS))
        assert sooner_ms < token.expires_ms
        assert bob.run(tokens.renew(token.hmac, 2 * HOUR_MS)) > sooner_ms
        bob.run(tokens.expire(token.hmac))
        assert alice.run(tokens.describe()) == []
        with pytest.raises(KafkaError) as failed:
            alice.run(tokens.renew(token.hmac))
        assert failed.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        with pytest.raises(LoginRefused), ClusterClient(by_token) as client:
            client.run(cluster())


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(settings=SECRET, security="sasl_plaintext", users=PASSWORDS) as broker:
        yield broker.bootstrap_servers


def test_a_token_of_this_broker(servers: str) -> None:
    lives_of_a_token(servers)


def test_renewers_are_users(servers: str) -> None:
    with ClusterClient(settings_of(servers, "alice")) as alice, pytest.raises(KafkaError) as failed:
        alice.run(tokens.create(renewers=[Principal("Group", "x")]))
    assert failed.value.code is ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.oracle
def test_a_token_of_apache_kafka(tmp_path: Path) -> None:
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    given = {
        f"{CLIENTS}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{CLIENTS}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        f"{CLIENTS}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        **SECRET,
    }
    broker, bootstrap = secured("kafka", given)
    with broker:
        lives_of_a_token(bootstrap)


def test_the_login_of_a_token() -> None:
    token = tokens.Token("id", b"\xff\x00", ALICE, 0, 1, 2)
    assert token.login("SCRAM-SHA-256") == LoginSettings("SCRAM-SHA-256", "id", "/wA=", is_token=True)
