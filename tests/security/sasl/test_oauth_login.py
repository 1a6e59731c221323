"""The broker's own token: its form, when it is replaced, and the request that gets one."""

from __future__ import annotations

import base64
import json

import pytest

from security.sasl.oauth_login import LoginToken, RefreshWindow, credentials_form, credentials_headers, granted_token
from tests.security.sasl.bearer_tokens import NOW_S, rsa_key, signed, unsecured


@pytest.mark.parametrize("text", [signed(rsa_key()), unsecured()])
def test_a_token_is_read(text: str) -> None:
    token = LoginToken.parse(f"\n{text} \n".encode())
    assert (token.text, token.expires_ms) == (text, (NOW_S + 600) * 1000) and text not in repr(token)
    assert granted_token(json.dumps({"access_token": text, "expires_in": 5}).encode()) == token


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"a.b",
        b"a.b.c",
        signed(rsa_key(), exp=None).encode(),
        signed(rsa_key(), sub=None).encode(),
        b"..",
        b"x" * 999,
    ],
)
def test_what_is_no_token(content: bytes) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - one error for all
        LoginToken.parse(content)
    assert not content or content.decode(errors="replace") not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"access_token": 7}', b'{"access_token": "x"}', b"[" * 200_000]
)
def test_what_is_no_grant(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - one error for all
        granted_token(content)


@pytest.mark.parametrize(
    ("life_s", "pause_s"), [(10_000, 8000), (1000, 700), (370, 70), (361, 61), (200, 160), (1, 1), (0, 1), (-50, 1)]
)
def test_when_a_token_is_replaced(life_s: int, pause_s: int) -> None:
    token = LoginToken("x", (NOW_S + life_s) * 1000)
    assert RefreshWindow().pause_ms(token, NOW_S * 1000) == pause_s * 1000


def test_the_request_for_a_token() -> None:
    assert credentials_form("a b") == b"grant_type=client_credentials&scope=a+b"
    assert credentials_form(None) == credentials_form("") == b"grant_type=client_credentials"
    headers = credentials_headers("id", "s:ü")
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == "id:s:ü"
