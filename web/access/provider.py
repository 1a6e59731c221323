"""A provider of OpenID Connect: where its users log in, and the tokens that it gives. Over HTTP.

Rules: what the provider says about itself is asked for once an hour. An ID token counts only if the provider has signed it,
for this process and this login. The access token is for the brokers, which check it by themselves. No error and no log line
contains a token, a code or a secret.
Errors: ProviderError for an answer that is none, OSError when there is none.
Source: OpenID Connect Core 1.0 and Discovery 1.0; RFC 6749, RFC 7009 (revocation), RFC 7636 (PKCE).
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlsplit

import httpx
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from config.web import is_private

if TYPE_CHECKING:
    from collections.abc import Mapping

    from config.web import WebSettings
    from web.access.attempt import Attempt
    from web.surroundings import Surroundings

KEPT_MS: Final = 3_600_000
NEW_KEYS_MS: Final = 60_000
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those with a key that only the provider has."""
LEEWAY_S: Final = 60
BODY_BYTES_MAX: Final = 1 << 20
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


class ProviderError(Exception):
    """The provider has not answered as it must; the text goes to the log."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Tokens of a user. `refresh` gives the next ones, where the provider has given it."""

    access: str = field(repr=False)
    refresh: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Described:
    """What a provider says about itself, and when it was asked."""

    told: Mapping[str, Any]
    keys: KeySet
    asked_ms: int

    def endpoint(self, name: str) -> str:
        """Raises ProviderError."""
        url = self.told.get(name)
        if not isinstance(url, str) or not is_private(url):
            raise ProviderError(f"its {name} is no https address")
        return url


class Provider:
    """`redirect_uri` is where browsers come back to."""

    def __init__(self, settings: WebSettings, surroundings: Surroundings, redirect_uri: str) -> None:
        self.issuer = settings.barnabas_web_oauth_issuer
        self.redirect_uri = redirect_uri
        self._client_id = settings.barnabas_web_oauth_client_id
        secret = settings.barnabas_web_oauth_client_secret
        self._secret = None if secret is None else secret.value
        self._scope = settings.barnabas_web_oauth_scope
        self._http = surroundings.http
        self._clock = surroundings.clock
        self._described: _Described | None = None

    @property
    def name(self) -> str:
        """What people know it by."""
        return urlsplit(self.issuer).netloc

    async def login_uri(self, attempt: Attempt) -> str:
        """Return where a browser goes to log in. Raises ProviderError, OSError."""
        described = await self._describe()
        uri: str = prepare_grant_uri(
            described.endpoint("authorization_endpoint"),
            self._client_id,
            "code",
            redirect_uri=self.redirect_uri,
            scope=self._scope,
            state=attempt.state,
            nonce=attempt.nonce,
            code_challenge=attempt.challenge,
            code_challenge_method="S256",
        )
        return uri

    async def exchanged(self, code: str, attempt: Attempt) -> Grant:
        """Return the tokens for the code with which a browser has come back. Raises ProviderError, OSError."""
        described = await self._describe()
        answer = await self._tokens(
            described,
            "authorization_code",
            code=code,
            redirect_uri=self.redirect_uri,
            code_verifier=attempt.verifier,
        )
        grant, id_token = _grant(answer), answer.get("id_token")
        try:
            self._check_id_token(described, id_token, attempt.nonce, grant.access)
        except ProviderError:
            if self._clock.monotonic_ms() - described.asked_ms < NEW_KEYS_MS:
                raise
            self._described = None  # it may have new keys
            self._check_id_token(await self._describe(), id_token, attempt.nonce, grant.access)
        return grant

    async def refreshed(self, refresh: str) -> Grant:
        """Return the next tokens. Raises ProviderError, OSError."""
        grant = _grant(await self._tokens(await self._describe(), "refresh_token", refresh_token=refresh))
        return grant if grant.refresh is not None else Grant(grant.access, refresh)

    async def revoke(self, refresh: str) -> None:
        """Let the provider forget what it has given, where it can. Raises ProviderError, OSError."""
        described = await self._describe()
        if "revocation_endpoint" in described.told:
            form = {"token": refresh, "token_type_hint": "refresh_token", "client_id": self._client_id}
            await self._answer("POST", described.endpoint("revocation_endpoint"), str(httpx.QueryParams(form)))

    async def _tokens(self, described: _Described, grant_type: str, **fields: str) -> Mapping[str, Any]:
        body: str = prepare_token_request(grant_type, client_id=self._client_id, **fields)
        return _object(await self._answer("POST", described.endpoint("token_endpoint"), body), "the answer with tokens")

    def _check_id_token(self, described: _Described, text: object, nonce: str, access: str) -> None:
        """Raises ProviderError."""
        if not isinstance(text, str):
            raise ProviderError("it gives no ID token: barnabas.web.oauth.scope has openid")
        try:
            token = jwt.decode(text, described.keys, algorithms=ALGORITHMS)
            claims = CodeIDToken(
                token.claims,
                token.header,
                options={"iss": {"value": self.issuer}, "aud": {"value": self._client_id}},
                params={"nonce": nonce, "client_id": self._client_id, "access_token": access},
            )
            claims.validate(now=self._clock.wall_ms() // 1000, leeway=LEEWAY_S)
        except Exception as error:  # noqa: BLE001  both libraries and what is in a token: each failure is a refusal
            raise ProviderError(f"its ID token is not accepted: {type(error).__name__}") from None

    async def _describe(self) -> _Described:
        """Raises ProviderError, OSError."""
        now_ms = self._clock.monotonic_ms()
        if self._described is None or now_ms - self._described.asked_ms > KEPT_MS:
            url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            told = _object(await self._answer("GET", url), "its description")
            if told.get("issuer") != self.issuer:
                raise ProviderError("its description is of another issuer than barnabas.web.oauth.issuer")
            described = _Described(told, KeySet([]), now_ms)
            keys = _object(await self._answer("GET", described.endpoint("jwks_uri")), "its keys")
            try:
                self._described = _Described(told, KeySet.import_key_set({"keys": keys.get("keys", [])}), now_ms)
            except (JoseError, ValueError, KeyError, TypeError) as error:
                raise ProviderError(f"its keys cannot be used: {type(error).__name__}") from None
        return self._described

    async def _answer(self, method: str, url: str, body: str | None = None) -> bytes:
        """Raises ProviderError, OSError."""
        headers = {} if body is None else dict(_FORM)
        if body is not None and self._secret is not None:
            pair = f"{quote_plus(self._client_id)}:{quote_plus(self._secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        content = b""
        try:
            async with self._http.stream(method, url, content=body, headers=headers) as response:
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > BODY_BYTES_MAX:
                        raise ProviderError(f"the answer of {_shown(url)} is too large")
        except httpx.HTTPError as error:
            raise ConnectionError(f"{_shown(url)}: {type(error).__name__}") from None
        if response.status_code >= 500:
            raise ConnectionError(f"{_shown(url)} answers with status {response.status_code}")
        if response.status_code != 200:
            raise ProviderError(f"{_shown(url)} answers with status {response.status_code}")
        return content


def _grant(answer: Mapping[str, Any]) -> Grant:
    """Raises ProviderError."""
    access, refresh = answer.get("access_token"), answer.get("refresh_token")
    if not isinstance(access, str) or str(answer.get("token_type")).lower() != "bearer":
        raise ProviderError("it gives no bearer token")
    return Grant(access, refresh if isinstance(refresh, str) else None)


def _object(content: bytes, what: str) -> Mapping[str, Any]:
    """Raises ProviderError."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise ProviderError(f"{what} is no JSON") from None
    if not isinstance(value, dict):
        raise ProviderError(f"{what} is no JSON object")
    return value


def _shown(url: str) -> str:
    """Return an address without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
