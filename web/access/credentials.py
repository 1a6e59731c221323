"""The header Authorization of HTTP clients: Basic with a user and a password, Bearer with a token. Pure.

Source: RFC 7617, RFC 6750. No error contains what the header has.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class BadCredentials(ValueError):
    """The header is none of the two; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class PasswordCredentials:
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenCredentials:
    token: str = field(repr=False)


def parse_authorization(header: str) -> PasswordCredentials | TokenCredentials:
    """Raises BadCredentials."""
    scheme, _, text = header.strip().partition(" ")
    text = text.strip()
    if scheme.lower() == "bearer":
        if _TOKEN.fullmatch(text) is None:
            raise BadCredentials("Authorization: Bearer has no token")
        return TokenCredentials(text)
    if scheme.lower() != "basic":
        raise BadCredentials("Authorization is neither Basic nor Bearer")
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise BadCredentials("Authorization: Basic is no base64 of UTF-8") from None
    if not colon or not user or not password:
        raise BadCredentials("Authorization: Basic has no user with a password")
    return PasswordCredentials(user, password)
