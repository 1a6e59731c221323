"""What programs say about who they are."""

from __future__ import annotations

import base64
import json

import pytest

from client.settings.values import BearerSettings, ClientSettings, LoginSettings
from web.access.credentials import BadCredentials, PasswordCredentials, TokenCredentials, parse_authorization
from web.access.identity import Identity
from web.access.user_logins import UserLogins

PLAIN, SCRAM, OAUTH = (
    ClientSettings(servers=(), login=LoginSettings(mechanism))
    for mechanism in ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER")
)


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def token(**claims: object) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in ({"alg": "x"}, claims)
    ]
    return f"{parts[0]}.{parts[1]}.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (basic("alice:a:b"), PasswordCredentials("alice", "a:b")),
        (basic("é:ü").replace("Basic", "bAsIc"), PasswordCredentials("é", "ü")),
        ("Bearer a.b.c", TokenCredentials("a.b.c")),
        ("bearer   a-_~+/.=  ", TokenCredentials("a-_~+/.=")),
    ],
)
def test_headers(header: str, expected: PasswordCredentials | TokenCredentials) -> None:
    assert parse_authorization(header) == expected


@pytest.mark.parametrize(
    "header",
    [
        *("", "Basic", "Basic secret!", "Basic c2VjcmV0", "Bearer", "Bearer secret secret", "Bearer secret\u00e9"),
        *("Digest secret", "secret", basic(":secret"), basic("secret:")),
        "Basic " + base64.b64encode(b"\xff:secret").decode(),
    ],
)
def test_what_says_nothing(header: str) -> None:
    with pytest.raises(BadCredentials) as raised:
        parse_authorization(header)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "given", [PasswordCredentials("alice", "secret"), TokenCredentials("secret")], ids=["password", "token"]
)
def test_no_secret_is_in_a_repr(given: PasswordCredentials | TokenCredentials) -> None:
    assert "secret" not in repr(given)


def test_whom_credentials_are_of() -> None:
    password, bearer = PasswordCredentials("alice", "x"), TokenCredentials(token(sub="alice", exp=1))
    for client, mechanism in ((PLAIN, "PLAIN"), (SCRAM, "SCRAM-SHA-512")):
        assert UserLogins(client).identity(password) == Identity(LoginSettings(mechanism, "alice", "x"), "alice")
    for client in (PLAIN, OAUTH):
        found = UserLogins(client).identity(bearer)
        assert found == Identity(LoginSettings("OAUTHBEARER", bearer=BearerSettings(token=bearer.token)), "alice")
        assert bearer.token not in repr(found)


@pytest.mark.parametrize(
    ("client", "given"),
    [
        (OAUTH, PasswordCredentials("alice", "x")),
        (PLAIN, PasswordCredentials("al\0ice", "x")),
        (PLAIN, PasswordCredentials("alice", "\0x")),
        (PLAIN, PasswordCredentials("alice", "\ud800")),
        (PLAIN, PasswordCredentials("alice", "x" * 1_001)),
        (PLAIN, TokenCredentials("opaque")),
        (PLAIN, TokenCredentials("a.b.c")),
        (PLAIN, TokenCredentials(token(exp=1))),
        (PLAIN, TokenCredentials(token(sub="alice"))),
    ],
)
def test_credentials_that_no_cluster_can_have(
    client: ClientSettings, given: PasswordCredentials | TokenCredentials
) -> None:
    with pytest.raises(BadCredentials):
        UserLogins(client).identity(given)
