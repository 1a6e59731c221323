"""The bearer token with which a client logs in, as brokers do to each other: from a file, or by the grant of client
credentials. Pure.

Rules: only the form and the times of the token are read: the server verifies it. No error contains the token or the
secret.
Source: Kafka OAuthBearerLoginCallbackHandler, HttpAccessTokenRetriever, LoginAccessTokenValidator; RFC 6749 section 4.4.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus, urlencode

from security.sasl.oauth_token import TokenRefused, decoded_part, name_of, seconds_of

TOKEN_BYTES_MAX: Final = 256 * 1024
FORM_TYPE: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class LoginToken:
    """`text` is the token; it ends at `expires_ms` (wall clock)."""

    text: str = field(repr=False)
    expires_ms: int

    @classmethod
    def parse(cls, content: bytes, name_claim: str = "sub") -> LoginToken:
        """Read a token. Raises ValueError."""
        text = content.decode(errors="replace").strip()
        parts = text.split(".")
        if len(parts) != 3 or not parts[0] or not parts[1] or not text.isascii():
            raise ValueError("there is no token of three parts")
        try:
            decoded_part(parts[0], "header")
            claims = decoded_part(parts[1], "payload")
            name_of(claims, name_claim)
            expires_s = seconds_of(claims, "exp")
        except TokenRefused as error:
            raise ValueError(str(error)) from None
        if expires_s is None:
            raise ValueError("the claim exp is missing")
        return cls(text, round(expires_s * 1000))


@dataclass(frozen=True, slots=True)
class RefreshWindow:
    """When a token is replaced: after this part of its life, but not sooner than `min_period_s` after it was got, nor in the
    last `buffer_s` of its life."""

    factor: float = 0.8
    min_period_s: int = 60
    buffer_s: int = 300

    def pause_ms(self, token: LoginToken, now_ms: int) -> int:
        """Return for how long a token that was got now is used."""
        left_ms = max(token.expires_ms - now_ms, 0)
        wished_ms = left_ms * self.factor
        earliest_ms, latest_ms = self.min_period_s * 1000, left_ms - self.buffer_s * 1000
        if earliest_ms > latest_ms:  # its life is too short for both
            return max(int(wished_ms), 1000)
        return int(min(max(wished_ms, earliest_ms), latest_ms))


def credentials_form(scope: str | None) -> bytes:
    """Return the body of the request for a token."""
    fields = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    return urlencode(fields).encode()


def credentials_headers(client_id: str, client_secret: str, *, is_encoded: bool = False) -> Mapping[str, str]:
    """Return the headers of the request for a token. With `is_encoded` both are encoded as in a form before, which some
    providers ask for."""
    if is_encoded:
        client_id, client_secret = quote_plus(client_id), quote_plus(client_secret)
    pair = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
    return {"Authorization": f"Basic {pair}", "Content-Type": FORM_TYPE}


def granted_token(content: bytes, name_claim: str = "sub") -> LoginToken:
    """Return the token in a provider's response. Raises ValueError."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("the response is no JSON") from None
    token = value.get("access_token") if isinstance(value, dict) else None
    if not isinstance(token, str):
        raise ValueError("the response has no access_token")  # noqa: TRY004 - one error for every bad response
    return LoginToken.parse(token.encode(errors="replace"), name_claim)
