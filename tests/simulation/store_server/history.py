"""One history of the store server: clients and faults from one seed, then peace, then the reckoning.

    clients and faults, 20 to 40 s -> quiet: everybody must get through -> only what lives is left -> restart -> read all

A history ends with the first broken promise. All time is virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.history import Outcome, play
from tests.simulation.store_server.checkers.registers import MISSING
from tests.simulation.store_server.client import StoreClient
from tests.simulation.store_server.faults import StoreFaults
from tests.simulation.store_server.world import LIVE, StoreWorld

CLIENTS = 3
TIMEOUTS_MS = (1_500, 2_500, 4_000)
PEACE_S = 8.0  # longer than any session lasts without its client, and a connection that a cut has left
QUIET_S = 30.0


def run(seed: int) -> Outcome:
    """The history of `seed`."""
    return play(seed, StoreWorld, _unwatched, _story)


@contextmanager
def _unwatched(_world: StoreWorld) -> Iterator[None]:
    """Nothing is counted that the world does not see itself."""
    yield


async def _story(world: StoreWorld) -> None:
    rng = world.random
    await world.machine.start()
    clients = [StoreClient(world, f"client{number}", rng.choice(TIMEOUTS_MS)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    await StoreFaults(world, clients).run(rng.randint(6, 12), rng.uniform(20, 40))
    await asyncio.sleep(PEACE_S)
    _reckon_sessions(world, clients)
    world.is_quiet = True
    world.loop.note("quiet")
    try:
        async with asyncio.timeout(QUIET_S):
            for client in clients:
                await client.over()
    except TimeoutError:
        world.report(f"{client.name} cannot finish, {QUIET_S} s after the last fault")
        await asyncio.Event().wait()
    await world.machine.stop()
    await world.machine.start()
    _reckon_disk(world)
    world.count("virtual seconds", round(world.loop.time()))
    disk = world.machine.disk
    world.count("starts of the server", world.machine.starts_count)
    world.count("commits", disk.commits_count)
    world.count("commits that writes shared", disk.shared_commits_count)
    world.count("commits that a full disk refused", disk.refused_count)


def _reckon_sessions(world: StoreWorld, clients: list[StoreClient]) -> None:
    """Only the sessions of clients that live are left."""
    assert world.machine.tree is not None
    living = {client.store.session().session_id: client.name for client in clients if client.store is not None}
    for session_id in world.machine.tree.sessions:
        if session_id not in living:
            world.report(f"session {session_id:#x} goes on without a client")
    if len(living) < len(clients):
        world.report(f"in peace only {sorted(living.values())} have a session")


def _reckon_disk(world: StoreWorld) -> None:
    """All clients have closed their sessions; the disk has what they have read last."""
    disk = world.machine.disk
    if disk.sessions or any(path.startswith(f"{LIVE}/") for path in disk.nodes):
        world.report(f"sessions {list(disk.sessions)} are left, with {[p for p in disk.nodes if p.startswith(LIVE)]}")
    for path in world.registers.paths():
        node = disk.nodes.get(path)
        world.registers.read(path, MISSING if node is None else node.data, "the next start")
