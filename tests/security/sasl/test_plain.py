"""PLAIN: who gets in, what others are told, and that no secret is in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.principal import Principal
from security.sasl.mechanisms import AuthenticationFailed
from security.sasl.plain import PlainClient, PlainServer, users_of

PASSWORDS = {"alice": "alice-secret", "jürgen": "päss word", "colon": "a:b"}


@pytest.mark.parametrize("name", PASSWORDS)
def test_a_client_of_ours_gets_in(name: str) -> None:
    server, client = PlainServer(PASSWORDS), PlainClient(name, PASSWORDS[name])
    assert server.step(client.first()) == b""
    assert client.answer(b"") is None
    assert server.identity is not None and server.identity.principal == Principal("User", name)


def test_the_user_name_is_a_fit_authorization_id() -> None:
    server = PlainServer(PASSWORDS)
    server.step(b"alice\0alice\0alice-secret")
    assert server.identity is not None


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0alice-secret", "Authentication failed: Invalid username or password"),
        (b"\0\xff\xfe\0\xff", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"alice\0alice-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0alice-secret\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_others_do_not(token: bytes, told: str) -> None:
    server = PlainServer(PASSWORDS)
    with pytest.raises(AuthenticationFailed) as failed:
        server.step(token)
    assert failed.value.client_message == told
    assert "secret" not in str(failed.value) and "alice" not in str(failed.value)
    assert server.identity is None


@given(st.binary(max_size=40))
def test_rubbish_is_refused(token: bytes) -> None:
    server = PlainServer({})
    with pytest.raises(AuthenticationFailed):
        server.step(token)
    assert server.identity is None


def test_users_are_options_of_the_login_module() -> None:
    options = {"username": "me", "password": "mine", "user_a": "1", "user_user_b": "2", "userx": "3"}
    assert users_of(options) == {"a": "1", "user_b": "2"}
