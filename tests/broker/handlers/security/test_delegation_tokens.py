"""The four APIs of delegation tokens: who may ask, who may do what, and what is answered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.cluster.logins.delegation_tokens import DelegationTokens, TokenSettings
from broker.handlers.security.create_delegation_token import create_delegation_token
from broker.handlers.security.describe_delegation_token import describe_delegation_token
from broker.handlers.security.expire_delegation_token import expire_delegation_token
from broker.handlers.security.renew_delegation_token import renew_delegation_token
from broker.network.client_connection import ClientConnection
from broker.network.request_context import RequestContext
from broker.observability.audit import AuditLog
from broker.services import Services
from config.broker import BrokerSettings
from metadata.store.port import Transaction
from protocol.errors import ErrorCode
from protocol.messages import create_delegation_token as create
from protocol.messages import describe_delegation_token as describe
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from protocol.schema import Request
from runtime.network.transport import Address
from runtime.slices import SerialQueue
from runtime.tasks import TaskScope
from security.access import Operation, ResourceType
from security.denial import Cause, Denied
from security.principal import ANONYMOUS, Principal
from tests.differential.wire import fitted
from tests.doubles.clock import ManualClock
from tests.simulation.store import Fault, SimulatedEnsemble

HANDLERS: dict[type[Request], Any] = {
    each.request_type: each
    for each in (create_delegation_token, renew_delegation_token, expire_delegation_token, describe_delegation_token)
}
ADDRESS = Address("127.0.0.1", 9)


class Rights:
    """An authorizer: what is not listed is denied."""

    is_open = False

    def __init__(self) -> None:
        self.granted: set[tuple[str, Operation, ResourceType, str]] = set()

    def allows(
        self, principal: Principal, _host: str, operation: Operation, kind: ResourceType, name: str, **_: bool
    ) -> bool:
        return (principal.name, operation, kind, name) in self.granted

    def cause(self, _denied: Denied) -> Cause:
        return Cause()


class World:
    def __init__(self, tasks: TaskScope, given: dict[str, str]) -> None:
        self.clock = ManualClock(10**12)
        self.ensemble = SimulatedEnsemble(self.clock)
        self.rights = Rights()
        settings = TokenSettings.of(BrokerSettings(given))
        self.tokens = settings and DelegationTokens(
            settings, self.ensemble.connect(), self.clock, random.Random(3), tasks, is_controller=lambda: False
        )

    async def ask(
        self, request: Request, version: int, user: str = "alice", *, protocol: str = "SASL_SSL", by_token: bool = False
    ) -> Any:
        principal = Principal("User", user)
        connection = ClientConnection("1", "L", protocol, ADDRESS, ADDRESS, principal, is_token_authenticated=by_token)
        services = SimpleNamespace(
            authorizer=self.rights,
            audit=AuditLog(),
            delegation_tokens=self.tokens,
            serial_queue=SerialQueue(self.clock, asyncio.get_running_loop().call_soon),
        )
        decoded = type(request).decode(fitted(request, version).encode(version), version)
        context = RequestContext(version, 1, "test", connection, cast(Services, services))
        response = await HANDLERS[type(request)](decoded, context)
        return type(response).decode(response.encode(version), version)


def run(case: Callable[[World], Awaitable[None]], given: dict[str, str] | None = None) -> None:
    async def body() -> None:
        async with TaskScope("test") as tasks:
            world = World(tasks, {"delegation.token.secret.key": "secret"} if given is None else given)
            if world.tokens is not None:
                await world.tokens.start()
            await case(world)

    asyncio.run(body())


def creating(owner: str | None = None, *renewers: str, kind: str = "User", lifetime_ms: int = -1) -> Request:
    return create.CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else kind,
        owner_principal_name=owner,
        renewers=[create.CreatableRenewers(principal_type=kind, principal_name=renewer) for renewer in renewers],
        max_lifetime_ms=lifetime_ms,
    )


def describing(*owners: str) -> Request:
    rows = [describe.DescribeDelegationTokenOwner(principal_type="User", principal_name=owner) for owner in owners]
    return describe.DescribeDelegationTokenRequest(owners=rows or None)


OTHERS = (
    RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1),
    ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1),
    describing(),
)


@pytest.mark.parametrize(
    ("protocol", "user", "by_token"),
    [
        ("PLAINTEXT", "alice", False),
        ("SSL", ANONYMOUS.name, False),
        ("SASL_SSL", "alice", True),
        ("SASL_PLAINTEXT", "alice", True),
        ("SSL", "alice", True),
    ],
)
def test_connections_that_may_not_ask(protocol: str, user: str, by_token: bool) -> None:
    async def case(world: World) -> None:
        for request in (creating(), *OTHERS):
            answer = await world.ask(request, 1, user, protocol=protocol, by_token=by_token)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    run(case)
    run(case, {})


def test_without_a_secret_there_are_no_tokens() -> None:
    async def case(world: World) -> None:
        for request in (creating(), *OTHERS):
            assert (await world.ask(request, 2)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    run(case, {})


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_token_of_ones_own(version: int) -> None:
    async def case(world: World) -> None:
        made = await world.ask(creating(None, "bob"), version, protocol="SSL")
        assert (made.error_code, made.principal_type, made.principal_name) == (0, "User", "alice")
        assert made.token_requester_principal_name == ("alice" if version >= 3 else "")
        assert made.issue_timestamp_ms == 10**12 and made.max_timestamp_ms == 10**12 + 7 * 86_400_000
        other = min(version, 2)
        renewed = await world.ask(RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=9), other, "bob")
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, 10**12 + 9)
        (row,) = (await world.ask(describing(), version, "bob")).tokens
        assert (row.token_id, row.hmac, row.expiry_timestamp) == (made.token_id, made.hmac, 10**12 + 9)
        assert [(each.principal_type, each.principal_name) for each in row.renewers] == [("User", "bob")]
        ended = await world.ask(ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1), other)
        assert (ended.error_code, ended.expiry_timestamp_ms) == (0, 10**12)
        assert (await world.ask(describing(), version)).tokens == []

    run(case)


def test_a_token_for_another_user() -> None:
    async def case(world: World) -> None:
        refused = await world.ask(creating("bob"), 3)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
        assert (refused.token_id, refused.hmac, refused.issue_timestamp_ms) == ("", b"", -1)
        world.rights.granted.add(("alice", Operation.CREATE_TOKENS, ResourceType.USER, "User:bob"))
        made = await world.ask(creating("bob"), 3)
        assert made.error_code == 0 and made.principal_name == "bob"
        assert (await world.ask(creating("alice"), 3)).error_code == 0
        mismatch = await world.ask(RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=9), 2)
        assert (mismatch.error_code, mismatch.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)

    run(case)


def test_renewers_are_users() -> None:
    async def case(world: World) -> None:
        request = creating(None, "group", kind="Group")
        assert (await world.ask(request, 3)).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE

    run(case)


def test_who_sees_which_tokens() -> None:
    async def case(world: World) -> None:
        of_alice, of_bob = await world.ask(creating(), 3), await world.ask(creating(None, "carol"), 3, "bob")

        async def seen(user: str, *owners: str) -> set[str]:
            return {row.token_id for row in (await world.ask(describing(*owners), 3, user)).tokens}

        a, b = of_alice.token_id, of_bob.token_id
        assert await seen("alice") == {a} and await seen("carol") == {b} and await seen("dave") == set()
        assert await seen("alice", "bob") == set() and await seen("carol", "bob", "x") == {b}
        empty = describe.DescribeDelegationTokenRequest(owners=[])
        assert (await world.ask(empty, 3)).tokens == []
        world.rights.granted.add(("dave", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, a))
        assert await seen("dave") == {a} and await seen("dave", "bob") == set()
        world.rights.granted.add(("dave", Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob"))
        assert await seen("dave") == {a, b} and await seen("dave", "carol") == {b}

    run(case)


def test_a_store_that_does_not_answer() -> None:
    async def case(world: World) -> None:
        made = await world.ask(creating(), 3)

        def lose(_session_id: int, _operations: Transaction) -> Fault:
            return Fault.REQUEST_LOST

        world.ensemble.fault = lose
        for request in (
            creating(),
            RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=1),
            ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1),
        ):
            assert (await world.ask(request, 2)).error_code == ErrorCode.REQUEST_TIMED_OUT

    run(case)
