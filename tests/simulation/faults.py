"""What goes wrong: crashes, disks and networks; of one broker one after another, each ended before the next begins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.simulation.broker_world import BROKER, BrokerWorld
from tests.simulation.machine import End
from tests.simulation.world import BareWorld

WAIT_FOR_CALL_S = 4.0  # for a crash in the n-th call to the file system

FaultKinds = list[tuple[int, Callable[[], Awaitable[None]]]]
"""How often each is drawn, in relation to the others."""


async def draw_faults(
    world: BareWorld, kinds: FaultKinds, count: int, within_s: float, *, alone_probability: float = 1.0
) -> None:
    """`count` faults, spread over about `within_s`. With `alone_probability` one ends before the next is drawn; else others
    may come beside it."""
    rng = world.random
    weights = [weight for weight, _ in kinds]
    under_way: list[asyncio.Future[None]] = []
    for _ in range(count):
        await asyncio.sleep(rng.expovariate(count / within_s))
        [(_, kind)] = rng.choices(kinds, weights)
        if alone_probability == 1.0:
            await _happens(world, kind)
            continue
        fault = asyncio.ensure_future(_happens(world, kind))
        under_way.append(fault)
        if rng.random() < alone_probability:
            await asyncio.wait((fault,))
    await asyncio.gather(*under_way)
    world.loop.note("no more faults")


async def _happens(world: BareWorld, kind: Callable[[], Awaitable[None]]) -> None:
    name = kind.__name__.strip("_")
    with world.fault(name):
        await kind()
        world.count(f"fault: {name}")


class Faults:
    def __init__(self, world: BrokerWorld, client_names: list[str]) -> None:
        self._world = world
        self._client_names = client_names
        self._kinds: FaultKinds = [
            (4, self._process_crash),
            (4, self._crash_in_call),
            (4, self._power_crash),
            (2, self._crash_while_starting),
            (3, self._clean_restart),
            (2, self._slow_disk),
            (2, self._full_disk),
            (2, self._broken_disk),
            (1, self._missing_directory),
            (2, self._resets),
            (2, self._slow_network),
            (2, self._cut_network),
        ]

    async def run(self, count: int, within_s: float) -> None:
        await draw_faults(self._world, self._kinds, count, within_s)

    async def start(self) -> None:
        """Until the broker serves. Without a fault of the disk it must, at once."""
        while True:
            self._world.has_disk_fault = False
            if await self._world.machine.start():
                return
            ended = await self._world.machine.ended()
            if ended.how is not End.FAILED:
                return

    async def _down_time(self) -> None:
        await asyncio.sleep(self._world.random.uniform(0.0, 2.0))

    # --- crashes ---

    async def _fall_behind(self) -> None:
        """Two times of three the disk is far behind with its work when the crash comes: with everything, or with what
        the threads do alone, while writes go on."""
        disk, rng = self._world.machine.disk, self._world.random
        how = rng.choice(("prompt", "slow", "unflushed"))
        if disk is None or how == "prompt":
            return
        if how == "slow":
            disk.slow_probability = rng.choice((0.1, 1.0))
            disk.max_delay_ms = rng.choice((100.0, 1_000.0))
        else:
            disk.readers_delay_ms = rng.choice((1_000.0, 5_000.0))
        await asyncio.sleep(rng.uniform(0.1, 2.5))

    async def _process_crash(self) -> None:
        await self._fall_behind()
        self._world.machine.crash()
        await self._down_time()
        await self.start()

    async def _power_crash(self) -> None:
        await self._fall_behind()
        self._world.machine.crash(power=True)
        await self._down_time()
        await self.start()

    async def _crash_in_call(self) -> None:
        rng, machine = self._world.random, self._world.machine
        power = rng.random() < 0.5
        machine.crash_in_call(rng.randint(1, 150), power=power)
        try:
            async with asyncio.timeout(WAIT_FOR_CALL_S):
                await machine.ended()
            self._world.count("crashes in a call")
        except TimeoutError:
            machine.crash(power=power)
        await self._down_time()
        await self.start()

    async def _crash_while_starting(self) -> None:
        """Recovery itself is cut short, some times in a row."""
        rng, machine = self._world.random, self._world.machine
        machine.crash(power=rng.random() < 0.5)
        for _ in range(rng.randint(1, 3)):
            served = machine.start()
            machine.crash_in_call(rng.randint(1, 120), power=rng.random() < 0.5)
            if await served:
                machine.crash(power=rng.random() < 0.5)
            else:
                self._world.count("crashes while starting")
        await self.start()

    async def _clean_restart(self) -> None:
        ended = await self._world.machine.stop()
        if ended.how is not End.STOPPED and not self._world.has_disk_fault:
            self._world.report(f"the broker did not stop: {ended.reason}")
        await self._down_time()
        await self.start()

    # --- the disk ---

    async def _slow_disk(self) -> None:
        disk, rng = self._world.machine.disk, self._world.random
        assert disk is not None
        before = disk.slow_probability, disk.max_delay_ms
        disk.slow_probability, disk.max_delay_ms = 1.0, rng.choice((50.0, 400.0))
        await asyncio.sleep(rng.uniform(1, 4))
        disk.slow_probability, disk.max_delay_ms = before

    async def _full_disk(self) -> None:
        rng, storage = self._world.random, self._world.machine.storage
        self._world.has_disk_fault = True
        storage.capacity_bytes = storage.used_bytes + rng.choice((0, 500, 20_000))
        await asyncio.sleep(rng.uniform(1, 4))
        storage.capacity_bytes = None
        await self._after_disk_fault()

    async def _broken_disk(self) -> None:
        rng, storage = self._world.random, self._world.machine.storage
        self._world.has_disk_fault = True
        paths = [path for path, _ in storage.contents(durable=False)]
        storage.fail(rng.choice(["/data/a", "/data/b", *paths]))
        await asyncio.sleep(rng.uniform(0.2, 3))
        storage.repair()
        await self._after_disk_fault()

    async def _missing_directory(self) -> None:
        """The broker starts without one of its directories, and gets it back at the start after that."""
        machine, rng = self._world.machine, self._world.random
        if rng.random() < 0.5:
            await machine.stop()
        else:
            machine.crash(power=rng.random() < 0.5)
        self._world.has_disk_fault = True
        machine.storage.fail(rng.choice(("/data/a", "/data/b")))
        if await machine.start():
            self._world.count("starts without a directory")
            await asyncio.sleep(rng.uniform(1, 4))
        machine.storage.repair()
        await self._after_disk_fault()

    async def _after_disk_fault(self) -> None:
        """Whatever is left of the broker is started anew: a directory that has failed stays offline."""
        machine = self._world.machine
        if machine.is_running:
            await (machine.stop() if machine.is_serving else machine.ended())
        await self._down_time()
        await self.start()

    # --- the network ---

    async def _resets(self) -> None:
        rng = self._world.random
        self._world.network.reset_probability = rng.choice((0.01, 0.1))
        await asyncio.sleep(rng.uniform(0.5, 4))
        self._world.network.reset_probability = 0.0

    async def _slow_network(self) -> None:
        network, rng = self._world.network, self._world.random
        max_delay_ms = rng.choice((50.0, 500.0))
        for name in self._client_names:
            network.slow(name, BROKER, 1.0, max_delay_ms)
            network.slow(BROKER, name, 1.0, max_delay_ms)
        await asyncio.sleep(rng.uniform(1, 4))
        for name in self._client_names:
            network.slow(name, BROKER, 0.05, 1.0)
            network.slow(BROKER, name, 0.05, 1.0)

    async def _cut_network(self) -> None:
        network, rng = self._world.network, self._world.random
        for name in rng.sample(self._client_names, rng.randint(1, len(self._client_names))):
            one_way = rng.random() < 0.3
            source, target = (name, BROKER) if rng.random() < 0.5 else (BROKER, name)
            network.cut(source, target, one_way=one_way)
        await asyncio.sleep(rng.choice((0.5, 3.0, 18.0)))
        network.heal()
