"""SCRAM credentials of users follow the store, beside their quotas."""

from __future__ import annotations

import logging

import pytest

from broker.settings.scram_users import ScramUsers, user_of_path, user_path
from security.principal import Principal
from security.sasl.scram import ScramCredential, TokenLogin

CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)


@pytest.mark.parametrize(
    ("name", "path"), [("alice", "users/alice"), ("a/b c", "users/a%2Fb%20c"), ("<default>", "users/%3Cdefault%3E")]
)
def test_names_in_paths(name: str, path: str) -> None:
    assert user_path(name) == path
    assert user_of_path(path) == name


@pytest.mark.parametrize("path", ["clients/alice", "users/alice/clients/app", "users", "users/", "ips/10.0.0.1"])
def test_other_entities_are_no_users(path: str) -> None:
    assert user_of_path(path) is None


def test_credentials_come_change_and_go() -> None:
    users = ScramUsers()
    users.on_entity_changed("users/a%20b", {"SCRAM-SHA-256": CREDENTIAL.text, "producer_byte_rate": "1"})
    assert users.user("SCRAM-SHA-256", "a b") == CREDENTIAL
    assert users.user("SCRAM-SHA-512", "a b") is None and users.user("SCRAM-SHA-256", "a%20b") is None
    users.on_entity_changed("users/a%20b/clients/x", {})
    assert users.user("SCRAM-SHA-256", "a b") == CREDENTIAL
    users.on_entity_changed("users/a%20b", {"SCRAM-SHA-512": CREDENTIAL.text})
    assert users.user("SCRAM-SHA-256", "a b") is None and users.user("SCRAM-SHA-512", "a b") == CREDENTIAL
    users.on_entity_changed("users/a%20b", {})
    assert users.user("SCRAM-SHA-512", "a b") is None


def test_what_cannot_be_read_is_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    users = ScramUsers()
    with caplog.at_level(logging.WARNING):
        users.on_entity_changed("users/alice", {"SCRAM-SHA-256": "topsecret", "SCRAM-SHA-512": CREDENTIAL.text})
    assert users.user("SCRAM-SHA-256", "alice") is None and users.user("SCRAM-SHA-512", "alice") == CREDENTIAL
    (line,) = caplog.messages
    assert line == "stored credential ignored: path=users/alice setting=SCRAM-SHA-256 error=Credentials not valid"


def test_tokens_are_somebody_elses() -> None:
    users = ScramUsers()
    assert users.token("SCRAM-SHA-256", "id") is None
    login = TokenLogin(CREDENTIAL, Principal("User", "owner"), 5)
    users.token_login = lambda mechanism, token_id: login if token_id == "id" else None
    assert users.token("SCRAM-SHA-256", "id") == login and users.token("SCRAM-SHA-256", "other") is None
