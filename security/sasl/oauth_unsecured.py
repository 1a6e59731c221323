"""Unsecured bearer tokens: any client can write one. For development, and only where the settings name them. Pure.

Rules: a token has the algorithm `none` and an empty signature. It must have an expiry time and the claim that names the
principal. Options of the login module, as in Apache Kafka: `unsecuredValidatorPrincipalClaimName`,
`unsecuredValidatorScopeClaimName`, `unsecuredValidatorRequiredScope`, `unsecuredValidatorAllowableClockSkewMs`.
Source: Kafka OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredLoginCallbackHandler, OAuthBearerUnsecuredJws,
OAuthBearerValidationUtils; RFC 7515.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from security.sasl.oauth_token import (
    INSUFFICIENT_SCOPE,
    BearerToken,
    TokenRefused,
    decoded_part,
    name_of,
    seconds_of,
    texts_of,
)

OPTION_PREFIX: Final = "unsecured"
_VALIDATOR: Final = f"{OPTION_PREFIX}Validator"
PRINCIPAL_CLAIM: Final = f"{_VALIDATOR}PrincipalClaimName"
SCOPE_CLAIM: Final = f"{_VALIDATOR}ScopeClaimName"
REQUIRED_SCOPE: Final = f"{_VALIDATOR}RequiredScope"
CLOCK_SKEW_MS: Final = f"{_VALIDATOR}AllowableClockSkewMs"
CLOCK_SKEW_MAX_MS: Final = 2**31 - 1


def names_unsecured(options: Mapping[str, str]) -> bool:
    """Return whether the options of a login module speak of unsecured tokens."""
    return any(name.startswith(OPTION_PREFIX) for name in options)


class UnsecuredTokenValidator:
    """Accepts tokens without a signature. Raises ValueError for invalid options."""

    def __init__(self, options: Mapping[str, str], wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._name_claim = options.get(PRINCIPAL_CLAIM, "").strip() or "sub"
        self._scope_claim = options.get(SCOPE_CLAIM, "").strip() or "scope"
        self._required_scopes = options.get(REQUIRED_SCOPE, "").split()
        skew = options.get(CLOCK_SKEW_MS, "").strip() or "0"
        if not skew.isascii() or not skew.isdigit() or len(skew) > 10 or int(skew) > CLOCK_SKEW_MAX_MS:
            raise ValueError(f"{CLOCK_SKEW_MS} must be a number of milliseconds from 0 to {CLOCK_SKEW_MAX_MS}")
        self._skew_ms = int(skew)

    def validated(self, token: str) -> BearerToken:
        claims = self._claims(token)
        name = name_of(claims, self._name_claim)
        expires_ms = self._checked_times(claims)
        scopes = frozenset(scope for text in texts_of(claims, self._scope_claim) for scope in text.split())
        if not scopes.issuperset(self._required_scopes):
            required = f"[{', '.join(self._required_scopes)}]"
            raise TokenRefused("the token lacks a required scope", status=INSUFFICIENT_SCOPE, scope=required)
        return BearerToken(name, expires_ms, scopes)

    def _claims(self, token: str) -> Mapping[str, Any]:
        parts = token.split(".")
        if len(parts) != 3:
            raise TokenRefused("the token has not three parts")
        header, claims = decoded_part(parts[0], "header"), decoded_part(parts[1], "payload")
        if header.get("alg") != "none":
            raise TokenRefused("the token is not unsecured: its algorithm is not none")
        if parts[2]:
            raise TokenRefused("the token is not unsecured: it has a signature")
        return claims

    def _checked_times(self, claims: Mapping[str, Any]) -> int:
        """Return the expiry time in milliseconds. Raises TokenRefused."""
        now_ms = self._wall_ms()
        issued_s, expires_s = seconds_of(claims, "iat"), seconds_of(claims, "exp")
        if expires_s is None:
            raise TokenRefused("the claim exp is missing")
        if issued_s is not None and issued_s * 1000 > now_ms + self._skew_ms:
            raise TokenRefused("the token was issued in the future")
        if now_ms - self._skew_ms >= expires_s * 1000:
            raise TokenRefused("the token has expired")
        if issued_s is not None and expires_s <= issued_s:
            raise TokenRefused("the token expires before it was issued")
        return round(expires_s * 1000)


# --- tokens that a client, or a broker at other brokers, makes for itself ---

_LOGIN: Final = f"{OPTION_PREFIX}Login"
_STRING_CLAIM: Final = f"{_LOGIN}StringClaim_"
_NUMBER_CLAIM: Final = f"{_LOGIN}NumberClaim_"
_LIST_CLAIM: Final = f"{_LOGIN}ListClaim_"
_LIFETIME_S: Final = f"{_LOGIN}LifetimeSeconds"
NAME_CLAIM: Final = f"{_LOGIN}PrincipalClaimName"
_EXTENSION: Final = f"{_LOGIN}Extension_"
_DEFAULT_LIFETIME_S: Final = "3600"
_RESERVED_CLAIMS: Final = ("iat", "exp")


def unsecured_extensions(options: Mapping[str, str]) -> dict[str, str]:
    """Return the SASL extensions among the options of a login module."""
    return {name.removeprefix(_EXTENSION): text for name, text in options.items() if name.startswith(_EXTENSION)}


def unsecured_token(options: Mapping[str, str], now_ms: int) -> str:
    """Return the token that the options of a login module describe, as of now. Raises ValueError."""
    claims: dict[str, Any] = {}
    for name, text in options.items():
        for prefix, value_of in ((_STRING_CLAIM, str), (_NUMBER_CLAIM, _number), (_LIST_CLAIM, _listed)):
            if name.startswith(prefix):
                claims[name.removeprefix(prefix)] = value_of(text)
    for reserved in _RESERVED_CLAIMS:
        if reserved in claims:
            raise ValueError(f"the claim {reserved} cannot be set by an option of the login module")
    name_claim = options.get(NAME_CLAIM, "").strip() or "sub"
    if not isinstance(claims.get(name_claim), str) or not claims[name_claim].strip():
        raise ValueError(f"{_STRING_CLAIM}{name_claim} is needed, the name that the token stands for")
    now_s = now_ms / 1000
    claims |= {"iat": now_s, "exp": now_s + _number(options.get(_LIFETIME_S, "").strip() or _DEFAULT_LIFETIME_S)}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _number(text: str) -> float:
    """Raises ValueError."""
    value = float(text)
    if not -(2**53) < value < 2**53:
        raise ValueError("a number of the login module's options is too large")
    return value


def _listed(text: str) -> list[str]:
    """Split a list whose first character is its separator: ",a,b"."""
    return text[1:].split(text[0]) if len(text) > 1 else []


def _encoded(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()
