"""The four APIs of delegation tokens, asked by clients that have authenticated with PLAIN, and by one that has not.

The brokers' tokens are shared by all plays: a case looks only at those of owners of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.differential.play import SASL, Run, case
from tests.differential.wire import Wire

LONG_MAX = 2**63 - 1


def login(run: Run, user: str = "alice", wire: Wire | None = None) -> Wire:
    """Authenticate, on the run's own connection if there is no other."""
    wire = wire or run.wire
    assert run.do(SaslHandshakeRequest(mechanism="PLAIN"), wire=wire).error_code == 0
    token = f"\0{user}\0{user}-secret".encode()
    assert run.do(SaslAuthenticateRequest(auth_bytes=token), wire=wire).error_code == 0
    return wire


@contextmanager
def bob_beside(run: Run) -> Iterator[Wire]:
    wire = run.connect()
    try:
        yield login(run, "bob", wire)
    finally:
        wire.close()


def creating(
    owner: str | None = None, *renewers: str, kind: str = "User", lifetime_ms: int = -1
) -> CreateDelegationTokenRequest:
    rows = [CreatableRenewers(principal_type=kind, principal_name=renewer) for renewer in renewers]
    return CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else "User",
        owner_principal_name=owner,
        renewers=rows,
        max_lifetime_ms=lifetime_ms,
    )


def made(run: Run, wire: Wire, owner: str | None = None, *renewers: str, lifetime_ms: int = -1) -> Any:
    """A token that only prepares."""
    answer = run.do(creating(owner, *renewers, lifetime_ms=lifetime_ms), wire=wire)
    assert answer.error_code == 0, ErrorCode(answer.error_code).name
    return answer


def note_times(run: Run, answer: Any) -> None:
    """How long a new token lives."""
    issued_ms = answer.issue_timestamp_ms
    run.note([answer.expiry_timestamp_ms - issued_ms, answer.max_timestamp_ms - issued_ms])


def describing(*owners: str, kind: str = "User") -> DescribeDelegationTokenRequest:
    rows = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=owner) for owner in owners]
    return DescribeDelegationTokenRequest(owners=rows)


def only(*tokens: Any) -> Callable[[DescribeDelegationTokenResponse], None]:
    """Leave the tokens of other cases out, and put these in order, so that they get the same numbers."""
    ids = [token.token_id for token in tokens]

    def pick(answer: DescribeDelegationTokenResponse) -> None:
        answer.tokens = [token for token in answer.tokens if token.token_id in ids]
        answer.tokens.sort(key=lambda token: ids.index(token.token_id))

    return pick


# --- CreateDelegationToken ---


@case(CreateDelegationTokenRequest, "normal", stage=SASL)
def a_token_of_ones_own(run: Run) -> None:
    wire = login(run)
    note_times(run, run.ask(creating(None, "bob", "carol d", "bob"), wire=wire))
    note_times(run, run.ask(creating(""), wire=wire))


@case(CreateDelegationTokenRequest, "edge", stage=SASL)
def how_long_a_token_lives(run: Run) -> None:
    wire = login(run)
    for lifetime_ms in (0, 1, 1000, 700_000, LONG_MAX, -LONG_MAX):
        note_times(run, run.ask(creating(lifetime_ms=lifetime_ms), wire=wire))


@case(CreateDelegationTokenRequest, "edge", "3+", stage=SASL)
def a_token_of_another_owner(run: Run) -> None:
    wire = login(run)
    for owner in ("alice", run.name("ü *~ö/"), "ANONYMOUS"):
        run.ask(creating(owner), wire=wire)
    request = creating(run.name("team"))
    request.owner_principal_type = "Group"
    run.ask(request, wire=wire)
    request.owner_principal_type = ""
    run.ask(request, wire=wire)


@case(CreateDelegationTokenRequest, "wrong", stage=SASL)
def renewers_that_are_no_users(run: Run) -> None:
    wire = login(run)
    run.ask(creating(None, "bob", kind="Group"), wire=wire)
    run.ask(creating(None, "bob", kind="user"), wire=wire)
    run.ask(creating(None, ""), wire=wire)


@case(CreateDelegationTokenRequest, "wrong")
def a_listener_that_authenticates_nobody(run: Run) -> None:
    run.ask(creating())
    run.ask(creating(None, "bob", kind="Group"))


# --- RenewDelegationToken ---


def renewing(hmac: bytes, period_ms: int = -1) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)


@case(RenewDelegationTokenRequest, "normal", stage=SASL)
def by_its_owner_and_by_a_renewer(run: Run) -> None:
    alice = login(run)
    with bob_beside(run) as bob:
        token = made(run, alice, None, "bob")
        run.ask(renewing(token.hmac), wire=alice)
        run.ask(renewing(token.hmac, 1000), wire=bob)


@case(RenewDelegationTokenRequest, "edge", stage=SASL)
def periods_of_renewals(run: Run) -> None:
    wire = login(run)
    token = made(run, wire)
    for period_ms in (5_000_000, 0):
        answer = run.ask(renewing(token.hmac, period_ms), wire=wire)
        run.note(answer.expiry_timestamp_ms == token.max_timestamp_ms)


@case(RenewDelegationTokenRequest, "wrong", stage=SASL)
def tokens_that_cannot_be_renewed(run: Run) -> None:
    alice = login(run)
    with bob_beside(run) as bob:
        run.ask(renewing(b"no such token"), wire=alice)
        run.ask(renewing(b""), wire=alice)
        run.ask(renewing(made(run, alice).hmac), wire=bob)
        requested = made(run, alice, "bob")
        run.ask(renewing(requested.hmac), wire=alice)  # whoever asked for a token is not its owner
        token = made(run, alice, lifetime_ms=1)

        def has_expired() -> bool:
            return bool(run.do(renewing(token.hmac), wire=alice).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED)

        run.until("it has expired", has_expired)
        run.ask(renewing(token.hmac), wire=alice)
        run.ask(renewing(token.hmac), wire=bob)


@case(RenewDelegationTokenRequest, "wrong")
def on_a_listener_that_authenticates_nobody(run: Run) -> None:
    run.ask(renewing(b"no such token"))


# --- ExpireDelegationToken ---


def expiring(hmac: bytes, period_ms: int = -1) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)


@case(ExpireDelegationTokenRequest, "normal", stage=SASL)
def at_once_and_later(run: Run) -> None:
    alice = login(run)
    with bob_beside(run) as bob:
        token = made(run, alice, None, "bob")
        run.ask(expiring(token.hmac, 60_000), wire=bob)
        run.ask(expiring(token.hmac), wire=alice)
        run.ask(expiring(token.hmac), wire=alice)


@case(ExpireDelegationTokenRequest, "edge", stage=SASL)
def periods_until_the_end(run: Run) -> None:
    wire = login(run)
    token = made(run, wire)
    answer = run.ask(expiring(token.hmac, 5_000_000), wire=wire)
    run.note(answer.expiry_timestamp_ms == token.max_timestamp_ms)
    run.ask(expiring(token.hmac, 0), wire=wire)

    def has_expired() -> bool:
        return bool(run.do(expiring(token.hmac, 0), wire=wire).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED)

    run.until("it has expired", has_expired)
    run.ask(expiring(token.hmac, 0), wire=wire)
    run.ask(expiring(token.hmac), wire=wire)  # it is removed although it has expired


@case(ExpireDelegationTokenRequest, "wrong", stage=SASL)
def tokens_that_cannot_be_ended(run: Run) -> None:
    alice = login(run)
    with bob_beside(run) as bob:
        run.ask(expiring(b"no such token"), wire=alice)
        token = made(run, alice)
        run.ask(expiring(token.hmac), wire=bob)
        run.ask(expiring(token.hmac, 1), wire=bob)


@case(ExpireDelegationTokenRequest, "wrong")
def of_a_client_that_nobody_knows(run: Run) -> None:
    run.ask(expiring(b"no such token"))


# --- DescribeDelegationToken ---


@case(DescribeDelegationTokenRequest, "normal", stage=SASL)
def tokens_of_some_owners(run: Run) -> None:
    wire = login(run)
    one, two = run.name("one"), run.name("two")
    tokens = made(run, wire, one, two), made(run, wire, two), made(run, wire, run.name("three"), one)
    shown = only(*tokens)
    run.ask(describing(one), wire=wire, pick=shown)
    run.ask(describing(two, one, "nobody"), wire=wire, pick=shown)
    run.ask(DescribeDelegationTokenRequest(owners=None), wire=wire, pick=shown)


@case(DescribeDelegationTokenRequest, "edge", stage=SASL)
def no_owners_and_changed_tokens(run: Run) -> None:
    wire = login(run)
    owner = run.name("owner")
    run.ask(describing(), wire=wire)
    run.ask(describing(owner), wire=wire)
    token = made(run, wire, owner, "alice")
    run.ask(describing(owner, kind="Group"), wire=wire)
    assert run.do(renewing(token.hmac, 1000), wire=wire).error_code == 0
    run.ask(describing(owner), wire=wire, pick=only(token))
    assert run.do(expiring(token.hmac), wire=wire).error_code == 0
    run.ask(describing(owner), wire=wire)


@case(DescribeDelegationTokenRequest, "wrong")
def by_a_client_that_nobody_knows(run: Run) -> None:
    run.ask(DescribeDelegationTokenRequest(owners=None))
    run.ask(describing())
