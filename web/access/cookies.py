"""The cookie of a session: its name, its attributes, and how it is read. Pure.

Rules: no script reads it, no other site sends it, no other host can set it where there is TLS (`__Host-`). Cookies do not tell
ports apart, so the name has the port: two processes on one host do not end each other's sessions. A name that is there twice
counts for nothing: somebody else may have set one of them.
Source: RFC 6265bis.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit


class SessionCookie:
    """`base_uri` is where the page is."""

    def __init__(self, base_uri: str) -> None:
        parts = urlsplit(base_uri)
        self._name = f"barnabas-{parts.port or parts.scheme}"

    def name(self, scheme: str) -> str:
        return f"__Host-{self._name}" if scheme == "https" else self._name

    def value(self, cookies: Iterable[str], scheme: str) -> str | None:
        """Return what the headers Cookie say."""
        wanted = self.name(scheme)
        pairs = (pair.strip().partition("=") for line in cookies for pair in line.split(";"))
        found = [value for name, _, value in pairs if name == wanted]
        return found[0] if len(found) == 1 and found[0] else None

    def set(self, value: str, scheme: str) -> str:
        """Return the header Set-Cookie. It ends with the browser, or with the session."""
        return f"{self.name(scheme)}={value}; Path=/; HttpOnly; SameSite=Strict{_secure(scheme)}"

    def unset(self, scheme: str) -> str:
        return f"{self.name(scheme)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{_secure(scheme)}"


def _secure(scheme: str) -> str:
    return "; Secure" if scheme == "https" else ""
