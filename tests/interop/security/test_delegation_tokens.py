"""`kafka-delegation-tokens.sh`, and Java clients that log in with what it makes: of this broker as of Apache Kafka 3.9.1."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.interop.conftest import BROKERS, need_java
from tests.interop.security.token_broker import (
    CLIENTS,
    PLAIN_MODULE,
    SCRAM_MODULE,
    client_file,
    produced_and_consumed,
    secured,
)
from tests.oracle import tools

pytestmark = pytest.mark.interop

USERS = 'user_alice="alice-secret" user_bob="bob-secret"'
SETTINGS = {
    f"{CLIENTS}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{CLIENTS}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {USERS};",
    f"{CLIENTS}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    f"{CLIENTS}.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "delegation.token.secret.key": "the secret of tokens",
}
ROW = re.compile(r"^(?P<id>[\w-]{22})\s+(?P<hmac>[A-Za-z0-9+/=]{88})\s+", re.MULTILINE)


@pytest.fixture(autouse=True)
def java() -> None:
    need_java()


def by_password(folder: Path, user: str) -> str:
    return client_file(folder, user, "PLAIN", f'{PLAIN_MODULE} required username="{user}" password="{user}-secret";')


def by_token(folder: Path, token: re.Match[str], mechanism: str) -> str:
    login = f'username="{token["id"]}" password="{token["hmac"]}" tokenauth="true"'
    return client_file(folder, f"token-{mechanism}", mechanism, f"{SCRAM_MODULE} required {login};")


@pytest.mark.parametrize("kind", BROKERS)
def test_tokens_are_made_used_renewed_and_ended(kind: str, tmp_path: Path) -> None:
    broker, bootstrap = secured(kind, SETTINGS)
    alice, bob = by_password(tmp_path, "alice"), by_password(tmp_path, "bob")

    def tokens(client: str, *arguments: str, check: bool = True) -> str:
        return tools.run(
            "delegation-tokens", ["--bootstrap-server", bootstrap, "--command-config", client, *arguments], check=check
        )

    with broker:
        made = tokens(alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        token = ROW.search(made)
        assert token is not None and "User:alice" in made and "User:bob" in made, made
        client = by_token(tmp_path, token, "SCRAM-SHA-512")
        assert produced_and_consumed(bootstrap, client, f"orders-{kind}") == ["one", "two"]
        # A token makes no other token.
        refused = tokens(client, "--create", "--max-life-time-period", "-1", check=False)
        assert "DelegationTokenDisabled" in refused or "not allowed" in refused.lower(), refused
        assert "Completed renew" in tokens(bob, "--renew", "--renew-time-period", "600000", "--hmac", token["hmac"])
        assert token["id"] in tokens(bob, "--describe", "--owner-principal", "User:alice")
        assert "Completed expire" in tokens(alice, "--expire", "--expiry-time-period", "-1", "--hmac", token["hmac"])
        assert token["id"] not in tokens(alice, "--describe")
        listed = tools.run(
            "topics", ["--bootstrap-server", bootstrap, "--command-config", client, "--list"], check=False, timeout_s=60
        )
        assert "Authentication failed" in listed, json.dumps(listed)
