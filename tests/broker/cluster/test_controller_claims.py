"""Who is believed to be the controller: the one the store names, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.cluster.controller_claims import ControllerClaims
from metadata.store import znodes
from metadata.store.port import ConnectionLossError, Create, SetData, Store
from runtime.clock import SystemClock
from tests.async_tests import played_by
from tests.simulation.store import SimulatedEnsemble

OWN_ID = 1


class Election:
    """The two nodes that an elected controller writes."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def won_by(self, broker_id: int, epoch: int) -> None:
        node, data = znodes.encode_controller(broker_id, 0), znodes.encode_controller_epoch(epoch)
        if await self.store.exists(znodes.CONTROLLER) is None:
            await self.store.multi([Create(znodes.CONTROLLER, node), Create(znodes.CONTROLLER_EPOCH, data)])
        else:
            await self.store.multi([SetData(znodes.CONTROLLER, node), SetData(znodes.CONTROLLER_EPOCH, data)])


def run(scenario: Callable[[ControllerClaims, Election], Awaitable[None]]) -> None:
    async def program() -> None:
        store = SimulatedEnsemble(SystemClock()).connect()
        await scenario(ControllerClaims(OWN_ID, store), Election(store))

    asyncio.run(program())


@played_by(run, gives=2)
async def test_the_one_that_the_store_names_is_believed(claims: ControllerClaims, election: Election) -> None:
    await election.won_by(2, 5)
    assert await claims.is_controller(2, 5)
    assert (claims.controller_id, claims.epoch) == (2, 5)
    assert claims.is_current(2, 5)
    assert not claims.is_current(3, 5)


@pytest.mark.parametrize(("sender", "epoch"), [(3, 5), (3, 6), (2, 6), (2, 4), (3, 2**31 - 1), (OWN_ID, 5), (-1, 5)])
@played_by(run, gives=2)
async def test_others_are_not(claims: ControllerClaims, election: Election, sender: int, epoch: int) -> None:
    await election.won_by(2, 5)
    assert not await claims.is_controller(sender, epoch)
    assert await claims.is_controller(2, 5), "the lie has changed nothing"
    assert not await claims.is_controller(sender, epoch)


@played_by(run, gives=2)
async def test_nobody_is_believed_where_nobody_was_elected(claims: ControllerClaims, election: Election) -> None:
    assert not await claims.is_controller(2, 0)
    assert not await claims.is_controller(2, 5)
    await election.store.create(znodes.CONTROLLER, b"not JSON")
    assert not await claims.is_controller(2, 5)


@played_by(run, gives=2)
async def test_a_later_controller_replaces_an_earlier_one(claims: ControllerClaims, election: Election) -> None:
    await election.won_by(2, 5)
    assert await claims.is_controller(2, 5)
    await election.won_by(3, 6)
    assert await claims.is_controller(2, 5), "nobody has told of the next one yet"
    assert await claims.is_controller(3, 6)
    assert not await claims.is_controller(2, 5)


@played_by(run, gives=2)
async def test_our_own_controller_needs_no_proof_and_counts_until_another_is_heard(
    claims: ControllerClaims, election: Election
) -> None:
    assert claims.accept_own_epoch(5)
    assert claims.accept_own_epoch(5)
    assert not await claims.is_controller(OWN_ID, 5), "it speaks in process only"
    await election.won_by(2, 6)
    assert await claims.is_controller(2, 6)
    assert not claims.accept_own_epoch(5)
    assert not claims.accept_own_epoch(6)
    assert claims.accept_own_epoch(7)


class SilentStore:
    """Does not answer, or loses the connection."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    async def sync(self, path: str) -> None:
        if self._fails:
            raise ConnectionLossError(path)
        await asyncio.Event().wait()


@pytest.mark.parametrize("fails", [True, False])
async def test_without_the_store_the_higher_epoch_wins(fails: bool) -> None:
    claims = ControllerClaims(OWN_ID, SilentStore(fails=fails), timeout_s=0.01)  # type: ignore[arg-type]
    assert await claims.is_controller(2, 5)
    assert not await claims.is_controller(3, 5)
    assert not await claims.is_controller(3, 4)
    assert await claims.is_controller(3, 6)
    assert not await claims.is_controller(OWN_ID, 7)
