"""Tokens of a cluster: made and ended by any broker, known to all, kept over a restart, and removed when their time is over."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import pytest

from broker.cluster.logins.delegation_tokens import DelegationTokens, TokenSettings
from config.broker import BrokerSettings
from metadata.store.port import ConnectionLossError, StoreError, Transaction
from protocol.errors import ErrorCode, KafkaError
from runtime.tasks import TaskScope
from security.delegation_token import token_hmac
from security.principal import Principal
from tests.async_tests import played_by
from tests.doubles.clock import ManualClock
from tests.simulation.store import Fault, SimulatedEnsemble, SimulatedStore

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
GIVEN = {"delegation.token.secret.key": "secret", "delegation.token.expiry.time.ms": "1000"}
DAY_MS = 86_400_000


class World:
    """Brokers over one ensemble whose wall clock a test moves."""

    def __init__(self, tasks: TaskScope, given: dict[str, str]) -> None:
        self.tasks = tasks
        self.clock = ManualClock(5 * DAY_MS)
        self.ensemble = SimulatedEnsemble(self.clock)
        settings = TokenSettings.of(BrokerSettings({**GIVEN, **given}))
        assert settings is not None
        self.settings = settings
        self.is_controller = False

    async def broker(self, store: SimulatedStore | None = None) -> DelegationTokens:
        tokens = DelegationTokens(
            self.settings, store or self.ensemble.connect(), self.clock, random.Random(len(self.tasks)), self.tasks,
            is_controller=lambda: self.is_controller,
        )  # fmt: skip
        await tokens.start()
        return tokens

    async def settled(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 - what is waited for is anything
                await asyncio.sleep(0)


def run(case: Callable[[World], Awaitable[None]], **given: str) -> None:
    async def body() -> None:
        async with TaskScope("test") as tasks:
            await case(World(tasks, {name.replace("_", "."): text for name, text in given.items()}))

    asyncio.run(body())


@played_by(run)
async def test_every_broker_learns_of_a_token_and_of_its_end(world: World) -> None:
    one, two = await world.broker(), await world.broker()
    known = await one.create(ALICE, BOB, [CAROL], -1)
    assert known.hmac == token_hmac("secret", known.token.token_id) and len(known.token.token_id) == 22
    await world.settled(lambda: len(two) == 1)
    seen = two.for_login(known.token.token_id)
    assert seen == known and (seen.token.owner, seen.token.requester) == (ALICE, BOB)
    assert await two.renew(known.hmac, CAROL, 500) == world.clock.now_ms + 500
    await world.settled(lambda: next(iter(one.all())).token.expires_ms == world.clock.now_ms + 500)
    late = await world.broker()
    assert list(late.all()) == list(two.all()) and late.kept_bytes == one.kept_bytes > 200
    assert await one.expire(known.hmac, ALICE, -1) == world.clock.now_ms
    await world.settled(lambda: len(two) == len(late) == 0)
    assert one.kept_bytes == two.kept_bytes == 0


@played_by(run)
async def test_errors(world: World) -> None:
    tokens = await world.broker()
    known = await tokens.create(ALICE, ALICE, [], -1)
    for change in (tokens.renew, tokens.expire):
        for hmac, principal, error in (
            (b"x", ALICE, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
            (known.hmac, BOB, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        ):
            with pytest.raises(KafkaError) as caught:
                await change(hmac, principal, 1)
            assert caught.value.code is error
    world.clock.now_ms += 1001
    assert tokens.for_login(known.token.token_id) is None and tokens.for_login("x") is None
    for change in (tokens.renew, tokens.expire):
        with pytest.raises(KafkaError) as caught:
            await change(known.hmac, ALICE, 1)
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_EXPIRED


@played_by(run, barnabas_delegation_token_max_bytes="1000")
async def test_what_clients_can_make_is_bounded(world: World) -> None:
    tokens = await world.broker()
    with pytest.raises(KafkaError) as caught:
        await tokens.create(ALICE, ALICE, [Principal("User", "r" * 1000)] * 1000, -1)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    first = await tokens.create(ALICE, ALICE, [], -1)
    room = 1000 // first.node_bytes
    for _ in range(room - 1):
        await tokens.create(ALICE, ALICE, [], -1)
    with pytest.raises(KafkaError) as caught:
        await tokens.create(ALICE, ALICE, [], -1)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert tokens.kept_bytes == room * first.node_bytes and len(tokens) == room > 1
    await tokens.expire(first.hmac, ALICE, -1)
    await tokens.create(ALICE, ALICE, [], -1)


def test_the_controller_removes_expired_tokens(caplog: pytest.LogCaptureFixture) -> None:
    async def case(world: World) -> None:
        one, two = await world.broker(), await world.broker()
        short, long = await one.create(ALICE, ALICE, [], 500), await one.create(BOB, BOB, [], -1)
        await world.settled(lambda: len(two) == 2)
        world.clock.now_ms += 501
        await asyncio.sleep(0.02)
        assert len(one) == 2, "nobody is the controller"
        world.is_controller = True
        await world.settled(lambda: len(one) == len(two) == 1)
        assert one.for_login(short.token.token_id) is None and one.for_login(long.token.token_id) is not None
        assert short.hmac.hex() not in caplog.text and short.password not in caplog.text

    with caplog.at_level(logging.DEBUG):
        run(case, delegation_token_expiry_check_interval_ms="5")
    assert "delegation token expired" in caplog.text and "secret" not in caplog.text


@played_by(run)
async def test_a_lost_session_reads_everything_again(world: World) -> None:
    lost = world.ensemble.connect()
    one, two = await world.broker(), await world.broker(lost)
    gone, kept = await one.create(ALICE, ALICE, [], -1), await one.create(BOB, BOB, [], -1)
    await world.settled(lambda: len(two) == 2)
    world.ensemble.expire(lost.session().session_id)
    await one.expire(gone.hmac, ALICE, -1)
    new = await one.create(CAROL, CAROL, [], -1)
    await world.settled(lambda: {each.hmac for each in two.all()} == {kept.hmac, new.hmac})


@pytest.mark.parametrize("fault", Fault)
@played_by(run)
async def test_a_store_that_does_not_answer_is_an_error_and_repeated(world: World, fault: Fault) -> None:
    tokens = await world.broker()
    fates = iter([fault])

    def fate(_session_id: int, _operations: Transaction) -> Fault | None:
        return next(fates, None)

    world.ensemble.fault = fate
    with pytest.raises((ConnectionLossError, StoreError)):
        await tokens.create(ALICE, ALICE, [], -1)
    await asyncio.wait_for(tokens.create(ALICE, ALICE, [], -1), 60)
    await world.settled(lambda: len(tokens) >= 1)


def test_nodes_that_cannot_be_read_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def case(world: World) -> None:
        one = await world.broker()
        good = await one.create(ALICE, ALICE, [], -1)
        store = world.ensemble.connect()
        data, _ = await store.get(f"/delegation_token/tokens/{good.token.token_id}")
        for name, node in (
            ("bad", b"{"),
            ("nobody", data.replace(b"User%3A", b"").replace(good.token.token_id.encode(), b"nobody")),
        ):
            await store.create(f"/delegation_token/tokens/{name}", node)
        late = await world.broker()
        assert [each.token for each in late.all()] == [good.token]

    run(case)
    assert "token_id=nobody" in caplog.text and "node unreadable" in caplog.text


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        ({}, None),
        ({"delegation.token.secret.key": ""}, None),
        ({"delegation.token.master.key": "0ld"}, "0ld"),
        ({"delegation.token.master.key": "old", "delegation.token.secret.key": "s3cret"}, "s3cret"),
    ],
)
def test_the_secret(given: dict[str, str], secret: str | None) -> None:
    settings = TokenSettings.of(BrokerSettings(given))
    assert (settings and settings.secret) == secret
    assert settings is None or secret not in repr(settings)
