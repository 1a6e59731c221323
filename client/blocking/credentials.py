"""What a process keeps for its connections: bearer tokens, salted passwords, contexts of TLS.

Rules: blocking. A context is made again when a file that it was made of has changed. No error contains a secret.
Errors: LoginRefused when a login cannot succeed however often it is repeated, OSError when a token endpoint does not answer,
SettingsError for a store that cannot be used.
"""

from __future__ import annotations

import os
import secrets
import ssl

from client.mechanisms import exchanges_of
from client.settings.bearer_tokens import BearerTokens
from client.settings.files import context_of
from client.settings.values import BearerSettings, LoginSettings, TlsSettings
from security.sasl.mechanisms import SaslClient, SaslClientFactory
from security.sasl.scram import NONCE_BYTES


class ProcessCredentials:
    """Those of one process."""

    def __init__(self, tokens: BearerTokens | None = None) -> None:
        self._tokens = tokens or BearerTokens()
        self._exchanges: dict[LoginSettings, SaslClientFactory] = {}
        self._contexts: dict[TlsSettings, tuple[list[tuple[int, ...]], ssl.SSLContext]] = {}

    def exchange(self, login: LoginSettings) -> SaslClient:
        """Return a new exchange, whose `first` raises LoginRefused, SettingsError, OSError."""
        if login not in self._exchanges:
            bearer = login.bearer or BearerSettings()
            self._exchanges[login] = exchanges_of(login, nonce, lambda: self._tokens.current(bearer).text)
        return self._exchanges[login]()

    def forget(self, login: LoginSettings) -> None:
        """Keep nothing of this login any more."""
        self._exchanges.pop(login, None)
        if login.bearer is not None:
            self._tokens.forget(login.bearer)

    def context(self, tls: TlsSettings) -> ssl.SSLContext:
        """Raises SettingsError."""
        stamps = [_stamp(path) for path in tls.files]
        kept = self._contexts.get(tls)
        if kept is None or kept[0] != stamps:
            kept = self._contexts[tls] = stamps, context_of(tls)
        return kept[1]


def nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)


def _stamp(path: str) -> tuple[int, ...]:
    """Return what differs when a file was changed or replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


CREDENTIALS = ProcessCredentials()
"""Those of this process."""
