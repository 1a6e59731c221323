"""What goes wrong with a store server: it dies, loses power, stands still, has no room; clients die, are cut off, are slow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.simulation.faults import FaultKinds, draw_faults
from tests.simulation.store_server.client import StoreClient
from tests.simulation.store_server.machine import NAME
from tests.simulation.store_server.world import StoreWorld

USUAL_DELAY_MS = (0.05, 1.0)


class StoreFaults:
    def __init__(self, world: StoreWorld, clients: Sequence[StoreClient]) -> None:
        self._world = world
        self._clients = clients
        self._server_turn = asyncio.Lock()  # one thing at a time happens to a process
        self._client_turns = {client.name: asyncio.Lock() for client in clients}
        self._kinds: FaultKinds = [
            (5, self._process_crash),
            (3, self._power_loss),
            (2, self._restart),
            (2, self._pause),
            (4, self._full_disk),
            (3, self._kill_client),
            (3, self._pause_client),
            (4, self._cut),
            (2, self._one_way_cut),
            (2, self._slow_link),
            (2, self._resets),
            (2, self._slow_disk),
        ]

    async def run(self, count: int, within_s: float) -> None:
        await draw_faults(self._world, self._kinds, count, within_s, alone_probability=0.5)

    # --- the server ---

    async def _down_time(self) -> None:
        """Shorter and longer than a session."""
        await asyncio.sleep(self._world.random.choice((0.0, 0.3, 1.0, 6.0)) * self._world.random.uniform(0.5, 1.0))

    async def _crash(self, *, power: bool) -> None:
        async with self._server_turn:
            self._world.machine.crash(power=power)
            await self._down_time()
            await self._world.machine.start()

    async def _process_crash(self) -> None:
        await self._crash(power=False)

    async def _power_loss(self) -> None:
        await self._crash(power=True)

    async def _restart(self) -> None:
        async with self._server_turn:
            await self._world.machine.stop()
            await self._down_time()
            await self._world.machine.start()

    async def _pause(self) -> None:
        async with self._server_turn:
            self._world.machine.pause()
            await self._down_time()
            self._world.machine.resume()

    async def _full_disk(self) -> None:
        """Half of the times a client's process ends meanwhile, and the next one cannot end its session."""
        disk = self._world.machine.disk
        disk.is_full = True
        if self._world.random.random() < 0.5:
            await self._kill_client()
        await asyncio.sleep(self._world.random.uniform(0.2, 3.0))
        disk.is_full = False

    async def _slow_disk(self) -> None:
        async with self._server_turn:
            queue, rng = self._world.machine.queue, self._world.random
            assert queue is not None
            before = queue.min_delay_ms, queue.max_delay_ms
            queue.min_delay_ms, queue.max_delay_ms = 20.0, rng.choice((50.0, 400.0))
            await asyncio.sleep(rng.uniform(0.5, 3))
            queue.min_delay_ms, queue.max_delay_ms = before

    # --- its clients ---

    async def _kill_client(self) -> None:
        client = self._world.random.choice(self._clients)
        async with self._client_turns[client.name]:
            client.kill()
            await self._down_time()
            client.start()

    async def _pause_client(self) -> None:
        client = self._world.random.choice(self._clients)
        async with self._client_turns[client.name]:
            assert client.process is not None
            client.process.pause()
            await self._down_time()
            client.process.resume()
            self._world.network.resumed(client.name)

    def _some(self) -> list[StoreClient]:
        rng = self._world.random
        return rng.sample(list(self._clients), rng.choice((1, 1, len(self._clients))))

    async def _cut(self) -> None:
        some = self._some()
        for client in some:
            self._world.network.cut(client.name, NAME)
        await self._down_time()
        for client in some:
            self._world.network.mend(client.name, NAME)

    async def _one_way_cut(self) -> None:
        client = self._world.random.choice(self._clients)
        ends = [client.name, NAME]
        self._world.random.shuffle(ends)
        self._world.network.cut(*ends, one_way=True)
        await self._down_time()
        self._world.network.mend(*ends)

    async def _slow_link(self) -> None:
        network, rng = self._world.network, self._world.random
        client, max_delay_ms = rng.choice(self._clients), rng.choice((50.0, 300.0))
        network.slow(client.name, NAME, 1.0, max_delay_ms)
        network.slow(NAME, client.name, 1.0, max_delay_ms)
        await asyncio.sleep(rng.uniform(1, 4))
        network.slow(client.name, NAME, *USUAL_DELAY_MS)
        network.slow(NAME, client.name, *USUAL_DELAY_MS)

    async def _resets(self) -> None:
        self._world.network.reset_probability = self._world.random.choice((0.01, 0.1))
        await asyncio.sleep(self._world.random.uniform(0.5, 3))
        self._world.network.reset_probability = 0.0
