"""Bearer tokens of a client: from a file, from an endpoint, or made here and unsigned.

Rules: blocking. A token is kept in the process for four fifths of its life. No error contains a token or a secret.
Errors: LoginRefused when there can be no token however often one is asked for, OSError when an endpoint does not answer.
Source: Kafka OAuthBearerUnsecuredLoginCallbackHandler, FileTokenRetriever, HttpAccessTokenRetriever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from client.errors import LoginRefused
from client.settings.files import context_of
from client.settings.values import BearerSettings
from security.sasl.oauth_login import (
    TOKEN_BYTES_MAX,
    LoginToken,
    RefreshWindow,
    credentials_form,
    credentials_headers,
    granted_token,
)
from security.sasl.oauth_unsecured import unsecured_token

_KEPT: Final = RefreshWindow(min_period_s=0, buffer_s=0)


class BearerTokens:
    """The tokens of one process."""

    def __init__(
        self,
        wall_clock: Callable[[], float] = time.time,  # noqa: TID251  also in processes of others, without a runtime
        fetch: Callable[[BearerSettings, bytes, Mapping[str, str]], bytes] | None = None,
    ) -> None:
        self._wall_clock = wall_clock
        self._fetch = fetch or fetch_token
        self._tokens: dict[BearerSettings, tuple[LoginToken, float]] = {}

    def current(self, settings: BearerSettings) -> LoginToken:
        """Return a token that holds. Raises LoginRefused, OSError."""
        now_s = self._wall_clock()
        kept = self._tokens.get(settings)
        if kept is not None and now_s < kept[1]:
            return kept[0]
        try:
            token = self._new(settings, now_s)
        except ValueError as error:
            raise LoginRefused(f"the bearer token of {named(settings)}: {error}") from None
        self._tokens[settings] = token, now_s + _KEPT.pause_ms(token, int(now_s * 1000)) / 1000
        return token

    def forget(self, settings: BearerSettings) -> None:
        self._tokens.pop(settings, None)

    def _new(self, settings: BearerSettings, now_s: float) -> LoginToken:
        """Raises ValueError, LoginRefused, OSError."""
        if settings.token:
            return LoginToken.parse(settings.token.encode(), settings.name_claim)
        if settings.url is None:
            text = unsecured_token(dict(settings.unsecured), int(now_s * 1000))
            return LoginToken.parse(text.encode(), settings.name_claim)
        if settings.url.lower().startswith("file:"):
            return LoginToken.parse(Path(unquote(urlsplit(settings.url).path)).read_bytes(), settings.name_claim)
        headers = credentials_headers(settings.client_id, settings.client_secret, is_encoded=settings.encodes_header)
        return granted_token(self._fetch(settings, credentials_form(settings.scope), headers), settings.name_claim)


def fetch_token(settings: BearerSettings, form: bytes, headers: Mapping[str, str]) -> bytes:
    """Post a form to the endpoint, and return its response. Raises LoginRefused, SettingsError, OSError."""
    import urllib.error  # noqa: PLC0415  few clients need it
    import urllib.request  # noqa: PLC0415

    assert settings.url is not None
    request = urllib.request.Request(settings.url, form, dict(headers), method="POST")  # noqa: S310  http or https
    context = context_of(settings.tls) if settings.url.lower().startswith("https:") else None
    try:
        with urllib.request.urlopen(request, timeout=settings.timeout_ms / 1000, context=context) as response:  # noqa: S310
            content: bytes = response.read(TOKEN_BYTES_MAX)
            return content
    except urllib.error.HTTPError as error:
        error.close()
        if 400 <= error.code < 500 and error.code not in (408, 429):
            raise LoginRefused(f"{named(settings)} gives no token: status {error.code}") from None
        raise ConnectionError(f"{named(settings)} gives no token: status {error.code}") from None


def named(settings: BearerSettings) -> str:
    """Return where tokens come from, without what may be secret in an address."""
    if settings.url is None:
        return "sasl.jaas.config"
    parts = urlsplit(settings.url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
