"""The cookies of the page: their names, their attributes, and how they are read. Pure.

Rules: no script reads one, and no other host can set one where there is TLS (`__Host-`). Cookies do not tell ports apart, so a
name has the port: two processes on one host do not end each other's sessions. A name that is there twice counts for nothing:
somebody else may have set one of them.
Source: RFC 6265bis.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

STRICT: Final = "Strict"
LAX: Final = "Lax"


class Cookie:
    """`base_uri` is where the page is. A cookie that is STRICT is not sent with a request that another site has caused, one
    that is LAX only with the opening of a page. It ends with the browser, or after `lifetime_s`."""

    def __init__(self, base_uri: str, name: str, same_site: str, lifetime_s: int | None = None) -> None:
        parts = urlsplit(base_uri)
        self._name = f"{name}-{parts.port or parts.scheme}"
        self._attributes = f"Path=/; HttpOnly; SameSite={same_site}"
        self._age = "" if lifetime_s is None else f"; Max-Age={lifetime_s}"

    def name(self, scheme: str) -> str:
        return f"__Host-{self._name}" if scheme == "https" else self._name

    def value(self, cookies: Iterable[str], scheme: str) -> str | None:
        """Return what the headers Cookie say."""
        wanted = self.name(scheme)
        pairs = (pair.strip().partition("=") for line in cookies for pair in line.split(";"))
        found = [value for name, _, value in pairs if name == wanted]
        return found[0] if len(found) == 1 and found[0] else None

    def set(self, value: str, scheme: str) -> str:
        """Return the header Set-Cookie."""
        return f"{self.name(scheme)}={value}; {self._attributes}{self._age}{_secure(scheme)}"

    def unset(self, scheme: str) -> str:
        return f"{self.name(scheme)}=; {self._attributes}; Max-Age=0{_secure(scheme)}"


def _secure(scheme: str) -> str:
    return "; Secure" if scheme == "https" else ""
