"""Delegation tokens: create, renew, expire, describe. Pure.

A token is an id with a secret, the HMAC: a client that has both logs in by SCRAM as the token's owner. A client that has logged
in by a token can ask for none of the four.

Rules: the HMAC is in no repr. Times are of the brokers' wall clock, in milliseconds. Any broker answers.
Source: KIP-48, KIP-373; Kafka KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from client.admin.steps import Steps, ask
from client.settings.values import LoginSettings
from protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from security.delegation_token import token_password
from security.principal import Principal

if TYPE_CHECKING:
    from protocol.messages.describe_delegation_token import DescribedDelegationToken

LONGEST_MS: Final = -1
"""A lifetime, or the period of a renewal: as long as the brokers allow."""
NOW_MS: Final = -1
"""A period: the token ends immediately, and is removed."""


@dataclass(frozen=True, slots=True)
class Token:
    """`expires_ms` is when it ends, unless it is renewed, which is possible up to `max_ms`. `renewers` is empty for a token
    that was just created: brokers do not repeat them."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: Principal
    issued_ms: int
    expires_ms: int
    max_ms: int
    renewers: tuple[Principal, ...] = ()

    def login(self, mechanism: str) -> LoginSettings:
        """Return the login of a client that has this token; `mechanism` is one of SCRAM's."""
        return LoginSettings(mechanism, self.token_id, token_password(self.hmac), is_token=True)


def create(
    renewers: Iterable[Principal] = (), lifetime_ms: int = LONGEST_MS, owner: Principal | None = None
) -> Steps[Token]:
    """Return a new token of `owner`, None for the client itself. Raises KafkaError."""
    response = yield from ask(
        CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.principal_type,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[
                CreatableRenewers(principal_type=each.principal_type, principal_name=each.name) for each in renewers
            ],
            max_lifetime_ms=lifetime_ms,
        )
    )
    return Token(
        response.token_id,
        response.hmac,
        _owner(response),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


def renew(hmac: bytes, period_ms: int = LONGEST_MS) -> Steps[int]:
    """Let a token live for so long from now; return when it ends. Raises KafkaError."""
    response = yield from ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))
    expires_ms: int = response.expiry_timestamp_ms
    return expires_ms


def expire(hmac: bytes, period_ms: int = NOW_MS) -> Steps[int]:
    """Let a token end so long from now; return when it ends. Raises KafkaError."""
    response = yield from ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))
    expires_ms: int = response.expiry_timestamp_ms
    return expires_ms


def describe(owners: Sequence[Principal] | None = None) -> Steps[list[Token]]:
    """Return the tokens of these owners that the client may see, None for all that it may see. Raises KafkaError."""
    rows = None
    if owners is not None:
        rows = [
            DescribeDelegationTokenOwner(principal_type=each.principal_type, principal_name=each.name)
            for each in owners
        ]
    response = yield from ask(DescribeDelegationTokenRequest(owners=rows))
    return [_described(row) for row in response.tokens]


def _described(row: DescribedDelegationToken) -> Token:
    return Token(
        row.token_id,
        row.hmac,
        _owner(row),
        row.issue_timestamp,
        row.expiry_timestamp,
        row.max_timestamp,
        tuple(Principal(each.principal_type, each.principal_name) for each in row.renewers),
    )


def _owner(row: Any) -> Principal:
    return Principal(row.principal_type, row.principal_name)
