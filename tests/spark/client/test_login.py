"""The client's side of each mechanism against the server's side of this broker; tokens from files and endpoints."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.security_settings import ClientLogin
from security.oauth_exchange import OAuthBearerServer
from security.oauth_unsecured import UnsecuredTokenValidator
from security.plain import PlainServer
from security.sasl import AuthenticationFailed, SaslServer
from security.scram import MECHANISMS, ScramCredential, ScramServer

login_module: Any = importlib.import_module("barnabas.spark.client.login")
LoginRefused = login_module.LoginRefused
ClientFailed: Any = importlib.import_module("barnabas._private.security.sasl").AuthenticationFailed
NOW_S = 1_770_000_000.0
ALICE = (("username", "alice"), ("password", "se,cr=et"))


def play(login: ClientLogin, server: SaslServer, logins: Any = None) -> str:
    """Who the server says the client is. Raises AuthenticationFailed."""
    client = (logins or login_module.Logins(lambda: NOW_S)).exchange(login)
    token = client.first()
    while token is not None:
        token = client.answer(server.step(token))
    assert server.identity is not None
    return server.identity.principal.name


class Credentials:
    """The credential of alice, in each mechanism."""

    def __init__(self, password: str) -> None:
        self._password = password

    def user(self, mechanism: str, name: str) -> ScramCredential | None:
        if name != "alice":
            return None
        kind = MECHANISMS[mechanism]
        return kind.credential(kind.salted_password(self._password, b"salt" * 6, 4096), b"salt" * 6, 4096)

    def token(self, mechanism: str, token_id: str) -> None:
        return None


def test_plain() -> None:
    assert play(ClientLogin("PLAIN", ALICE), PlainServer({"alice": "se,cr=et"})) == "alice"
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
        play(ClientLogin("PLAIN", ALICE), PlainServer({"alice": "other"}))


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_scram(mechanism: str) -> None:
    def server(password: str) -> ScramServer:
        return ScramServer(MECHANISMS[mechanism], Credentials(password), "of-the-server")

    assert play(ClientLogin(mechanism, ALICE), server("se,cr=et")) == "alice"
    with pytest.raises(AuthenticationFailed, match="wrong password"):
        play(ClientLogin(mechanism, ALICE), server("other"))


class ImpostorServer(ScramServer):
    """Asks for a proof, and has none itself."""

    def step(self, token: bytes) -> bytes:
        answer = super().step(token)
        return b"v=" + base64.b64encode(b"x" * 32) if answer.startswith(b"v=") else answer


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    with pytest.raises(ClientFailed):
        play(
            ClientLogin("SCRAM-SHA-256", ALICE),
            ImpostorServer(MECHANISMS["SCRAM-SHA-256"], Credentials("se,cr=et"), "x"),
        )


def bearer_server() -> OAuthBearerServer:
    return OAuthBearerServer(UnsecuredTokenValidator({}, lambda: int(NOW_S * 1000)))


def test_unsecured_bearer_tokens() -> None:
    options = (
        ("unsecuredLoginStringClaim_sub", "alice"),
        ("unsecuredLoginNumberClaim_level", "7"),
        ("unsecuredLoginListClaim_scope", "|read|write"),
        ("unsecuredLoginLifetimeSeconds", "60"),
        ("unsecuredLoginExtension_traceId", "123"),
    )
    assert play(ClientLogin("OAUTHBEARER", options), bearer_server()) == "alice"
    token = login_module.unsecured_token(dict(options), NOW_S)
    assert json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "==")) == {
        "sub": "alice", "level": 7, "scope": ["read", "write"], "iat": NOW_S, "exp": NOW_S + 60,
    }  # fmt: skip
    with pytest.raises(AuthenticationFailed):
        play(ClientLogin("OAUTHBEARER", (("unsecuredLoginStringClaim_sub", "a"), ("unsecuredLoginNumberClaim_exp", "5"))),
             bearer_server())  # fmt: skip
    with pytest.raises(LoginRefused, match="no unsecuredLoginStringClaim_sub"):
        play(ClientLogin("OAUTHBEARER", (("unsecuredLoginNumberClaim_x", "1"),)), bearer_server())


def token_until(expires_s: float) -> str:
    parts = ({"alg": "none"}, {"sub": "alice", "iat": 1, "exp": expires_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


def signed_until(expires_s: float) -> str:
    """As a provider gives it, whose signature only the broker checks."""
    return token_until(expires_s) + "c2ln"


def test_a_token_of_an_endpoint_is_kept_for_four_fifths_of_its_life() -> None:
    asked: list[tuple[str, bytes, Mapping[str, str]]] = []
    now = [NOW_S]

    def fetch(url: str, form: bytes, headers: Mapping[str, str]) -> bytes:
        asked.append((url, form, headers))
        return json.dumps({"access_token": signed_until(now[0] + 100)}).encode()

    logins = login_module.Logins(lambda: now[0], fetch)
    login = ClientLogin(
        "OAUTHBEARER", (("clientId", "me"), ("clientSecret", "secret"), ("scope", "s")), "https://issuer/token"
    )
    first = logins.exchange(login).first()
    assert signed_until(NOW_S + 100).encode() in first
    now[0] += 79
    assert logins.exchange(login).first() == first
    assert [(url, form) for url, form, _ in asked] == [
        ("https://issuer/token", b"grant_type=client_credentials&scope=s")
    ]
    assert asked[0][2]["Authorization"] == "Basic " + base64.b64encode(b"me:secret").decode()
    now[0] += 2
    assert logins.exchange(login).first() != first


def test_a_token_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "my token"
    login = ClientLogin("OAUTHBEARER", (), file.as_uri())
    logins = login_module.Logins(lambda: NOW_S)
    with pytest.raises(FileNotFoundError):
        logins.exchange(login)
    file.write_text("no token")
    with pytest.raises(LoginRefused, match=r"the bearer token of file://.*no token of three parts"):
        logins.exchange(login)
    file.write_text(signed_until(NOW_S + 5) + "\n")
    assert signed_until(NOW_S + 5).encode() in logins.exchange(login).first()
