"""The client's side of SASL exchanges, from the settings of a login.

Rules: blocking, as executors run plain Python; bearer tokens are kept in the process. No error contains a secret.
Errors: LoginRefused when a login cannot succeed however often it is repeated, OSError when a token endpoint does not answer.
"""

from __future__ import annotations

import secrets

from client.mechanisms import exchanges_of
from client.settings.bearer_tokens import BearerTokens
from client.settings.values import BearerSettings, LoginSettings
from security.sasl import SaslClient, SaslClientFactory
from security.scram import NONCE_BYTES


class Logins:
    """Makes the exchanges of one process, and keeps its tokens."""

    def __init__(self, tokens: BearerTokens | None = None) -> None:
        self._tokens = tokens or BearerTokens()
        self._exchanges: dict[LoginSettings, SaslClientFactory] = {}

    def exchange(self, login: LoginSettings) -> SaslClient:
        """Return a new exchange, whose `first` raises LoginRefused, SettingsError, OSError."""
        if login not in self._exchanges:
            bearer = login.bearer or BearerSettings()
            self._exchanges[login] = exchanges_of(login, nonce, lambda: self._tokens.current(bearer).text)
        return self._exchanges[login]()


def nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)


LOGINS = Logins()
"""Of this process."""
