"""The four APIs of delegation tokens: who may ask, who may do what, and what is answered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster.logins.delegation_tokens import DelegationTokens, TokenSettings
from broker.handlers.security.create_delegation_token import create_delegation_token
from broker.handlers.security.describe_delegation_token import describe_delegation_token
from broker.handlers.security.expire_delegation_token import expire_delegation_token
from broker.handlers.security.renew_delegation_token import renew_delegation_token
from broker.observability.audit import AuditLog
from config.broker import BrokerSettings
from metadata.store.port import Transaction
from protocol.errors import ErrorCode
from protocol.messages import create_delegation_token as create
from protocol.messages import describe_delegation_token as describe
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from protocol.schema import Request
from runtime.slices import SerialQueue
from runtime.tasks import TaskScope
from security.access import Operation, ResourceType
from security.denial import Cause, Denied
from security.principal import ANONYMOUS, Principal
from tests.async_tests import played_by
from tests.broker.contexts import context_of
from tests.differential.wire import fitted
from tests.doubles.clock import ManualClock
from tests.simulation.store import Fault, SimulatedEnsemble

HANDLERS: dict[type[Request], Any] = {
    each.request_type: each
    for each in (create_delegation_token, renew_delegation_token, expire_delegation_token, describe_delegation_token)
}


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
        services = SimpleNamespace(
            authorizer=self.rights,
            audit=AuditLog(),
            delegation_tokens=self.tokens,
            serial_queue=SerialQueue(self.clock, asyncio.get_running_loop().call_soon),
        )
        decoded = type(request).decode(fitted(request, version).encode(version), version)
        context = context_of(services, version, principal=principal, protocol=protocol, is_token_authenticated=by_token)
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


@played_by(lambda program: run(program, {}))
async def test_without_a_secret_there_are_no_tokens(world: World) -> None:
    for request in (creating(), *OTHERS):
        assert (await world.ask(request, 2)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@played_by(run)
async def test_a_store_that_does_not_answer(world: World) -> None:
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
