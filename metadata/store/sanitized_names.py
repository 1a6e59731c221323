"""Names of users and clients as nodes and metrics have them, and back. Pure.

Source: Kafka Sanitizer.sanitize, java.net.URLEncoder.
"""

from __future__ import annotations

from urllib.parse import quote, unquote


def sanitized(name: str) -> str:
    """Return `name` with all but ASCII letters, digits, `.`, `-` and `_` as percent escapes of UTF-8."""
    return quote(name, safe="").replace("~", "%7E")


def desanitized(text: str) -> str:
    """Return the name of its sanitized form."""
    return unquote(text)
