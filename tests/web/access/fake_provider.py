"""A provider of OpenID Connect in memory, which checks what it is sent as RFC 6749, RFC 7636 and OpenID Connect say."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.security.sasl.bearer_tokens import document, rsa_key, rsa_row, signed

ISSUER = "https://login.example.com/realms/main"
CLIENT_ID, CLIENT_SECRET = "page", "client:secret"
SETTINGS = {
    "barnabas.web.oauth.issuer": ISSUER,
    "barnabas.web.oauth.client.id": CLIENT_ID,
    "barnabas.web.oauth.client.secret": CLIENT_SECRET,
    "barnabas.web.oauth.scope": "openid kafka",
}
KEYS = document(rsa_row(rsa_key(), kid="one", use="sig"))
BASIC = "Basic " + base64.b64encode(b"page:client%3Asecret").decode()


class FakeProvider:
    """`sub` is who logs in next. `broken` changes an answer before it is sent, by the last part of its path."""

    def __init__(self, sub: str = "alice", life_s: int = 3600) -> None:
        self.sub = sub
        self.life_s = life_s
        self.broken: dict[str, Callable[[dict[str, Any]], object]] = {}
        self.asked: list[str] = []
        self.revoked: list[str] = []
        self.is_down = False
        self._codes: dict[str, dict[str, str]] = {}

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    def let_in(self, login_uri: str) -> dict[str, str]:
        """Log a user in at the address to which the page has led the browser; returns what the browser comes back with."""
        parts = urlsplit(login_uri)
        asked = {name: value for name, [value] in parse_qs(parts.query).items()}
        assert login_uri.startswith(f"{ISSUER}/authorize?")
        assert (asked["response_type"], asked["client_id"], asked["scope"]) == ("code", CLIENT_ID, "openid kafka")
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": ISSUER}

    def access_token(self, **changed: Any) -> str:
        now_s = int(time.time())
        claims = {"sub": self.sub, "aud": "kafka", "iss": ISSUER, "iat": now_s, "exp": now_s + self.life_s}
        return signed(rsa_key(), key_id="one", claims=claims, **changed)

    def id_token(self, nonce: str, **changed: Any) -> str:
        now_s = int(time.time())
        claims = {"sub": self.sub, "aud": CLIENT_ID, "iss": ISSUER, "iat": now_s, "exp": now_s + 60, "nonce": nonce}
        return signed(rsa_key(), key_id="one", claims=claims, **changed)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.rpartition("/")[2]
        self.asked.append(name)
        if self.is_down:
            raise httpx.ConnectError("down")
        form = {key: value for key, [value] in parse_qs(request.content.decode()).items()}
        try:
            found = getattr(self, f"_{name.replace('-', '_')}")(request, form)
        except AssertionError as error:
            return httpx.Response(400, json={"error": "invalid_request", "error_description": str(error)})
        if name in self.broken:
            found = self.broken[name](found)
        return found if isinstance(found, httpx.Response) else httpx.Response(200, json=found)

    def _openid_configuration(self, _request: httpx.Request, _form: dict[str, str]) -> dict[str, Any]:
        names = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "revocation_endpoint": "revoke",
            "jwks_uri": "keys",
        }
        return {"issuer": ISSUER, **{name: f"{ISSUER}/{path}" for name, path in names.items()}}

    def _keys(self, _request: httpx.Request, _form: dict[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(KEYS)
        return found

    def _token(self, request: httpx.Request, form: dict[str, str]) -> dict[str, Any]:
        assert request.headers["Authorization"] == BASIC
        told = {"access_token": self.access_token(), "token_type": "Bearer", "expires_in": self.life_s}
        if form["grant_type"] == "refresh_token":
            assert form["refresh_token"] == f"refresh-{self.sub}"
            return told
        asked = self._codes.pop(form["code"], {})
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked.get("code_challenge")
        assert form["redirect_uri"] == asked["redirect_uri"]
        return {**told, "refresh_token": f"refresh-{self.sub}", "id_token": self.id_token(asked["nonce"])}

    def _revoke(self, request: httpx.Request, form: dict[str, str]) -> dict[str, Any]:
        assert request.headers["Authorization"] == BASIC
        self.revoked.append(form["token"])
        return {}
