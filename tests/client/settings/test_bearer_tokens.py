"""Bearer tokens from files and endpoints, and how long they are kept."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from client.errors import LoginRefused
from client.settings.bearer_tokens import BearerTokens, fetch_token
from client.settings.values import BearerSettings

NOW_S = 1_770_000_000.0
ENDPOINT = BearerSettings("https://issuer/token", client_id="me", client_secret="a b", scope="s")


def signed_until(expires_s: float) -> str:
    """As a provider gives it, whose signature only the broker checks."""
    parts = ({"alg": "none"}, {"sub": "alice", "iat": 1, "exp": expires_s})
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + ".c2ln"
    )


def test_a_token_of_an_endpoint_is_kept_for_four_fifths_of_its_life() -> None:
    asked: list[tuple[str | None, bytes, Mapping[str, str]]] = []
    now = [NOW_S]

    def fetch(settings: BearerSettings, form: bytes, headers: Mapping[str, str]) -> bytes:
        asked.append((settings.url, form, headers))
        return json.dumps({"access_token": signed_until(now[0] + 100)}).encode()

    tokens = BearerTokens(lambda: now[0], fetch)
    first = tokens.current(ENDPOINT)
    assert (first.text, first.expires_ms) == (signed_until(NOW_S + 100), (NOW_S + 100) * 1000)
    now[0] += 79
    assert tokens.current(ENDPOINT) == first
    assert [(url, form) for url, form, _ in asked] == [(ENDPOINT.url, b"grant_type=client_credentials&scope=s")]
    assert asked[0][2]["Authorization"] == "Basic " + base64.b64encode(b"me:a b").decode()
    now[0] += 2
    assert tokens.current(ENDPOINT) != first
    tokens.current(BearerSettings("https://x", client_id="me", client_secret="a b", encodes_header=True))
    assert asked[-1][2]["Authorization"] == "Basic " + base64.b64encode(b"me:a+b").decode()


def test_a_token_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "my token"
    tokens, settings = BearerTokens(lambda: NOW_S), BearerSettings(file.as_uri())
    with pytest.raises(FileNotFoundError):
        tokens.current(settings)
    file.write_text("no token")
    with pytest.raises(LoginRefused, match=r"the bearer token of file://.*no token of three parts"):
        tokens.current(settings)
    file.write_text(signed_until(NOW_S + 5) + "\n")
    assert tokens.current(settings).text == signed_until(NOW_S + 5)


def test_a_token_that_is_given_as_it_is() -> None:
    settings = BearerSettings(token=signed_until(NOW_S + 5))
    assert BearerTokens(lambda: NOW_S).current(settings).text == settings.token
    assert settings.token not in repr(settings)


def test_a_token_that_is_made_here_says_when_it_ends() -> None:
    unsecured = (("unsecuredLoginPrincipalClaimName", "azp"), ("unsecuredLoginStringClaim_azp", "alice"))
    found = BearerTokens(lambda: NOW_S).current(BearerSettings(name_claim="azp", unsecured=unsecured))
    assert found.expires_ms == (NOW_S + 3600) * 1000


@pytest.mark.parametrize(("status", "error"), [(401, LoginRefused), (503, ConnectionError), (200, None)])
def test_an_endpoint(status: int, error: type[Exception] | None) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"content")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.timeout = 10.0
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        settings = BearerSettings(f"http://127.0.0.1:{server.server_port}/token?secret=hidden")
        if error is None:
            assert fetch_token(settings, b"a=b", {}) == b"content"
        else:
            with pytest.raises(error, match=rf"http://127.0.0.1/token gives no token: status {status}") as raised:
                fetch_token(settings, b"a=b", {})
            assert "hidden" not in str(raised.value)
        thread.join()
