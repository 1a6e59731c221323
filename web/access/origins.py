"""What other sites may have a browser do here: nothing, but follow a link to the page. Pure.

Three things are checked, each enough for most browsers, so that one may be missing:

    Host              is a name of this process; else another site's name has been pointed at this address (DNS rebinding)
    Origin            of a request is the page's own
    Sec-Fetch-Site    says that the page itself asks, or that somebody has typed the address

What changes something comes from the page with a secret in the header X-Barnabas-CSRF, too, which other sites cannot read. A
program that is no browser needs none: it has credentials of its own, or there are none.

Rules: requests that only open the page (`/`, `/ui/`, `/static/`) may come from a link of any site, and a provider sends the
browser back after a login, which has a check of its own (`web.access.attempt`). Loopback addresses are
always names of this process: nobody can point another name at them.
Source: Fetch standard; W3C Fetch Metadata Request Headers; OWASP Cross-Site Request Forgery Prevention.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

OAUTH_CALLBACK: Final = "/api/oauth/callback"
"""Where a browser comes back to from the provider at which its user has logged in."""
PAGE_PREFIXES: Final = ("/ui/", "/static/")
SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
CSRF_HEADER: Final = "x-barnabas-csrf"
_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
_ORIGIN: Final = re.compile(
    r"(?P<scheme>https?)://(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE
)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_FORM_TYPES: Final = ("", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""What a form of another site can send without asking first; "" is no type."""


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """A request, as far as it matters here. A header that is not there is None."""

    method: str
    path: str
    scheme: str
    host: str
    origin: str | None = None
    fetch_site: str | None = None
    user_agent: str | None = None
    content_type: str | None = None
    has_body: bool = False
    has_cookie: bool = False
    has_authorization: bool = False
    csrf: str | None = None

    @property
    def changes(self) -> bool:
        return self.method not in SAFE_METHODS

    @property
    def opens_page(self) -> bool:
        return not self.changes and (self.path in ("/", "/ui") or self.path.startswith(PAGE_PREFIXES))

    @property
    def comes_back(self) -> bool:
        return self.method == "GET" and self.path == OAUTH_CALLBACK

    @property
    def is_of_browser(self) -> bool:
        """Return whether a browser may have sent it on behalf of a page."""
        return (
            self.origin is not None
            or self.fetch_site is not None
            or self.has_cookie
            or (self.user_agent or "").startswith("Mozilla/")
        )


class OwnHosts:
    """The names of this process: that of `base_uri`, `names` (with a port or without), and loopback. The page may be at
    `base_uri`, or where a request went."""

    def __init__(self, base_uri: str, names: Iterable[str] = ()) -> None:
        self._base = _origin(base_uri)
        self._names = frozenset(name.strip().lower() for name in names)

    def includes(self, host: str, scheme: str) -> bool:
        found = _origin(f"{scheme}://{host}")
        if found is None:
            return False
        _, name, port = found
        is_base = self._base is not None and _origin(f"{self._base[0]}://{host}") == self._base
        return is_base or name in _LOOPBACK or not self._names.isdisjoint((name, f"{name}:{port}"))

    def is_own(self, origin: str, host: str, scheme: str) -> bool:
        """Return whether a page at `origin` is one of this process, which is asked as `host`."""
        found = _origin(origin)
        return found is not None and found in (self._base, _origin(f"{scheme}://{host}"))


def problem_of(asked: IncomingRequest, hosts: OwnHosts, csrf: str | None) -> str | None:
    """Return why a request is refused, None if it is not. `csrf` is the secret that the page has, None where no request of a
    browser has any right to change something."""
    if not hosts.includes(asked.host, asked.scheme):
        return "Host is no name of this server"
    if asked.opens_page or asked.comes_back:
        return None
    if asked.fetch_site not in (None, "same-origin", "none"):
        return "the request comes from another site"
    if asked.origin is not None and not hosts.is_own(asked.origin, asked.host, asked.scheme):
        return "the request comes from another site"
    if not asked.changes or asked.has_authorization:
        return None
    if asked.is_of_browser:
        if csrf is not None and not hmac.compare_digest((asked.csrf or "").encode(), csrf.encode()):
            return "X-Barnabas-CSRF is missing or old: load the page again"
    elif asked.has_body and (asked.content_type or "").partition(";")[0].strip().lower() in _FORM_TYPES:
        return "Content-Type must say what the body is, such as application/json"
    return None


def _origin(text: str) -> tuple[str, str, int] | None:
    """Return scheme, name and port of `scheme://host`; None for anything else."""
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return None
    scheme = match["scheme"].lower()
    return scheme, match["name"].lower(), int(match["port"] or _DEFAULT_PORTS[scheme])
