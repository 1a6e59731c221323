"""How a client is secured: values alone, which options are parsed into and which travel to executors. Pure.

Rules: secrets are in no repr. Files are named here, and read where a connection is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClientStore:
    """A store in a file (`location`), or PEM in line: `certificates`, and `key` of a key store. `setting` is its option."""

    setting: str
    kind: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ClientTls:
    """`trusted` is None for the authorities of the operating system; `keys` is what this client shows."""

    trusted: ClientStore | None = None
    keys: ClientStore | None = None
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    checks_host_name: bool = True


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """`options` of the login module; `token_url` is where bearer tokens come from, None for unsecured ones."""

    mechanism: str
    options: tuple[tuple[str, str], ...] = field(repr=False)
    token_url: str | None = None
    name_claim: str = "sub"
    scope_claim: str = "scope"
