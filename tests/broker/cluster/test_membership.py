"""A broker's place under /brokers/ids: with each session, and while another one holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.cluster.membership import Membership
from metadata.store import znodes
from metadata.store.port import Create, Transaction
from metadata.store.registration import BrokerIdTakenError, ensure_persistent_paths
from metadata.store.znodes import BrokerRegistration, RegisteredEndpoint
from runtime.tasks import TaskScope
from tests.async_tests import played_by
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.store import Fault, SimulatedEnsemble, SimulatedStore

PATH = znodes.broker_path(1)


class Site:
    """One broker's membership; `epochs` and `losses` are what it told."""

    def __init__(self, loop: SimLoop, tasks: TaskScope) -> None:
        clock = SimClock(loop)
        self.ensemble = SimulatedEnsemble(clock, lambda: 0.001)
        self.store: SimulatedStore = self.ensemble.connect()
        self.epochs: list[int] = []
        self.losses: list[str] = []
        self.membership = Membership(
            self.store,
            lambda: BrokerRegistration(1, (RegisteredEndpoint("PLAINTEXT", "a", 9092),), clock.wall_ms()),
            self.epochs.append,
            self.losses.append,
            clock=clock,
            tasks=tasks,
            session_timeout_ms=6_000,
        )


def on_a_site(scenario: Callable[[SimLoop, Site], Awaitable[None]]) -> None:
    async def program(loop: SimLoop) -> None:
        async with TaskScope("test") as tasks:
            site = Site(loop, tasks)
            await ensure_persistent_paths(site.store)
            await scenario(loop, site)

    simulate(1, program)


@played_by(on_a_site, gives=2)
async def test_it_registers_and_its_epoch_is_that_of_the_node(loop: SimLoop, site: Site) -> None:
    assert not site.membership.is_registered
    await site.membership.join()
    stat = await site.store.exists(PATH)
    assert stat is not None
    assert site.epochs == [stat.czxid]
    assert site.membership.is_registered


@played_by(on_a_site, gives=2)
async def test_each_new_session_registers_again(loop: SimLoop, site: Site) -> None:
    await site.membership.join()
    for _ in range(2):
        site.ensemble.expire(site.store.session().session_id)
        await asyncio.sleep(1)
        assert site.membership.is_registered
    assert site.epochs == sorted(set(site.epochs))
    assert len(site.epochs) == 3
    stat = await site.store.exists(PATH)
    assert stat is not None
    assert stat.ephemeral_owner == site.store.session().session_id


@pytest.mark.parametrize("delay_ms", range(12))
@played_by(on_a_site, gives=2)
async def test_who_leaves_while_it_registers_again_is_gone(loop: SimLoop, site: Site, delay_ms: int) -> None:
    """Its session goes on until the logs are closed: so long it would be elected, and lead nothing."""
    await site.membership.join()
    site.ensemble.expire(site.store.session().session_id)
    await asyncio.sleep(delay_ms / 1000)
    await site.membership.leave()
    assert not site.membership.is_registered
    await asyncio.sleep(1)
    assert await site.store.exists(PATH) is None


@played_by(on_a_site, gives=2)
async def test_a_suspended_session_keeps_its_place(loop: SimLoop, site: Site) -> None:
    await site.membership.join()
    site.store.session().cut()
    await asyncio.sleep(1)
    site.store.session().mend()
    await asyncio.sleep(1)
    assert len(site.epochs) == 1
    assert site.membership.is_registered


@played_by(on_a_site, gives=2)
async def test_one_that_has_left_registers_no_more(loop: SimLoop, site: Site) -> None:
    await site.membership.join()
    await site.membership.leave()
    assert await site.store.exists(PATH) is None
    site.ensemble.expire(site.store.session().session_id)
    await asyncio.sleep(1)
    assert len(site.epochs) == 1
    assert await site.store.exists(PATH) is None


@played_by(on_a_site, gives=2)
async def test_leaving_takes_no_time_that_the_store_does_not_give(loop: SimLoop, site: Site) -> None:
    await site.membership.join()
    site.store.session().cut()
    began_s = loop.time()
    await site.membership.leave()
    assert loop.time() - began_s < 3


@played_by(on_a_site, gives=2)
async def test_an_earlier_session_is_waited_for(loop: SimLoop, site: Site) -> None:
    earlier = site.ensemble.connect()
    await earlier.create(PATH, b"{}", ephemeral=True)
    joining = asyncio.ensure_future(site.membership.join())
    await asyncio.sleep(5)
    assert not joining.done()
    assert await site.store.exists(PATH) is not None, "it is not ours to delete"
    site.ensemble.expire(earlier.session().session_id)
    began_s = loop.time()
    await joining
    assert loop.time() - began_s < 1


@played_by(on_a_site, gives=2)
async def test_another_broker_is_not_waited_for_for_ever(loop: SimLoop, site: Site) -> None:
    other = site.ensemble.connect()
    await other.create(PATH, b"{}", ephemeral=True)
    began_s = loop.time()
    with pytest.raises(BrokerIdTakenError):
        await site.membership.join()
    assert loop.time() - began_s == pytest.approx(36, abs=1)


@played_by(on_a_site, gives=2)
async def test_a_place_taken_between_two_sessions_is_told(loop: SimLoop, site: Site) -> None:
    await site.membership.join()
    other = site.ensemble.connect()
    site.ensemble.expire(site.store.session().session_id)
    await other.create(PATH, b"{}", ephemeral=True)
    await asyncio.sleep(60)
    assert len(site.losses) == 1
    assert "broker id 1 is registered by session" in site.losses[0]


@pytest.mark.parametrize("fault", list(Fault))
@played_by(on_a_site, gives=2)
async def test_a_lost_answer_is_looked_up(loop: SimLoop, site: Site, fault: Fault) -> None:
    faults = [fault, fault]

    def lose(_session_id: int, operations: Transaction) -> Fault | None:
        is_registration = isinstance(operations[0], Create) and operations[0].path == PATH
        return faults.pop() if faults and is_registration else None

    site.ensemble.fault = lose
    await site.membership.join()
    stat = await site.store.exists(PATH)
    assert stat is not None
    assert site.epochs == [stat.czxid]
