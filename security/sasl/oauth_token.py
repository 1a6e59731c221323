"""Bearer tokens as their users see them: who a token stands for and until when, or why it is refused. Pure.

A `TokenValidator` decides about a token's text; there are two: of signed tokens (`security.sasl.oauth_signed`) and of
unsecured ones (`security.sasl.oauth_unsecured`).

Rules: the reason of a refusal goes to the log, its status to the client. No error contains the token.
Source: RFC 6750, RFC 7519; Kafka OAuthBearerToken, OAuthBearerValidatorCallback.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

INVALID_TOKEN: Final = "invalid_token"  # noqa: S105 - a status
INSUFFICIENT_SCOPE: Final = "insufficient_scope"


class BearerToken(NamedTuple):
    """`name` is whom the token stands for; it ends at `expires_ms` (wall clock)."""

    name: str
    expires_ms: int
    scopes: frozenset[str]


class TokenRefused(Exception):
    """A token is not accepted. The text goes to the log, `status` and `scope` to the client."""

    def __init__(self, reason: str, *, status: str = INVALID_TOKEN, scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


class TokenValidator(Protocol):
    """Decides from memory, without awaiting."""

    def validated(self, token: str) -> BearerToken:
        """Return whom a token stands for. Raises TokenRefused."""


def decoded_part(text: str, what: str) -> Mapping[str, Any]:
    """Return the JSON object of a part of a token. Raises TokenRefused."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        value = json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefused(f"the {what} of the token is no JSON in base64") from None
    if not isinstance(value, dict):
        raise TokenRefused(f"the {what} of the token is no JSON object")
    return value


def seconds_of(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a claim that is a time in seconds; None if it is missing. Raises TokenRefused."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2**53) < value < 2**53:
        raise TokenRefused(f"the claim {name} is no time")
    return value


def name_of(claims: Mapping[str, Any], claim: str) -> str:
    """Return the claim that says whom the token stands for. Raises TokenRefused."""
    value = claims.get(claim)
    if not isinstance(value, str) or not value.strip():
        raise TokenRefused(f"the claim {claim} is missing, or no text")
    return value.strip()


def texts_of(claims: Mapping[str, Any], claim: str) -> list[str]:
    """Return a claim that is a text or a list of texts; empty if it is missing. Raises TokenRefused."""
    value = claims.get(claim)
    if value is None:
        return []
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in texts):
        raise TokenRefused(f"the claim {claim} is neither a text nor a list of texts")
    return texts
