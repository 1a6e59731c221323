"""The headers that every answer has: what a browser may do with it. Pure.

Rules: no script but the page's own files runs, no other site shows the page in a frame or reads an answer. A header that an
endpoint has set stays. There is no Strict-Transport-Security: it would hold for all ports of the host, also those of others.
Source: Content Security Policy Level 3; Fetch standard; OWASP HTTP Headers Cheat Sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_ALWAYS: Final = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
_REVALIDATED: Final = b"no-cache"
"""The page's files: asked for again each time, so that a new version is one at once."""
_NOT_KEPT: Final = b"no-store"
"""All else: it is of the cluster, and of one user."""

Headers = Sequence[tuple[bytes, bytes]]


def with_headers(headers: Headers, *, is_page: bool) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer, with those that are missing. `is_page`: it is one of the page's files."""
    there = {name.lower() for name, _ in headers}
    wanted = (*_ALWAYS, (b"cache-control", _REVALIDATED if is_page else _NOT_KEPT))
    return [*headers, *(each for each in wanted if each[0] not in there)]
