"""The client's side of a SASL exchange, from the settings of a login; bearer tokens from where the settings say.

Rules: blocking, as executors run plain Python. Tokens are kept in the process for four fifths of their life. No error contains
a secret.
Errors: LoginRefused when a login cannot succeed however often it is repeated, OSError when a token endpoint does not answer.
Source: RFC 4422; Kafka SaslClientAuthenticator, OAuthBearerUnsecuredLoginCallbackHandler, HttpAccessTokenRetriever.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from barnabas.spark.client.security_settings import ClientLogin
from security.oauth_exchange import OAuthBearerClient
from security.oauth_login import (
    TOKEN_BYTES_MAX,
    LoginToken,
    RefreshWindow,
    credentials_form,
    credentials_headers,
    granted_token,
)
from security.plain import PlainClient
from security.sasl import OAUTHBEARER, PLAIN, SaslClient
from security.scram import MECHANISMS, NONCE_BYTES, SaltedPasswords, ScramClient

TOKEN_TIMEOUT_S: Final = 10.0
_UNSECURED_LIFE_S: Final = 3600.0
_KEPT: Final = RefreshWindow(min_period_s=0, buffer_s=0)


class LoginRefused(RuntimeError):
    """This client is not let in, or does not trust the broker: its settings are wrong, or its rights are gone."""


class Logins:
    """Makes the exchanges of one process, and keeps its tokens."""

    def __init__(
        self,
        wall_clock: Callable[[], float] = time.time,  # noqa: TID251  a user's process, not the broker
        fetch: Callable[[str, bytes, Mapping[str, str]], bytes] | None = None,
    ) -> None:
        self._wall_clock = wall_clock
        self._fetch = fetch or fetch_token
        self._tokens: dict[ClientLogin, tuple[LoginToken, float]] = {}

    def exchange(self, login: ClientLogin) -> SaslClient:
        """Raises LoginRefused, OSError."""
        options = dict(login.options)
        if login.mechanism == PLAIN:
            return PlainClient(options["username"], options["password"])
        if login.mechanism == OAUTHBEARER:
            token = self._token(login, options)
            return OAuthBearerClient(lambda: token, _extensions(options))
        mechanism = MECHANISMS[login.mechanism]
        passwords = SaltedPasswords(mechanism, options["password"])
        is_token = options.get("tokenauth", "").lower() == "true"
        return ScramClient(mechanism, options["username"], passwords, nonce(), is_token=is_token)

    def _token(self, login: ClientLogin, options: Mapping[str, str]) -> str:
        now_s = self._wall_clock()
        if login.token_url is None:
            return unsecured_token(options, now_s)
        kept = self._tokens.get(login)
        if kept is not None and now_s < kept[1]:
            return kept[0].text
        try:
            token = self._new_token(login, login.token_url, options)
        except ValueError as error:
            raise LoginRefused(f"the bearer token of {_named(login.token_url)}: {error}") from None
        self._tokens[login] = token, now_s + _KEPT.pause_ms(token, int(now_s * 1000)) / 1000
        return token.text

    def _new_token(self, login: ClientLogin, url: str, options: Mapping[str, str]) -> LoginToken:
        """Raises ValueError, OSError."""
        if url.lower().startswith("file:"):
            return LoginToken.parse(Path(unquote(urlsplit(url).path)).read_bytes(), login.name_claim)
        headers = credentials_headers(options["clientId"], options["clientSecret"])
        return granted_token(self._fetch(url, credentials_form(options.get("scope")), headers), login.name_claim)


def nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)


def fetch_token(url: str, form: bytes, headers: Mapping[str, str]) -> bytes:
    """Post a form, and return the response. Raises LoginRefused, OSError."""
    import urllib.error  # noqa: PLC0415  few clients need it
    import urllib.request  # noqa: PLC0415

    request = urllib.request.Request(url, form, dict(headers), method="POST")  # noqa: S310  checked: http or https
    try:
        with urllib.request.urlopen(request, timeout=TOKEN_TIMEOUT_S) as response:  # noqa: S310
            content: bytes = response.read(TOKEN_BYTES_MAX)
            return content
    except urllib.error.HTTPError as error:
        error.close()
        if 400 <= error.code < 500 and error.code not in (408, 429):
            raise LoginRefused(f"{_named(url)} gives no token: status {error.code}") from None
        raise ConnectionError(f"{_named(url)} gives no token: status {error.code}") from None


def unsecured_token(options: Mapping[str, str], now_s: float) -> str:
    """A token that nobody has signed, for trying things out. Raises LoginRefused."""
    claims: dict[str, Any] = {}
    for name, value in options.items():
        kind, _, claim = name.partition("Claim_")
        if kind == "unsecuredLoginString":
            claims[claim] = value
        elif kind == "unsecuredLoginNumber":
            claims[claim] = _number(name, value)
        elif kind == "unsecuredLoginList" and value:
            claims[claim] = value[1:].split(value[0])  # the first character separates the others
    name_claim = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not claims.get(name_claim):
        raise LoginRefused(f"sasl.jaas.config has no unsecuredLoginStringClaim_{name_claim}")
    life_s = _number(
        "unsecuredLoginLifetimeSeconds", options.get("unsecuredLoginLifetimeSeconds", str(_UNSECURED_LIFE_S))
    )
    claims.setdefault("iat", now_s)
    claims.setdefault("exp", now_s + life_s)
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise LoginRefused(f"sasl.jaas.config: {name} is not a number") from None


def _extensions(options: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name, value in options.items():
        for prefix in ("extension_", "unsecuredLoginExtension_"):
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] = value
    return found


def _named(url: str) -> str:
    """An address without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


LOGINS = Logins()
"""Of this process."""
