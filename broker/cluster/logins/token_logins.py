"""Logins by SCRAM with delegation tokens: the credential of a token, computed when it is first needed.

Rules: the id of a token is the name of the login, its HMAC in base64 the password. A credential is kept while its token holds:
computing one takes some thousand rounds of a hash, which only a client that knows a token can cause. Nothing of it is stored.
Source: Kafka DelegationTokenManager.prepareScramCredentials, DelegationTokenCache, ScramServerCallbackHandler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from security.sasl.scram import MECHANISMS, MIN_ITERATIONS, SALT_BYTES, ScramCredential, TokenLogin

if TYPE_CHECKING:
    from broker.cluster.logins.delegation_tokens import DelegationTokens
    from runtime.randomness import Randomness

KEPT_MAX: Final = 10_000


class TokenLogins:
    """Looks tokens up in `tokens`."""

    def __init__(self, tokens: DelegationTokens, randomness: Randomness) -> None:
        self._tokens = tokens
        self._randomness = randomness
        self._credentials: dict[tuple[str, str], ScramCredential] = {}

    def find(self, mechanism: str, token_id: str) -> TokenLogin | None:
        """Return the login of a token that holds, by the name of a mechanism and the token's id."""
        known = self._tokens.for_login(token_id)
        if known is None:
            self._credentials.pop((mechanism, token_id), None)
            return None
        credential = self._credentials.get((mechanism, token_id))
        if credential is None:
            if len(self._credentials) >= KEPT_MAX:
                self._credentials.pop(next(iter(self._credentials)))
            credential = self._credentials[mechanism, token_id] = self._computed(mechanism, known.password)
        return TokenLogin(credential, known.token.owner, known.token.expires_ms)

    def _computed(self, mechanism: str, password: str) -> ScramCredential:
        scram, salt = MECHANISMS[mechanism], self._randomness.randbytes(SALT_BYTES)
        return scram.credential(scram.salted_password(password, salt, MIN_ITERATIONS), salt, MIN_ITERATIONS)
