"""Delegation tokens: what may be done with one, by whom, and until when. Pure.

A token is an id and its HMAC under the cluster's secret: a client that knows both logs in by SCRAM as the token's owner, with
the HMAC in base64 for a password. The store holds everything but the HMAC.

Rules: a function decides from a token and the time, and returns the new token or an error; it stores nothing. Times are of the
wall clock, in milliseconds. Owner and renewers may renew and expire a token; none may go beyond its maximum time.
Invariant: `expires_ms` <= `max_ms`. The HMAC is in no repr.
Source: KIP-48, KIP-373; Kafka DelegationTokenManager, DelegationTokenManagerZk, KafkaApis.
"""

from __future__ import annotations

import base64
import hmac as hmac_function
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from protocol.errors import ErrorCode
from security.principal import Principal

HMAC_ALGORITHM: Final = "sha512"
NO_TIME_MS: Final = -1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token as the store has it. Its requester is `requester`, its principal `owner`."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_of(self, principal: Principal) -> bool:
        """Return whether `principal` may renew it and expire it."""
        return principal == self.owner or principal in self.renewers

    def has_expired(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expires_ms < now_ms


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """How long tokens live: at most, and from one renewal to the next."""

    lifetime_max_ms: int
    renewal_ms: int


def token_hmac(secret: str, token_id: str) -> bytes:
    """Return the HMAC of a token."""
    return hmac_function.digest(secret.encode(), token_id.encode(), HMAC_ALGORITHM)


def token_password(hmac: bytes) -> str:
    """Return the password of a login with this HMAC."""
    return base64.b64encode(hmac).decode()


def issued(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: Iterable[Principal],
    lifetime_ms: int,
    times: TokenTimes,
    now_ms: int,
) -> DelegationToken:
    """Return a new token. A `lifetime_ms` of 0 or less asks for the longest."""
    longest_ms = times.lifetime_max_ms
    max_ms = now_ms + (longest_ms if lifetime_ms <= 0 else min(lifetime_ms, longest_ms))
    expires_ms = min(max_ms, now_ms + times.renewal_ms)
    return DelegationToken(token_id, owner, requester, tuple(renewers), now_ms, max_ms, expires_ms)


def renewed(
    token: DelegationToken, principal: Principal, period_ms: int, times: TokenTimes, now_ms: int
) -> DelegationToken | ErrorCode:
    """Return the token after its renewal by `principal`; a negative `period_ms` asks for the usual time."""
    if not token.is_of(principal):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if token.has_expired(now_ms):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED
    return _expiring_in(token, times.renewal_ms if period_ms < 0 else period_ms, now_ms)


def expired(
    token: DelegationToken, principal: Principal, period_ms: int, now_ms: int
) -> DelegationToken | ErrorCode | None:
    """Return the token after `principal` has set its end to `period_ms` from now. None: it is to be removed, which a negative
    period asks for."""
    if not token.is_of(principal):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if period_ms < 0:
        return None
    if token.has_expired(now_ms):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED
    return _expiring_in(token, period_ms, now_ms)


def _expiring_in(token: DelegationToken, period_ms: int, now_ms: int) -> DelegationToken:
    return replace(token, expires_ms=min(token.max_ms, now_ms + period_ms))


def is_described(
    token: DelegationToken,
    requester: Principal,
    owners: Collection[Principal] | None,
    may_describe: Callable[[DelegationToken], bool],
) -> bool:
    """Return whether the answer to `requester`, who asks for the tokens of `owners` (None: of all), has this token.
    `may_describe` is asked about tokens of others."""
    if owners is not None and not any(token.is_of(owner) for owner in owners):
        return False
    return token.is_of(requester) or may_describe(token)


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token of the cluster with its HMAC, and how much it occupies in the store."""

    token: DelegationToken
    hmac: bytes = field(repr=False)
    node_bytes: int = 0

    @property
    def password(self) -> str:
        return token_password(self.hmac)


class TokenTable:
    """The tokens of the cluster that are known here, by id and by HMAC."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._by_id: dict[str, KnownToken] = {}
        self._by_hmac: dict[bytes, KnownToken] = {}
        self.kept_bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[KnownToken]:
        return iter(self._by_id.values())

    def hmac(self, token_id: str) -> bytes:
        return token_hmac(self._secret, token_id)

    def put(self, token: DelegationToken, node_bytes: int = 0) -> KnownToken:
        """Add a token, or replace it by its newer form."""
        self.remove(token.token_id)
        known = KnownToken(token, self.hmac(token.token_id), node_bytes)
        self.kept_bytes += node_bytes
        self._by_id[token.token_id] = self._by_hmac[known.hmac] = known
        return known

    def remove(self, token_id: str) -> None:
        known = self._by_id.pop(token_id, None)
        if known is not None:
            del self._by_hmac[known.hmac]
            self.kept_bytes -= known.node_bytes

    def keep_only(self, token_ids: Collection[str]) -> None:
        """Remove all others."""
        for token_id in self._by_id.keys() - set(token_ids):
            self.remove(token_id)

    def by_id(self, token_id: str) -> KnownToken | None:
        return self._by_id.get(token_id)

    def by_hmac(self, hmac: bytes) -> KnownToken | None:
        """Return the token with this HMAC. It is found by a keyed hash: time tells nothing about how much of it is right."""
        return self._by_hmac.get(hmac)

    def expired_ids(self, now_ms: int) -> list[str]:
        """Return the ids of the tokens whose time is over."""
        return [token_id for token_id, known in self._by_id.items() if known.token.has_expired(now_ms)]
