"""The client's side of each mechanism against the server's side of this broker."""

from __future__ import annotations

import base64

import pytest

from client.mechanisms import MECHANISMS, exchanges_of
from client.settings.bearer_tokens import BearerTokens
from client.settings.values import BearerSettings, LoginSettings
from security.principal import Principal
from security.sasl.mechanisms import AuthenticationFailed, SaslServer
from security.sasl.oauth_exchange import OAuthBearerServer
from security.sasl.oauth_unsecured import UnsecuredTokenValidator
from security.sasl.plain import PlainServer
from security.sasl.scram import MECHANISMS as SCRAM
from security.sasl.scram import ScramCredential, ScramServer, TokenLogin

NOW_S = 1_770_000_000.0
PASSWORD = "se,cr=et"


def play(login: LoginSettings, server: SaslServer) -> str:
    """Who the server says the client is. Raises AuthenticationFailed."""
    tokens = BearerTokens(lambda: NOW_S)
    client = exchanges_of(login, lambda: "nonce", lambda: tokens.current(login.bearer or BearerSettings()).text)()
    token: bytes | None = client.first()
    while token is not None:
        token = client.answer(server.step(token))
    assert server.identity is not None
    return server.identity.principal.name


class Credentials:
    """The credential of alice, who has a delegation token, too."""

    def __init__(self, password: str = PASSWORD) -> None:
        self._password = password

    def _made(self, mechanism: str) -> ScramCredential:
        kind = SCRAM[mechanism]
        return kind.credential(kind.salted_password(self._password, b"salt" * 6, 4096), b"salt" * 6, 4096)

    def user(self, mechanism: str, name: str) -> ScramCredential | None:
        return self._made(mechanism) if name == "alice" else None

    def token(self, mechanism: str, token_id: str) -> TokenLogin | None:
        return TokenLogin(self._made(mechanism), Principal("User", "owner"), 1) if token_id == "token-id" else None


def test_there_is_one_row_for_each_mechanism() -> None:
    assert list(MECHANISMS) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


def test_plain() -> None:
    login = LoginSettings("PLAIN", "alice", PASSWORD)
    assert play(login, PlainServer({"alice": PASSWORD})) == "alice"
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
        play(login, PlainServer({"alice": "other"}))


@pytest.mark.parametrize("mechanism", sorted(SCRAM))
def test_scram(mechanism: str) -> None:
    def server(password: str = PASSWORD) -> ScramServer:
        return ScramServer(SCRAM[mechanism], Credentials(password), "of-the-server")

    assert play(LoginSettings(mechanism, "alice", PASSWORD), server()) == "alice"
    assert play(LoginSettings(mechanism, "token-id", PASSWORD, is_token=True), server()) == "owner"
    with pytest.raises(AuthenticationFailed, match="wrong password"):
        play(LoginSettings(mechanism, "alice", PASSWORD), server("other"))


class ImpostorServer(ScramServer):
    """Asks for a proof, and has none itself."""

    def step(self, token: bytes) -> bytes:
        answer = super().step(token)
        return b"v=" + base64.b64encode(b"x" * 32) if answer.startswith(b"v=") else answer


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="does not know the password"):
        play(
            LoginSettings("SCRAM-SHA-256", "alice", PASSWORD),
            ImpostorServer(SCRAM["SCRAM-SHA-256"], Credentials(), "x"),
        )


def test_bearer_tokens() -> None:
    unsecured = (("unsecuredLoginStringClaim_sub", "alice"), ("unsecuredLoginLifetimeSeconds", "60"))
    login = LoginSettings("OAUTHBEARER", bearer=BearerSettings(unsecured=unsecured, extensions=(("traceId", "1"),)))
    server = OAuthBearerServer(UnsecuredTokenValidator({}, lambda: int(NOW_S * 1000)))
    assert play(login, server) == "alice"
    late = OAuthBearerServer(UnsecuredTokenValidator({}, lambda: int(NOW_S + 61) * 1000))
    with pytest.raises(AuthenticationFailed):
        play(login, late)
