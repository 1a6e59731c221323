"""Signed bearer tokens (JWT): the signature by a key of the provider, then the claims. Pure.

Rules: the signature is verified before a claim is believed. The algorithm is RS, PS or ES, never `none` and never one with a
shared secret. A token must have the claims exp and iat and the one that names the principal. A token that says for whom it is
(aud) is accepted only if the settings expect one of these audiences; one that does not say so, only if they expect none.
Source: Kafka OAuthBearerValidatorCallbackHandler, ValidatorAccessTokenValidator, ClaimValidationUtils; jose4j JwtConsumer;
RFC 7519.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from security.sasl.oauth_keys import ALGORITHMS, KeySet
from security.sasl.oauth_token import BearerToken, TokenRefused, decoded_part, name_of, seconds_of, texts_of

CANDIDATES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What the settings expect of a token. None: nothing."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    scope_claim: str = "scope"
    name_claim: str = "sub"
    clock_skew_s: int = 30


class SignedTokenValidator:
    """Accepts tokens that a provider has signed. `keys` returns its current keys; `on_unknown_key` is called when a token names
    a key that is not among them: the provider may have a new one."""

    def __init__(
        self,
        rules: ClaimRules,
        keys: Callable[[], KeySet],
        wall_ms: Callable[[], int],
        on_unknown_key: Callable[[str], None],
    ) -> None:
        self._rules = rules
        self._keys = keys
        self._wall_ms = wall_ms
        self._on_unknown_key = on_unknown_key

    def validated(self, token: str) -> BearerToken:
        claims = self._verified(token)
        expires_ms = self._checked_times(claims)
        self._check_parties(claims)
        return BearerToken(name_of(claims, self._rules.name_claim), expires_ms, self._scopes(claims))

    def _verified(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token whose signature is right."""
        parts = token.split(".")
        if len(parts) != 3 or not all(parts):
            raise TokenRefused("the token has not three parts")
        header = decoded_part(parts[0], "header")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRefused(f"the token is not signed with one of {', '.join(ALGORITHMS)}")
        if key_id is not None and not isinstance(key_id, str):
            raise TokenRefused("the key id of the token is no text")
        candidates = self._keys().candidates(key_id, algorithm)[:CANDIDATES_MAX]
        if not candidates and key_id is not None:
            self._on_unknown_key(key_id)
        if not any(_is_signed_by(each.public_key, token, algorithm) for each in candidates):
            raise TokenRefused(
                "the signature of the token is wrong" if candidates else "no known key can have signed the token"
            )
        return decoded_part(parts[1], "payload")

    def _checked_times(self, claims: Mapping[str, Any]) -> int:
        """Return the expiry time in milliseconds. Raises TokenRefused."""
        now_s, skew_s = self._wall_ms() / 1000, self._rules.clock_skew_s
        expires_s, issued_s, begins_s = (seconds_of(claims, name) for name in ("exp", "iat", "nbf"))
        if expires_s is None or issued_s is None:
            raise TokenRefused("the claim exp or iat is missing")
        if now_s - skew_s >= expires_s:
            raise TokenRefused("the token has expired")
        if begins_s is not None and now_s + skew_s < begins_s:
            raise TokenRefused("the token is not valid yet")
        if expires_s < issued_s or (begins_s is not None and expires_s < begins_s):
            raise TokenRefused("the token expires before it begins")
        if issued_s < 0:
            raise TokenRefused("the claim iat is negative")
        return round(expires_s * 1000)

    def _check_parties(self, claims: Mapping[str, Any]) -> None:
        audiences = texts_of(claims, "aud")
        if (audiences or self._rules.audiences) and not set(audiences) & set(self._rules.audiences):
            raise TokenRefused("the token is not for one of the audiences that the settings expect")
        if self._rules.issuer is not None and claims.get("iss") != self._rules.issuer:
            raise TokenRefused("the token is not from the issuer that the settings expect")

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[str]:
        scopes = [scope.strip() for scope in texts_of(claims, self._rules.scope_claim)]
        if not all(scopes) or len(set(scopes)) < len(scopes):
            raise TokenRefused(f"the claim {self._rules.scope_claim} has an empty scope, or one twice")
        return frozenset(scopes)


def _is_signed_by(public_key: Any, token: str, algorithm: str) -> bool:
    from jwt.api_jws import PyJWS  # noqa: PLC0415 - only who has such tokens loads it
    from jwt.exceptions import PyJWTError  # noqa: PLC0415

    try:
        PyJWS().decode_complete(token, public_key, algorithms=[algorithm])
    except (PyJWTError, ValueError, TypeError, RecursionError):
        return False
    return True
