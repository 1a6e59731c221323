"""The real store server and real clients through seeded histories; and a story of a disk that is older than its clients.

Histories run in processes of their own, where sets of strings have one order.
"""

from __future__ import annotations

import asyncio

import pytest

from metadata.store.port import SessionEvent
from metadata.store.zookeeper.store import ZooKeeperStore
from tests.metadata.store.zookeeper_world import CONNECTED, TIMEOUT_MS, Client, open_client
from tests.simulation.as_process import simulation
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.network import SimNetwork
from tests.simulation.store_server.machine import CONNECT, StoreMachine

SEEDS = 10


@pytest.mark.timeout(400)
def test_histories_hold() -> None:
    ran = simulation("--store", "--seeds", str(SEEDS))
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.timeout(200)
def test_a_seed_is_the_same_history_in_another_process() -> None:
    one, again = simulation("--store", "--seed", "3"), simulation("--store", "--seed", "3")
    assert "trace" in one.stdout, one.stderr
    assert one.stdout == again.stdout


@pytest.mark.timeout(400)
def test_planted_bugs_are_found_and_named_with_the_seed() -> None:
    names = ["reply-before-commit", "sessions-forgotten", "ephemerals-stay", "event-behind-reply", "last-write-dropped",
             "full-disk-is-final", "refused-commit-stays", "refused-end-forgotten"]  # fmt: skip
    ran = simulation("--store", "--within", "20", "--mutants", *names)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == len(names)


def test_a_client_that_has_seen_more_than_the_disk_has_is_refused() -> None:
    """Somebody has put an older copy of the file in its place. The client must not be shown the past; one that has seen
    nothing is served."""

    async def program(loop: SimLoop) -> None:
        network = SimNetwork(loop)
        machine = StoreMachine(loop, network)
        await machine.start()
        one = await client_of(loop, network, "one")
        await one.store.create("/a", b"old")
        backup = machine.disk.copied()
        for _ in range(20):
            await one.store.set("/a", b"new")
        machine.crash()
        machine.disk = backup
        await machine.start()
        two = await client_of(loop, network, "two")
        assert (await two.store.get("/a"))[0] == b"old"
        reading = asyncio.ensure_future(one.store.get("/a"))
        await asyncio.sleep(2)
        assert not reading.done()
        assert one.events == [SessionEvent.SUSPENDED]
        for number in range(20):  # until the disk has as much
            await two.store.create(f"/{number}")
        await one.hears(CONNECTED)
        assert (await reading)[0] == b"old"

    simulate(1, program)


def test_a_session_that_a_full_disk_keeps_open_ends_by_its_timeout() -> None:
    """Its client has closed it and is gone."""

    async def program(loop: SimLoop) -> None:
        network = SimNetwork(loop)
        machine = StoreMachine(loop, network)
        await machine.start()
        one, two = await client_of(loop, network, "one"), await client_of(loop, network, "two")
        await one.store.create("/mine", ephemeral=True)
        machine.disk.is_full = True
        await one.store.close()
        machine.disk.is_full = False
        assert await two.store.exists("/mine") is not None
        await asyncio.sleep(2 * TIMEOUT_MS / 1000)
        assert await two.store.exists("/mine") is None
        assert machine.tree is not None
        assert list(machine.tree.sessions) == [two.store.session().session_id]

    simulate(1, program)


async def client_of(loop: SimLoop, network: SimNetwork, name: str) -> Client:
    client = await open_client(CONNECT, network=network.node(name), clock=SimClock(loop), rng=loop.random)
    assert isinstance(client.store, ZooKeeperStore)
    return client
